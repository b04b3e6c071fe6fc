"""Attention as single passes over memory: kernels of the composite and of its two halves."""

from trilobite.compiler.targets.cpu.attention.lower import accepts, claims, lower

__all__ = ["accepts", "claims", "lower"]
