"""Order on the CPU: fusions of kind "sorting", which are one `sort` or `top_k`; `lower.py` first."""
