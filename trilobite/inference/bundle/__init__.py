"""Bundles: a model, its weights and compiled code in one file, ready to run."""

from trilobite.inference.bundle.build import build
from trilobite.inference.bundle.opening import open_bundle

__all__ = ["build", "open_bundle"]
