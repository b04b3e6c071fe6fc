"""Convolutions and pooling on the CPU: fusions of kind "conv" and "window"."""

from trilobite.compiler.targets.cpu.conv.lower import accepts, lower

from trilobite.compiler.targets.cpu.conv import pooling  # isort: skip

__all__ = ["accepts", "lower", "pooling"]
