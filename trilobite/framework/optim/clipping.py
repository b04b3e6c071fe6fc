"""Keeping gradients within bounds: by their joint norm, or element by element. Works inside `jit`.

Enters: tensors with gradients (those without are passed over). Leaves: the gradients changed in place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from trilobite.base.dtypes import accumulator, float64, real_of
from trilobite.base.errors import ArgumentError, GradientError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.modes import no_grad
from trilobite.framework.ops.meeting import astype
from trilobite.framework.optim.arithmetic import (
    ONE,
    ZERO,
    add,
    as_real,
    cast,
    div,
    from_real,
    maximum,
    pow,
    scale,
    spread,
    sqrt,
    square,
)
from trilobite.framework.optim.group import number
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.cells import Cell

_TINY = np.asarray(1e-6)  # keeps the quotient of two zeros out
_apart: WeakKeyDictionary[Cell, str] = WeakKeyDictionary()


def keep_apart(parameters: Iterable[Tensor], remedy: str) -> None:
    """These have parts of gradients, or gradients elsewhere: norms of what is here would be wrong."""
    for p in parameters:
        _apart[p._cell] = remedy


def gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    """The gradients that are there."""
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in listed if p.grad is not None]


def whole_gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    """The gradients that are there, where they are all that there is."""
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if _apart:
        for remedy in (_apart[p._cell] for p in listed if p._cell in _apart):
            raise GradientError(
                "the norm of gradients of which other processes hold parts",
                where=user_location(),
                expected="parameters whose gradients are here, and whole",
                remedy=remedy,
            )
    return gradients(listed)


def grad_norm(parameters: Tensor | Iterable[Tensor], norm_type: float = 2.0) -> Tensor:
    """The norm of all gradients as one vector."""
    with no_grad():
        return wrap(_norm([g._read() for g in whole_gradients(parameters)], _order(norm_type)))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: Any,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients down together so that their norm is at most `max_norm`; returns the norm before."""
    grads, limit = whole_gradients(parameters), number("max_norm", max_norm)
    with no_grad():
        total = _norm([g._read() for g in grads], _order(norm_type))
        if error_if_nonfinite:
            _check_finite(wrap(total))
        bound = cast(limit._read(), float64)
        factor = table["minimum"](div(bound, add(cast(total, float64), _TINY)), ONE)
        for g in grads:
            value = g._read()
            wide = accumulator(real_of(value.dtype))
            g._store(from_real(scale(cast(as_real(value), wide), cast(factor, wide)), value.dtype))
    return wrap(total)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: Any) -> None:
    """Bring every element of every gradient into [−clip_value, clip_value]; real and imaginary parts
    alone.
    """
    bound = number("clip_value", clip_value)
    with no_grad():
        for g in gradients(parameters):
            value = as_real(g._read())
            high = astype(bound._read(), value.dtype)
            low = table["neg"](high)
            bounded = table["minimum"](maximum(value, spread(low, value)), spread(high, value))
            g._store(from_real(bounded, g._peek().dtype))


def _order(norm_type: Any) -> float:
    order = float(norm_type)
    if not order > 0:
        raise ArgumentError(
            f"norm_type is {norm_type}", where=user_location(), expected="above 0, or math.inf"
        )
    return order


def _norm(values: Sequence[Value], order: float) -> Value:
    """The norm in the widest precision among the gradients; it adds up in float64 from one tensor to the
    next.
    """
    if not values:
        return table["full"](shape=(), dtype=np.dtype("float32"), value=0.0)
    wide = max((accumulator(real_of(v.dtype)) for v in values), key=lambda d: d.itemsize)
    parts = [_part(v, order) for v in values]
    total = parts[0]
    for part in parts[1:]:
        total = maximum(total, part) if math.isinf(order) else add(total, part)
    if math.isinf(order):
        return cast(total, wide)
    root = sqrt(total) if order == 2.0 else pow(total, np.asarray(1.0 / order))
    return cast(root, wide)


def _part(value: Value, order: float) -> Value:
    """One tensor's share of the sum (or of the maximum), in float64."""
    if order == 2.0:
        x = square(cast(as_real(value), accumulator(real_of(value.dtype))))
        return cast(table["reduce_sum"](x, axes=tuple(range(x.ndim))), float64)
    x = cast(table["abs"](value), accumulator(real_of(value.dtype)))
    axes = tuple(range(x.ndim))
    if math.isinf(order):
        empty = 0 in x.shape
        return ZERO if empty else cast(table["reduce_max"](x, axes=axes), float64)
    power = x if order == 1.0 else pow(x, spread(cast(np.asarray(order), x.dtype), x))
    return cast(table["reduce_sum"](power, axes=axes), float64)


def _check_finite(total: Tensor) -> None:
    if not math.isfinite(total.item()):
        raise GradientError(
            f"the norm of the gradients is {total.item()}",
            where=user_location(),
            expected="finite gradients",
            remedy="find where they come from with tb.debug.detect_anomaly(), or scale the loss down",
        )


explain_room(globals())
