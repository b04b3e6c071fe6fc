"""Convolutions of images whose channels are planes; `steps.py` first."""
