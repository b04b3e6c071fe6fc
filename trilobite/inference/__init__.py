"""Inference: model files in and out, and the engine that runs them.

session = tb.inference.load("model.onnx", target="cpu")
session.run({"x": array})["y"]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trilobite.inference.export import export
from trilobite.inference.reader import read
from trilobite.inference.session import Session, load

if TYPE_CHECKING:
    from trilobite.inference.bundle.build import build
    from trilobite.inference.bundle.opening import open_bundle
    from trilobite.inference.optimise import Optimised, optimize

__all__ = ["Optimised", "Session", "build", "export", "load", "open_bundle", "optimize", "read"]

_LATER = {
    "Optimised": "optimise",
    "build": "bundle",
    "open_bundle": "bundle",
    "optimize": "optimise",
}  # imported when first asked for: who runs a model needs neither


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = found
    return found
