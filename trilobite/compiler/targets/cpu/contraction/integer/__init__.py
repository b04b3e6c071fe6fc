"""Convolutions and products of bytes.

Enters: a `Problem` over bytes. Leaves: kernels and steps. May import what `contraction` may. Read `steps.py`
first, then `kernel.py`.
"""
