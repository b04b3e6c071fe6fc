"""Nests as polyhedra: exact dependence, any affine order of iterations, automatic skewing and tiling.

Enters: a nest. Leaves: pairs of iterations that meet (`meet`), and nests whose iterations run in another
order (`reorder`). The sets and their arithmetic are those of isl, by islpy, which is optional (the extra
`polyhedral`): without it `dependence` beside this folder decides alone, on the safe side. Read `model.py`
first. May import `compiler.targets.cpu.loops` and `base`.
"""
