"""Lobe 1: how a network is written and trained.

Enters: the user's Python. Leaves: tensors, gradients, and graphs that `jit` hands to a target. May import
`compiler.targets.contract`, `compiler.targets.registry` and `compiler.graph`, `ir`, `native`, `base`; of a
target it knows the name. Read `tensor.py` first, then `ops/registry.py`, then `jit.py`; `namespace.py` lists
what `tb.` offers.
"""
