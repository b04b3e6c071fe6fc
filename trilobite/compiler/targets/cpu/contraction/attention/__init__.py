"""Attention that is kept whole: fusions of kind "attention".

Enters: a call of the composite, and its gradient. Leaves: kernels and steps. May import what `contraction`
may. Read `lower.py` first.
"""
