"""Attention that is kept whole: fusions of kind "attention"; `lower.py` first."""
