"""Caffe networks as ONNX models."""

from trilobite.inference.formats.caffe.convert import convert

__all__ = ["convert"]
