"""Convolutions with one filter per channel, and their gradients.

Enters: a `Problem` with one filter per channel. Leaves: kernels and steps. May import what `contraction` may.
Read `steps.py` first.
"""
