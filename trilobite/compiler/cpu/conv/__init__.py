"""Convolutions and pooling on the CPU: fusions of kind "conv" and "window"."""

from trilobite.compiler.cpu.conv.lower import accepts, lower

__all__ = ["accepts", "lower"]
