"""The table of primitives: importing this room defines them all."""

from trilobite.ir.primitive import table
from trilobite.ir.primitives import (
    bits,
    call,
    cast,
    comparison,
    complex,
    cond,
    creation,
    cumulative,
    dot,
    elementwise,
    exponential,
    random,
    reduction,
    scan,
    shape,
    trigonometric,
    while_loop,
)

__all__ = [
    "bits", "call", "cast", "comparison", "complex", "cond", "creation", "cumulative", "dot", "elementwise",
    "exponential", "random", "reduction", "scan", "shape", "trigonometric", "while_loop", "table",
]  # fmt: skip
