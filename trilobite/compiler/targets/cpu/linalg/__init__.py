"""Linear algebra on the CPU: fusions of kind "linalg", one `lu` or `triangular_solve`.

Enters: one equation. Leaves: a kernel and its step. May import `contraction` and `kernel` of this target,
`compiler.program`, `ir` and `native`. Read `lower.py` first.
"""
