"""Gradients of convolutions in their weight.

Enters: a `Problem`. Leaves: kernels and steps. May import what `contraction` may. Read `steps.py` first.
"""
