"""Products and convolutions on the matrix unit: mappings, their cost, their search, and kernels from them."""

from trilobite.compiler.targets.dlp.contraction.lower import accepts, lower_contraction, preferred

__all__ = ["accepts", "lower_contraction", "preferred"]
