"""`tb.utils`: what PyTorch keeps under this name: data and checkpoint."""

from trilobite.framework.pytorch.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
