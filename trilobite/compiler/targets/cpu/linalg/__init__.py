"""Linear algebra on the CPU: fusions of kind "linalg", which are one `lu` or `triangular_solve`."""

from trilobite.compiler.targets.cpu.linalg.lower import accepts, lower

__all__ = ["accepts", "lower"]
