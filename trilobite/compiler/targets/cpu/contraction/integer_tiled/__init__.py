"""3x3 convolutions of bytes by tiles of outputs; `steps.py` first."""
