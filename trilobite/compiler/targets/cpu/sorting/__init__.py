"""Order on the CPU: fusions of kind "sorting", which are one `sort` or `top_k`.

Enters: one equation. Leaves: a kernel and its step. May import `contraction` and `kernel` of this target,
`compiler.program`, `ir` and `native`. Read `lower.py` first.
"""
