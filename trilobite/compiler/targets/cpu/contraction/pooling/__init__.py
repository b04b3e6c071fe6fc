"""Pooling: fusions of kind "window".

Enters: a region whose root is a window. Leaves: kernels and steps. May import what `contraction` may. Read
`lower.py` first.
"""
