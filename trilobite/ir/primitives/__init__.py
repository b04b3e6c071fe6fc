"""The table of primitives: importing this room defines them all."""

from trilobite.ir.primitives import call, control, creation, dot, elementwise, random, reduction, shape
from trilobite.ir.primitive import table

__all__ = ["call", "control", "creation", "dot", "elementwise", "random", "reduction", "shape", "table"]
