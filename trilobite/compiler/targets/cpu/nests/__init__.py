"""Fusions of kind "loops": elementwise work, broadcasts, reductions, moved data; `lower.py` first."""
