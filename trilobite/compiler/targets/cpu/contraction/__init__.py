"""Sums of products: matrix products, convolutions, pooling and attention, one folder for each algorithm.

Enters: fusions whose root is one of them. Leaves: kernels and steps. What the algorithms share stands here:
how a convolution is rows gathered by taps (`problem`, `gather`), the register tile (`tile`, `tiling`), the
words of a kernel (`words`), the last store (`finish`). Read `gemm/lower.py` first, then `convolution.py`. May
import `emit`, `epilogue`, `kernel`, `copying`, `primitives` and `tuning` of this target, `compiler.program`,
`ir` and `native`.
"""
