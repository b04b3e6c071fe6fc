"""A function's derivative at a point as a linear function of its own: `linearize` and its transpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.framework.transforms import jvp, vjp


def linearize(fn: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """fn(*primals), and the function that maps tangents of the arguments to the tangent of the result. It
    runs fn again in forward mode; inside `jit` what depends on the primals alone is computed once.
    """
    out = fn(*primals)

    def along(*tangents: Any) -> Any:
        return jvp(fn, primals, tangents)[1]

    return out, along


def linear_transpose(fn: Callable[..., Any], *examples: Any) -> Callable[[Any], Any]:
    """The transpose of a linear function: from cotangents of its result to those of its arguments."""
    return lambda ct: vjp(fn, *examples)[1](ct)
