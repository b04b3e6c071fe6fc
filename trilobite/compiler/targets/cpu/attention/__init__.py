"""Attention in single passes over memory: kernels of the composite and its two halves; `lower.py` first."""
