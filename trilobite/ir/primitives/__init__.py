"""The table of primitives: importing this room defines them all."""

from trilobite.ir.primitive import table
from trilobite.ir.primitives import (
    bits,
    call,
    cast,
    comparison,
    complex,
    cond,
    conv,
    creation,
    cumulative,
    dot,
    dynamic,
    effects,
    elementwise,
    exponential,
    gather,
    quantise,
    random,
    reduction,
    scan,
    scatter,
    scatter_reduce,
    shape,
    sorting,
    special,
    trigonometric,
    while_loop,
    window,
)

__all__ = [
    "bits", "call", "cast", "comparison", "complex", "cond", "conv", "creation", "cumulative", "dot",
    "dynamic", "effects", "elementwise", "exponential", "gather", "quantise", "random", "reduction", "scan",
    "scatter", "scatter_reduce", "shape", "sorting", "special", "trigonometric", "while_loop", "window",
    "table",
]  # fmt: skip
