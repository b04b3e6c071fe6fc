"""From values to Python: the array behind a value, or the error that says why there is none yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import DType
from trilobite.base.errors import ArgumentError, DTypeError, TraceError
from trilobite.base.locations import user_location
from trilobite.ir.primitive import Value
from trilobite.ir.transforms.bind import Traced

_LOOK = "keep it a tensor, or return it and look at it outside"
_CHOOSE = "choose with tb.where, or use tb.cond, tb.while_loop, tb.scan"


def concrete(
    value: Value, what: str, strip: bool = False, branch: bool = False, remedy: str = ""
) -> np.ndarray[Any, Any]:
    """The array behind a value, or the error that says why there is none yet: what happened and a remedy, or
    the name of a conversion.
    """
    while strip and isinstance(value, Traced) and type(value).__name__ in ("Taped", "Dual"):
        value = value.primal  # type: ignore[attr-defined]
    if isinstance(value, np.ndarray):
        return value
    inside = {"Recorded": "jit, cond or scan", "Batched": "vmap", "Taped": "grad", "Dual": "jvp"}[
        type(value).__name__
    ]
    if not remedy:
        what, remedy = ("a Python branch on a tensor", _CHOOSE) if branch else (f"{what} of a tensor", _LOOK)
    raise TraceError(
        f"{what} inside {inside}, where only a run knows its value",
        where=user_location(),
        expected="a program that is the same for all values",
        remedy=remedy,
    )


def single(value: Value, what: str, kinds: str = "", branch: bool = False) -> Any:
    """The only element as a Python number; `kinds` lists the dtypes that cannot become one."""
    array = concrete(value, what, strip=True, branch=branch)
    if array.size != 1:
        raise _NotOne(
            f"{what} of a tensor of shape {tuple(array.shape)}",
            where=user_location(),
            expected="exactly one element",
            remedy="reduce it first: any(), all(), sum()" if branch else "index it, or use tolist()",
        )
    if array.dtype.kind in kinds:
        raise DTypeError(
            f"{what} of a tensor of {array.dtype}",
            where=user_location(),
            expected="a real number",
            remedy="take its real or imaginary part: x.real, x.imag",
        )
    return python_number(array.reshape(()), array.dtype)


class _NotOne(ArgumentError, TypeError):
    """Python's own conversions say TypeError here, NumPy's ValueError: caught by either name."""


def python_number(value: np.ndarray[Any, Any], dtype: DType) -> Any:
    out = value.item()
    if isinstance(out, (bool, int, float, complex)):
        return out
    return int(value) if dtype.name.endswith("int4") else float(value)


def nested(value: np.ndarray[Any, Any]) -> Any:
    if value.ndim == 0:
        return python_number(value, value.dtype)
    return [nested(v) for v in value]
