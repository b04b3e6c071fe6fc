"""Kernels that are no contractions: passes over vectors, moves of data, reductions, gathers, sorts.

Enters: a group and a machine, from `lower.py`. Leaves: a function of kernel IR. `passes.py` first. May import
`contraction`, `vector`, `writer` and `interfaces` of this target, and `processor`. Read `passes.py` first.
"""
