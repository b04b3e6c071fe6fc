"""Convolutions and products of bytes; `steps.py` first."""
