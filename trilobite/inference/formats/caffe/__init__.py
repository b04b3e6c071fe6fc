"""Caffe networks as ONNX models, and the blobs of a caffemodel by name."""

from trilobite.inference.formats.caffe.convert import convert
from trilobite.inference.formats.caffe.weights import named as weights

__all__ = ["convert", "weights"]
