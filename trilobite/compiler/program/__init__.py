"""Graphs of fusions to programs: kernels in order, and where in memory every value lies.

Enters: a fused graph, and what each kind of fusion becomes (`Lowering`). Leaves: a `Program`, whose kernels
are opaque here: a target writes, loads and runs them. May import `compiler.graph`, `ir` and below. Read
`kernels.py` first, then `plan.py`.
"""
