"""3x3 convolutions of bytes by tiles of outputs.

Enters: a 3x3 `Problem` over bytes. Leaves: three steps a chunk. May import what `contraction` may. Read
`steps.py` first.
"""
