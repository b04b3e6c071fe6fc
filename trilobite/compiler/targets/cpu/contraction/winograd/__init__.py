"""3x3 convolutions of floats by tiles of outputs, after Winograd; `steps.py` first."""
