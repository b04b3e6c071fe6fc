"""Neighbours of a primitive's samples: one size, dtype, operand or attribute beside what it takes.

Enters: operands and attributes of a sample. Leaves: codes and what stands for them, one change each, in a
fixed order. Most must be refused by the type rule; what it lets through must be computable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import TrilobiteError
from trilobite.ir.primitive import table
from trilobite.ir.types import type_of

Array = np.ndarray[Any, Any]
Case = tuple[list[Array], dict[str, Any]]
DTYPES = (dt.float32, dt.float64, dt.int32, dt.int64, dt.bool_, dt.complex64, dt.int8)


def neighbours(operands: list[Array], attributes: dict[str, Any]) -> Iterator[tuple[str, Case]]:
    for i, x in enumerate(operands):
        for code, new in _arrays(x):
            yield f"{i}{code}", ([*operands[:i], new, *operands[i + 1 :]], attributes)
    if operands:
        yield "-", (operands[:-1], attributes)
        yield "+", ([*operands, operands[-1]], attributes)
    for name, value in sorted(attributes.items()):
        for code, new in _values(value):
            yield f"{name}{code}", (operands, {**attributes, name: new})


def _arrays(x: Array) -> Iterator[tuple[str, Array]]:
    for axis, size in enumerate(x.shape):
        yield f"[{axis}]+", np.concatenate([x, x[_at(axis, slice(0, 1))]], axis) if size else _like(x, axis)
        if size:
            yield f"[{axis}]-", x[_at(axis, slice(0, -1))]
    if x.ndim:
        yield "<", x[0] if x.shape[0] else np.zeros(x.shape[1:], x.dtype)
    yield ">", x[None]
    for dtype in DTYPES:
        if dtype != x.dtype:
            yield f":{dtype}", np.ones(x.shape, dtype)


def _at(axis: int, part: slice) -> tuple[slice, ...]:
    return (slice(None),) * axis + (part,)


def _like(x: Array, axis: int) -> Array:
    return np.ones((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)


def _values(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int):
        yield from ((f"={v}", v) for v in sorted({value + 1, value - 1, -1, 99} - {value}))
    elif isinstance(value, str):
        yield "='?'", "?"
    elif isinstance(value, np.dtype):
        yield from ((f"={d}", d) for d in DTYPES if d != value)
    elif isinstance(value, tuple) and all(type(v) is int for v in value):
        yield "+", (*value, 1)
        for i, v in enumerate(value):
            yield f"[{i}]-", (*value[:i], v - 1, *value[i + 1 :])
            yield f"[{i}]+", (*value[:i], v + 1, *value[i + 1 :])
            yield f"[{i}]!", value[:i] + value[i + 1 :]


def taken(name: str, cases: list[Case]) -> list[str]:
    """The codes of the neighbours that the type rule lets through, case by case."""
    lines = []
    for operands, attributes in cases:
        codes = [code for code, case in neighbours(operands, attributes) if types(name, case) is not None]
        lines.append(" ".join(codes))
    return lines


def types(name: str, case: Case) -> list[str] | None:
    """What the type rule says of a case, as words; None if it refuses."""
    operands, attributes = case
    try:
        found = table[name].type(*(type_of(x) for x in operands), **attributes)
    except (TrilobiteError, TypeError, LookupError, ValueError, ArithmeticError):
        return None
    return [str(t) for t in (found if isinstance(found, tuple) else (found,))]
