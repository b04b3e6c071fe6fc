"""Vectorised mathematical functions: the table of them, and how exact they are.

Each is a function (text, *values) -> value of float or double and any number of lanes. `ULPS` states the
largest error of each, in units of the last place of the exact result, for float and for double; the tests
hold every function to it, for float over all 2^32 numbers. The functions do not round small formats: they
compute in float.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.compiler.targets.cpu.emit import circular, exponential, gamma, logarithm, special
from trilobite.native.llvm.text import Value

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
    "erf_inv": gamma.erf_inv,
    "lgamma": gamma.lgamma,
    "digamma": gamma.digamma,
    "pow": special.power,
    "hypot": special.hypot,
    "rsqrt": special.rsqrt,
}

# The largest error in units of the last place, of float and of double. Where terms cancel (in logaddexp, and
# in lgamma and digamma of negative numbers) it is the last place of the larger term.
ULPS: dict[str, tuple[float, float]] = {
    "exp": (1.05, 1.1),
    "exp2": (1.05, 1.2),
    "expm1": (1.6, 2.4),
    "sigmoid": (2.5, 2.6),
    "tanh": (2.8, 2.8),
    "sinh": (0.51, 3.2),
    "cosh": (0.51, 3.2),
    "log": (0.9, 0.85),
    "log2": (2.0, 1.9),
    "log10": (2.0, 2.0),
    "log1p": (0.9, 0.9),
    "logaddexp": (2.0, 2.0),
    "asinh": (0.51, 1.9),
    "acosh": (0.51, 2.7),
    "atanh": (0.51, 2.2),
    "sin": (1.7, 2.6),
    "cos": (1.7, 2.6),
    "tan": (3.8, 4.0),
    "asin": (2.5, 2.4),
    "acos": (1.3, 1.3),
    "atan": (1.75, 2.5),
    "atan2": (1.9, 2.5),
    "erf": (1.4, 2.0),
    "erfc": (0.7, 8.0),
    "erf_inv": (0.6, 6.0),
    "lgamma": (0.6, 10.0),
    "digamma": (0.6, 6.0),
    "pow": (0.51, 6.0),
    "hypot": (0.51, 1.3),
    "rsqrt": (1.5, 1.5),
}
