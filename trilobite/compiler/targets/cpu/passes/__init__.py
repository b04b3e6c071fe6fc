"""The CPU's own passes: layouts of convolutions, weights in panels, products of bytes, batches in slices.

Enters: a graph in simple terms. Leaves: one in the CPU's own primitives (`../primitives`). Which of them run
when, `../stages.py` says. Read `layout.py` first. May import `primitives`, `contraction` (sizes of tiles)
and `emit` (what instructions there are) of this target, `compiler.graph`, `ir` and `native`.
"""
