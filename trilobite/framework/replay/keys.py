"""What tells small calls apart: the function, the types of its array operands, and what is static.

Enters: operands and settings of a call. Leaves: a key, the arrays and where those came from on the tape; and,
for who records the call, the function of its arrays alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.framework.tensor import CLASSES, Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.tape import Taped

ndarray = np.ndarray
Function = Callable[..., Any]
SMALL = 1 << 12  # elements of an operand: from here on the way through `bind` is the smaller part
_ARRAYS = (Tensor, Taped, ndarray)
_STATIC = frozenset({int, bool, str, type(None), dt.dtype})


def all_told(attributes: dict[str, Any], key: list[Any]) -> bool:
    for name, x in attributes.items():
        kind = type(x)
        if kind in _STATIC:
            key += (name, x, kind)
        else:
            key.append(name)
            if not _told(x, key):
                return False
    return True


def gathered(
    operands: Sequence[Any], ctx: entry.Context, key: list[Any], arrays: list[Any], edges: list[Any]
) -> bool:
    """Enters operands into the key, their arrays, and where those came from on the tape; False for others
    than small arrays of eager mode.
    """
    tape = ctx.ambient
    recording = tape.level > ctx.grad_off and not tape.paused
    for x in operands:
        value, edge = x, None
        if type(x) in CLASSES and x._view is None and x._extra is None:
            cell = x._cell
            value = cell.value if cell.owner is None else None
            edge = (cell.leaf, 0) if recording and cell.leaf is not None else None
        elif type(x) in _STATIC:
            key += (x, type(x))
            continue
        elif isinstance(x, Tensor):
            value = _shown(x)
        elif type(x) is not Taped and type(x) is not ndarray:
            if _told_or_gathered(x, ctx, key, arrays, edges):
                continue
            return False
        if type(value) is Taped:
            if value.interpreter is not tape or edge is not None:
                return False
            edge = (value.node, value.index) if recording else None
            value = value.primal
        if type(value) is not ndarray or value.size > SMALL:
            return False
        arrays.append(value)
        edges.append(edge)
        key += (value.dtype, value.shape, edge is None)
    return True


def _told_or_gathered(
    x: Any, ctx: entry.Context, key: list[Any], arrays: list[Any], edges: list[Any]
) -> bool:
    if not _holds_arrays(x):
        return _told(x, key)
    key += (type(x), len(x))
    return gathered(x, ctx, key, arrays, edges)


def _holds_arrays(x: Any) -> bool:
    """A list of tensors, as `concat` takes it."""
    return (type(x) is list or type(x) is tuple) and any(isinstance(i, _ARRAYS) for i in x)


def _shown(x: Tensor) -> Value | None:
    """What a view, or a tensor with notes, shows; None for one that stands for a Python number."""
    return None if x._extra is not None and "weak" in x._extra else x._read()


def _told(x: Any, key: list[Any]) -> bool:
    """Enters a static argument into a key; False if it cannot be told apart from others like it."""
    kind = type(x)
    if kind is float:
        key.append(x if x else str(x))  # 0.0 and -0.0 are equal
    elif kind is tuple or kind is list:
        key.append(len(x))
        if not all(_told(i, key) for i in x):
            return False
    elif kind in _STATIC or isinstance(x, np.dtype):
        key.append(x)
    else:
        return False
    key.append(kind)
    return True


def over_values(fn: Function, operands: Sequence[Any], attributes: dict[str, Any]) -> Function:
    """`fn` as a function of its array operands alone."""
    places = [_emptied(x) for x in operands]

    def of(*values: Value) -> Any:
        rest = iter(values)
        return fn(*[_filled(x, rest) for x in places], **attributes)

    return of


class _Place:
    """Stands for an array among static arguments."""


def _emptied(x: Any) -> Any:
    if isinstance(x, _ARRAYS):
        return _Place
    return [_emptied(i) for i in x] if _holds_arrays(x) else x


def _filled(x: Any, values: Iterator[Value]) -> Any:
    if x is _Place:
        return next(values)
    return [_filled(i, values) for i in x] if type(x) is list else x
