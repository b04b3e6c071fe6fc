"""Automatic plans: which mesh, which splits, how many stages, for a model and a cluster.

Enters: a training step over whole tensors, and what the machines can do (`machines.py`, measured or
described). Leaves: a plan (`search.py`) with its predicted time and memory per rank (`prediction.py`), which
can be applied, printed, or only looked at, for meshes that nobody here has.
"""
