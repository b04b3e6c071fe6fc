"""Models out: framework modules and functions as ONNX."""

from trilobite.inference.export.api import export

__all__ = ["export"]
