"""Convolutions of images whose channels are planes.

Enters: a convolution whose operands lie as they are written. Leaves: kernels and steps. May import what
`contraction` may. Read `steps.py` first.
"""
