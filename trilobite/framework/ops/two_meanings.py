"""Names that PyTorch and the array API standard both have, with different meanings: the spelling decides.

`axis=`, `keepdims=` and `correction=` are the standard's words and mean the standard's; `dim=`, `keepdim=`,
`unbiased=`, an axis by its place, and methods mean PyTorch's. A call that could be either means the
standard's and, where the results differ in value, says so once. Decision 0021 has the table.

Enters: the table's rows with the standard's meaning. Leaves: the same rows, and the methods, with both.
"""

from __future__ import annotations

import opcode
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base import pytree
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops import equality, shaping
from trilobite.framework.ops.axes import axis_in, size_in
from trilobite.framework.ops.pairs import Pair
from trilobite.framework.ops.registry import given_out, methods, operators
from trilobite.framework.ops.sorting import extremes, in_order, one_each
from trilobite.framework.replay.plans import planned
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitives import table

Public = Callable[..., Any]
_said: set[str] = set()


class MeaningWarning(UserWarning):
    """A call that PyTorch and the array API standard understand differently."""


def say_once(name: str, text: str) -> None:
    """Warn of a meaning, once per name and process."""
    if name not in _said:
        _said.add(name)
        warnings.warn(text, MeaningWarning, stacklevel=3)


def _replace(name: str, public: Public, *also: str, method: Public | None = None) -> None:
    """Give a row (and its other names) another public function; its methods, if given, a further one."""
    public = _by_word(public)
    for label in (name, *also):
        row = operators[label]
        operators[label] = row._replace(public=public, methods=row.methods if method is None else ())
        for m in row.methods if method is not None else ():
            methods[m] = method or public


def _by_word(public: Public) -> Public:
    """The first operand may come as PyTorch's `input=`, and a result may go where `out=` says."""

    @wraps(public)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not args and "input" in kwargs:
            args = (kwargs.pop("input"),)
        if "out" in kwargs:
            return given_out(kwargs, public, args)
        return public(*args, **kwargs)

    return called


def _standard(name: str) -> Public:
    return operators[name].public


def _plain(kwargs: dict[str, Any]) -> dict[str, Any]:
    """What NumPy passes to methods and means nothing: `out=None`, `dtype=None`."""
    return {k: v for k, v in kwargs.items() if v is not None or k not in ("out", "dtype")}


# -- extremes --------------------------------------------------------------------------------------------


def along(x: Any, places: Any, dim: int, keepdim: bool) -> Pair:
    """The values at the places of one line each, and the places."""
    values = _standard("take_along_axis")(x, places, axis=dim)
    if keepdim:
        return Pair(values, places)
    gone = _standard("squeeze")
    return Pair(gone(values, dim), gone(places, dim).clone())


def _extreme(name: str, place: str, larger: str) -> None:
    plain, where, between = _standard(name), _standard(place), _standard(larger)

    @wraps(plain)
    def public(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs:
            return plain(x)
        other = kwargs.get("other", args[0] if args else None)
        if isinstance(other, (Tensor, np.ndarray)):
            return between(x, other)
        if "dim" not in kwargs and (not args or "keepdims" in kwargs):
            return plain(x, *args, **_plain(kwargs))
        bare = len(args) == 1 and not kwargs
        dim, keepdim = (other, False) if bare else _dim_and_keepdim(args, kwargs)
        if type(dim) is int and (done := planned(one_each, (x, dim, keepdim, place), {})) is not None:
            return done
        if dim is None or isinstance(dim, (tuple, list)):
            return plain(x, axis=dim, keepdims=keepdim)
        x = shaping.handle(x)
        if x.ndim == 0:
            return Pair(plain(x), wrap(np.asarray(0)))
        axis = axis_in(dim, x.ndim, name)
        if x.dtype in dt.COMPLEX or x.shape[axis] == 0:
            return along(x, where(x, axis=dim, keepdims=True), dim, keepdim)  # which says what is wrong
        return extremes(x, axis, keepdim, place)

    _replace(name, public)


def _dim_and_keepdim(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, bool]:
    given = dict(zip(("dim", "keepdim"), args, strict=False))
    given |= {{"axis": "dim", "keepdims": "keepdim"}.get(k, k): v for k, v in _plain(kwargs).items()}
    unknown = given.keys() - {"dim", "keepdim"}
    if unknown or len(args) > 2:
        raise ArgumentError(
            f"unknown settings {sorted(unknown)}", where=user_location(), expected="dim and keepdim"
        )
    return given.get("dim"), bool(given.get("keepdim", False))


# -- deviations ------------------------------------------------------------------------------------------

_THEIRS, _OURS = ("dim", "unbiased", "keepdim"), ("axis", "correction", "keepdims")


def _spread(name: str) -> None:
    plain = _standard(name)

    def torchs(x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """x.std(dim, unbiased, keepdim), with the bool alone as `unbiased`."""
        if args and isinstance(args[0], bool):
            args = (None, *args)
        given = dict(zip(_THEIRS, args, strict=False)) | kwargs
        axis = given.get("dim", given.get("axis"))
        correction = given.get("correction")
        if correction is None:
            correction = given.get("ddof", 1 if given.get("unbiased", True) else 0)
        axis = None if axis == () or axis == [] else axis
        keep = bool(given.get("keepdim", given.get("keepdims", False)))
        return plain(x, axis=axis, correction=correction, keepdims=keep)

    @wraps(plain)
    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        ours = not kwargs.keys().isdisjoint(_OURS)
        if (args and not ours) or not kwargs.keys().isdisjoint(_THEIRS):
            return torchs(x, args, kwargs)
        if args:
            return plain(x, *args, **kwargs)
        if "correction" not in kwargs and "axis" not in kwargs:
            say_once(
                name,
                f"tb.{name}(x) divides by the number of elements, as the array API standard says; PyTorch's "
                f"divides by one less: x.{name}(), tb.{name}(x, correction=1). correction=0 keeps this one.",
            )
        return plain(x, **kwargs)

    @wraps(plain)
    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.keys().isdisjoint(_THEIRS) and not kwargs.keys().isdisjoint(_OURS):
            rest = {k: v for k, v in _plain(kwargs).items() if k != "ddof"}
            return plain(x, *args, **({"correction": kwargs["ddof"]} if "ddof" in kwargs else {}), **rest)
        return torchs(x, args, kwargs)

    _replace(name, function, method=method)


# -- order -----------------------------------------------------------------------------------------------


class SortedTensor(Tensor):
    """What tb.sort(x) gives: a tensor, as the standard says, with PyTorch's `values` and `indices`."""

    __slots__ = ()

    @property
    def values(self) -> Tensor:
        return self

    @property
    def indices(self) -> Tensor:
        found: Tensor = (self._extra or {})["places"]()
        return found

    def __iter__(self) -> Any:
        if not _is_unpacked_in_two(sys._getframe(1)):
            return iter(self._through())
        if self.shape[:1] == (2,):
            say_once(
                "sort",
                "the result of tb.sort(x) was unpacked into values and indices, as PyTorch means it; the two "
                "rows, as the array API standard means it, are tb.sort(x, axis=-1)",
            )
        return iter((wrap(self._read()), self.indices))

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int and key in (0, 1):
            if self.ndim == 0:  # which has no rows
                return self.indices if key else wrap(self._read())
            say_once(
                "sort[0]",
                f"tb.sort(x)[{key}] is a row, as the standard says; PyTorch's values and indices are "
                f"tb.sort(x, dim=-1)[{key}]",
            )
        return super().__getitem__(key)


def _is_unpacked_in_two(frame: Any) -> bool:
    """Does the line that asks for elements say `a, b = ...`?"""
    code, at = frame.f_code.co_code, frame.f_lasti
    return bool(code[at] == _UNPACK and code[at + 1] == 2)


_UNPACK = opcode.opmap["UNPACK_SEQUENCE"]


def _sorting() -> None:
    plain, places = _standard("sort"), _standard("argsort")

    def pair(x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pair:
        given = dict(zip(("dim", "descending", "stable"), args, strict=False)) | kwargs
        dim, falling = given.get("dim", given.get("axis", -1)), bool(given.get("descending", False))
        if x.ndim == 0:
            return Pair(x, places(x, axis=dim, descending=falling))
        return in_order(x, dim, falling)  # type: ignore[no-any-return]

    @wraps(plain)
    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        if args or "dim" in kwargs:
            return pair(shaping.handle(x), args, kwargs)
        out = plain(x, **kwargs)
        if "axis" in kwargs:
            return out
        settings = {k: v for k, v in kwargs.items() if k != "stable"}
        shown = SortedTensor.__new__(SortedTensor)
        shown._cell, shown._view, shown._extra = out._cell, None, {"places": lambda: places(x, **settings)}
        return shown

    @wraps(plain)
    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(x, **kwargs) if "axis" in kwargs and not args else pair(x, args, kwargs)

    _replace("sort", function, method=method)


def lower_median(x: Any, dim: int, keepdim: bool, skip_nan: bool = False) -> Pair:
    """The middle element along an axis, the lower of two; NaN if any is, unless they are skipped."""
    x = shaping.handle(x)
    order = _standard("argsort")(x, axis=dim)
    a = axis_in(dim, max(x.ndim, 1), "median")
    if x.ndim == 0:
        return Pair(x.clone(), wrap(np.asarray(0)))
    if x.shape[a] == 0:
        raise ShapeError("median of no elements", where=user_location(), expected="at least one element")
    nans = _standard("isnan")(x) if x.dtype in dt.FLOATS else None
    one_each = [1 if i == a else d for i, d in enumerate(x.shape)]
    middle = wrap(np.asarray((x.shape[a] - 1) // 2, np.int64)).expand(*one_each)
    if nans is not None:
        missing = nans.sum(axis=a, keepdims=True)
        if skip_nan:
            middle = _standard("maximum")((x.shape[a] - missing - 1) // 2, 0)
        else:
            middle = _standard("where")(missing > 0, x.shape[a] - missing, middle)
    return along(x, _standard("take_along_axis")(order, middle, axis=a), a, keepdim)


def _medians() -> None:
    plain = _standard("median")

    @wraps(plain)
    def public(x: Any, *args: Any, **kwargs: Any) -> Any:
        if "axis" in kwargs or "keepdims" in kwargs:
            return plain(x, *args, **kwargs)
        dim, keepdim = _dim_and_keepdim(args, kwargs)
        if dim is None:
            return lower_median(shaping.handle(x).reshape(-1), 0, False).values
        return lower_median(x, dim, keepdim)

    _replace("median", public)


def _running(name: str) -> None:
    plain, last = _standard(name), _standard("cummax")

    @wraps(plain)
    def public(x: Any, *args: Any, **kwargs: Any) -> Any:
        if "axis" in kwargs or (not args and not kwargs):
            return plain(x, *args, **kwargs)
        dim = args[0] if args else kwargs["dim"]
        x = shaping.handle(x)
        values = plain(x, axis=dim)
        if x.ndim == 0:
            return Pair(values, wrap(np.asarray(0)))
        a = axis_in(dim, x.ndim, name)
        here = wrap(table["iota"](shape=tuple(x.shape), dtype=dt.int64, axis=a))
        with_nan = (x == values) | ((x != x) & (values != values))
        at = last(_standard("where")(with_nan, here, 0), axis=a)
        return Pair(_standard("take_along_axis")(x, at, axis=a), at)

    _replace(name, public)


# -- places ----------------------------------------------------------------------------------------------


class Places(tuple[Tensor, ...]):
    """The standard's places of what is not zero, a line per axis; it also has the attributes of PyTorch's
    matrix of places (`tb.nonzero(x).squeeze(1)`, `tb.nonzero(x)[:, 0]`).
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(_standard("stack")(list(self), axis=1), name)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            return _standard("stack")(list(self), axis=1)[key]
        return tuple.__getitem__(self, key)


pytree.register(Places, lambda x: (tuple(x), None), lambda _, lines: Places(lines))


def _line_of(x: Any) -> Any:
    """x, a number as a line of one: PyTorch's `as_tuple` gives it one coordinate."""
    x = shaping.handle(x)
    return x.reshape(1) if x.ndim == 0 else x


def _nonzero() -> None:
    plain, matrix = _standard("nonzero"), _standard("argwhere")

    @wraps(plain)
    def function(x: Any, *, as_tuple: bool | None = None, **kwargs: Any) -> Any:
        if as_tuple is False:
            return matrix(x, **kwargs)
        out = plain(_line_of(x) if as_tuple else x, **kwargs)
        return out if as_tuple else Places(out)

    @wraps(plain)
    def method(x: Any, *, as_tuple: bool = False, **kwargs: Any) -> Any:
        if as_tuple:
            return plain(_line_of(x), **kwargs)
        if x.ndim == 0:
            return wrap(np.zeros((int(bool(x)), 0), np.int64))
        return matrix(x, **kwargs)

    _replace("nonzero", function, method=method)


# -- copies ----------------------------------------------------------------------------------------------


def _repeating() -> None:
    plain, whole = _standard("repeat"), _standard("tile")

    @wraps(plain)
    def method(x: Any, *repeats: Any, **kwargs: Any) -> Any:
        if "axis" in kwargs:
            return plain(x, *repeats, **kwargs)
        times = tuple(map(size_in, shaping.listed(repeats or (kwargs["repeats"],))))
        if len(times) < x.ndim:
            raise ShapeError(
                f"x.repeat{times} of a tensor with {x.ndim} dimensions",
                where=user_location(),
                expected="a number for each dimension, as in PyTorch: the whole tensor is repeated",
                remedy="tb.repeat(x, n) or x.repeat_interleave(n) repeats each element",
            )
        return whole(x, times)

    _replace("repeat", plain, method=method)


def _squeezing() -> None:
    @wraps(shaping.squeeze_method)
    def method(x: Tensor, *axes: Any, axis: Any = None, dim: Any = None) -> Tensor:
        if axis is not None:
            return shaping.squeeze(x, axis)
        given = shaping.listed(axes) if axes else dim if isinstance(dim, (tuple, list)) else (dim,)
        if not axes and dim is None:
            return shaping.squeeze(x)
        places = [axis_in(a, max(x.ndim, 1), "squeeze") for a in given]
        return shaping.squeeze(x, tuple(a for a in places if x.ndim and x.shape[a] == 1))

    methods["squeeze"] = method
    plain = _standard("squeeze")

    @wraps(plain)
    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        return method(shaping.handle(x), dim=kwargs["dim"]) if "dim" in kwargs else plain(x, *args, **kwargs)

    _replace("squeeze", function)


def _grids() -> None:
    plain = _standard("meshgrid")

    @wraps(plain)
    def public(*arrays: Any, indexing: str | None = None) -> Any:
        listed = len(arrays) == 1 and isinstance(arrays[0], (list, tuple))  # PyTorch's spelling alone
        if indexing is None:
            indexing = "ij" if listed else "xy"
            if not listed and len(arrays) > 1:
                say_once(
                    "meshgrid",
                    'tb.meshgrid(x, y) has indexing="xy", as the standard has it; PyTorch\'s is "ij": '
                    'say which, tb.meshgrid(x, y, indexing="ij")',
                )
        return plain(*arrays, indexing=indexing)

    _replace("meshgrid", public)


def install() -> None:
    """Give the rows and methods both meanings."""
    _extreme("max", "argmax", "maximum")
    _extreme("min", "argmin", "minimum")
    _spread("std")
    _spread("var")
    _sorting()
    _medians()
    _running("cummax")
    _running("cummin")
    _nonzero()
    _repeating()
    _squeezing()
    _grids()
    equality.install()
