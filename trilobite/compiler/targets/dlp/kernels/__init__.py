"""Kernels that are no contractions: passes over vectors, moves, reductions, gathers, sorts, attention.

Enters: a group and a machine, from `lower.py`. Leaves: a function of kernel IR. May import `contraction`,
`vector`, `writer`, `interfaces` and `shapes` of this target, `processor` and `ir`. Read `passes.py` first.
"""
