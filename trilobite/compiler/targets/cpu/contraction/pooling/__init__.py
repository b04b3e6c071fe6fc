"""Pooling: fusions of kind "window"; `lower.py` first."""
