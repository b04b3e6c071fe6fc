"""Products and convolutions on the matrix unit: mappings, their cost, their search, and kernels from them."""

from trilobite.compiler.targets.dlp.contraction.lower import (
    accepts,
    expected_cycles,
    lower_contraction,
    preferred,
)

__all__ = ["accepts", "expected_cycles", "lower_contraction", "preferred"]
