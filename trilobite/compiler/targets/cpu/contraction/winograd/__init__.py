"""3x3 convolutions of floats by tiles of outputs, after Winograd.

Enters: a 3x3 `Problem`. Leaves: three steps a chunk: to points, products, back. May import what `contraction`
may. Read `steps.py` first.
"""
