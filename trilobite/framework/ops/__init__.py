"""The operator table, filled: importing this room defines every operation and gives Tensor its methods."""

from trilobite.framework.methods import attach
from trilobite.framework.ops import arithmetic, creation, inplace, linear, reducing, shaping
from trilobite.framework.ops.registry import operators

attach()

__all__ = ["arithmetic", "creation", "inplace", "linear", "operators", "reducing", "shaping"]
