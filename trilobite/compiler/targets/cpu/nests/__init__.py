"""Fusions of kind "loops": elementwise work, broadcasts, reductions, moved data.

Enters: a region. Leaves: loop nests with their schedules, and from these kernels and steps. May import
`loops`, `emit`, `kernel` and `tuning` of this target, `compiler.program`, `ir` and `native`. Read `lower.py`
first, then `reader.py`.
"""
