"""The target `cpu`: native code for this machine.

Enters: a graph, through `target.py`. Leaves: an `Executable`: programs of native kernels, and the weights
that it keeps packed. May import `compiler.program`, `compiler.graph`, `ir`, `native` and below. Read
`target.py` first, then `graph_to_program.py` and `runner.py` (how a program runs); kinds of kernels stand in
`kinds.py`.
"""
