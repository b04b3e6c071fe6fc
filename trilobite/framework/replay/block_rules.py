"""Rows of inner loops for rules that are written in NumPy's ufuncs: the rule itself runs, once, on a value
that notes what is done with it.

What a rule does for some elements only (`out[region] = f(x[region])`) is done for all, and chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from trilobite.framework.replay.loop_rows import NoLoop, Rows, Seen, needed
from trilobite.ir.graph import Equation
from trilobite.ir.types import TensorType
from trilobite.native.ufunc_loops import choosing, converting

_NUMBERS = (int, float)


class Noted(NDArrayOperatorsMixin):
    """A block of elements that a rule computes with."""

    def __init__(self, rows: Rows, seen: Seen, own: bool = False) -> None:
        self.rows, self.seen, self.own = rows, seen, own  # `own`: nobody else sees this memory

    dtype = property(lambda self: self.seen.dtype)
    shape = property(lambda self: self.seen.shape)

    def astype(self, dtype: Any, copy: bool = True) -> Noted:
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        out = self.rows.fresh(None, self.shape, wanted)
        self.rows.each(needed(converting(self.dtype, wanted)), self.seen, out)
        return Noted(self.rows, out)

    def any(self) -> bool:
        return True  # a region is computed whoever is in it

    def _operand(self, x: Any, dtype: Any) -> Seen:
        if isinstance(x, Noted):
            return x.astype(dtype).seen
        if np.ndim(x):
            raise NoLoop
        constant = self.rows.constant(np.asarray(x, dtype))
        return constant.through(self.shape, (0,) * len(self.shape))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **settings: Any) -> Any:
        out = settings.pop("out", (None,))[0]
        if method != "__call__" or settings or ufunc.nout != 1:
            raise NoLoop
        kinds = [x.dtype if hasattr(x, "dtype") else type(x) for x in operands]
        if not all(isinstance(k, np.dtype) or k in _NUMBERS for k in kinds):
            raise NoLoop
        *dtypes, result = ufunc.resolve_dtypes((*kinds, None))
        xs = [self._operand(x, d) for x, d in zip(operands, dtypes, strict=True)]
        if out is None or not out.own:
            found = self.rows.ufunc(ufunc, xs, None, TensorType(self.shape, result))
        else:
            found = self.rows.into(ufunc, xs, out.seen)
        if out is None:
            return Noted(self.rows, found, own=True)
        if out.dtype != result:
            raise NoLoop
        out.seen, out.own = found, True
        return out

    def __array_function__(self, function: Any, kinds: Any, args: Any, settings: Any) -> Any:
        own = _FUNCTIONS.get(function)
        if own is None or settings:
            raise NoLoop
        return own(*args)

    def __pow__(self, n: Any) -> Any:
        if type(n) is not int or n != 2:
            raise NoLoop
        return np.square(self)  # as NumPy has it

    def __getitem__(self, region: Any) -> Noted:
        if not isinstance(region, Noted):
            raise NoLoop
        return Noted(self.rows, self.seen)

    def __setitem__(self, region: Any, value: Any) -> None:
        if not isinstance(region, Noted):
            raise NoLoop
        self.seen, self.own = self._operand(_where(region, value, self), self.dtype), True


def _where(condition: Noted, x: Any, y: Any) -> Noted:
    rows = condition.rows
    dtype = np.result_type(*(v.dtype if hasattr(v, "dtype") else v for v in (x, y)))
    out = rows.fresh(None, condition.shape, dtype)
    xs = [condition._operand(v, dtype) for v in (x, y)]
    rows.each(needed(choosing(dtype.itemsize)), condition.astype(bool).seen, *xs, out)
    return Noted(rows, out)


def _full_like(x: Noted, value: Any) -> Noted:
    return Noted(x.rows, x._operand(value, x.dtype))


_CLIP: np.ufunc = getattr(np, "_core", np).umath.clip
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.full_like: _full_like,
    np.empty_like: lambda x: _full_like(x, 0),
    np.zeros_like: lambda x: _full_like(x, 0),
    np.ones_like: lambda x: _full_like(x, 1),
    np.clip: lambda x, low, high: _CLIP(x, low, high),
}


def noted(rows: Rows, xs: Sequence[Seen], e: Equation, block: Callable[..., Any]) -> Seen:
    """What the rule of one block does with operands like these."""
    found = block(*(Noted(rows, x) for x in xs), **e.attributes)
    if not isinstance(found, Noted) or found.dtype != e.outputs[0].type.dtype:
        raise NoLoop
    return found.seen
