"""Lobe 1: how a network is written and trained.

Enters: the user's Python. Leaves: tensors, gradients, and graphs that `jit` hands to a target. May import
`compiler.targets.contract` and `registry`, `ir`, `native`, `base`; of a target it knows the name. Read
`tensor.py` first, then `ops/registry.py`, then `jit.py`; `namespace.py` lists what `tb.` offers.
"""
