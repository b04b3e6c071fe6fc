"""The direct convolution: an indirect matrix product over pixels; `steps.py` first."""
