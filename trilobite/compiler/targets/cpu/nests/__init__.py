"""Fusions of kind "loops": regions of elementwise, broadcast, reduction and data-movement primitives."""

from trilobite.compiler.targets.cpu.nests.classes import classify
from trilobite.compiler.targets.cpu.nests.lower import accepts, lower

__all__ = ["accepts", "classify", "lower"]
