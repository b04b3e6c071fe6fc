"""TFLite files as ONNX models."""

from trilobite.inference.formats.tflite.convert import convert

__all__ = ["convert"]
