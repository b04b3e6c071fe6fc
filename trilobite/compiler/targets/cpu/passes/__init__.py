"""The CPU's own passes: layouts of convolutions, weights in panels, products of bytes, batches in slices.

Enters: a graph in simple terms. Leaves: one in the CPU's own primitives (`../primitives`). Which of them run
when, `../stages.py` says. Read `layout.py` first. May import `primitives` and `contraction` of this target
(sizes of tiles), `compiler.graph`, `ir` and `native`.
"""
