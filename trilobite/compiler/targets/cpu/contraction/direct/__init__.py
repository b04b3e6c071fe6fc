"""The direct convolution: an indirect matrix product over pixels.

Enters: a `Problem`. Leaves: kernels and steps. May import what `contraction` may. Read `steps.py` first, then
`kernel.py`.
"""
