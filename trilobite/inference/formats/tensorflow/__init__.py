"""Frozen TensorFlow graphs as ONNX models."""

from trilobite.inference.formats.tensorflow.convert import convert

__all__ = ["convert"]
