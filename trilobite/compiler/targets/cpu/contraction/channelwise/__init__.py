"""Convolutions with one filter per channel, and their gradients; `steps.py` first."""
