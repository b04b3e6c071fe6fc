"""Keras files: networks as ONNX models, and weights by name."""

from trilobite.inference.formats.keras.archive import weights
from trilobite.inference.formats.keras.convert import convert

__all__ = ["convert", "weights"]
