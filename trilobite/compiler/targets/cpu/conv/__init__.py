"""Convolutions and pooling: fusions of kind "conv" (`lower.py` first) and "window" (`pooling.py`)."""
