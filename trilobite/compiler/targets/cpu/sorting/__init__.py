"""Order on the CPU: fusions of kind "sorting", which are one `sort` or `top_k`."""

from trilobite.compiler.targets.cpu.sorting.lower import accepts, lower

__all__ = ["accepts", "lower"]
