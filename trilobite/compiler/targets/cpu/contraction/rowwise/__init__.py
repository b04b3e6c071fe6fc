"""Whatever combines gathered rows and keeps channels apart: pooling, small channelwise convolutions.

Enters: a `Problem` and how rows are combined. Leaves: kernels and steps. May import what `contraction` may.
Read `steps.py` first.
"""
