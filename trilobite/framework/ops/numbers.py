"""Numbers where a line is expected: without dimensions a tensor counts as a line of one, as in PyTorch.

Enters: an operation along an axis. Leaves: the same, which takes a number with axis 0 or -1, too, and gives a
number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from trilobite.framework.ops.meeting import as_value
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

F = TypeVar("F", bound=Callable[..., Any])


def number_as_line(fn: F) -> F:
    """For an operation whose first operand is the tensor, and whose other tensors may be numbers as well."""

    @wraps(fn)
    def run(x: Any, *args: Any, **kwargs: Any) -> Value:
        value = as_value(x)
        if value.ndim or not (args or kwargs):
            return fn(x, *args, **kwargs)
        named = {k: _line(v) for k, v in kwargs.items()}
        out: Value = fn(_line(value), *map(_line, args), **named)
        return table["reshape"](out, shape=()) if out.shape == (1,) else out

    return cast(F, run)


def _line(value: Any) -> Any:
    is_number = getattr(value, "ndim", None) == 0 and hasattr(value, "dtype")
    return table["reshape"](value, shape=(1,)) if is_number else value
