"""Matrix products on the CPU: fusions of kind "dot"."""

from trilobite.compiler.targets.cpu.gemm.lower import accepts, lower

__all__ = ["accepts", "lower"]
