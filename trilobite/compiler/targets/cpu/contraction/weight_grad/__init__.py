"""Gradients of convolutions in their weight; `steps.py` first."""
