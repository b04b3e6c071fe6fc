"""Vectorised mathematical functions: the table of them, and how exact they are.

Each is a function (text, *values) -> value of float or double and any number of lanes. `ULPS` states the
largest error of each, in units of the last place of the exact result, for float and for double; the tests
hold every function to it, for float over all 2^32 numbers. The functions do not round small formats: they
compute in float.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.compiler.cpu.emit import circular, exponential, logarithm, special
from trilobite.compiler.cpu.emit.text import Value

FUNCTIONS: dict[str, Callable[..., Value]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "sigmoid": exponential.sigmoid,
    "tanh": exponential.tanh,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "logaddexp": logarithm.logaddexp,
    "asinh": logarithm.asinh,
    "acosh": logarithm.acosh,
    "atanh": logarithm.atanh,
    "sin": circular.sin,
    "cos": circular.cos,
    "tan": circular.tan,
    "asin": circular.asin,
    "acos": circular.acos,
    "atan": circular.atan,
    "atan2": circular.atan2,
    "erf": special.erf,
    "erfc": special.erfc,
    "pow": special.power,
    "hypot": special.hypot,
    "rsqrt": special.rsqrt,
}
