"""The target `cpu`: native code for this machine.

Enters: a graph, through `target.py`. Leaves: an `Executable`: programs of native kernels, and the weights
that it keeps packed. May import `compiler.program`, `compiler.graph`, `ir`, `native` and below. Read
`target.py` first, then `making.py` (how a graph becomes programs) and `runner.py` (how one runs); kinds of
kernels stand in `kinds.py`.
"""
