"""Inference: model files in and out, and the engine that runs them.

session = tb.inference.load("model.onnx", target="cpu")
session.run({"x": array})["y"]
"""

from trilobite.inference.bundle import build, open_bundle
from trilobite.inference.export import export
from trilobite.inference.optimise import Optimised, optimize
from trilobite.inference.reader import read
from trilobite.inference.session import Session, load

__all__ = ["Optimised", "Session", "build", "export", "load", "open_bundle", "optimize", "read"]
