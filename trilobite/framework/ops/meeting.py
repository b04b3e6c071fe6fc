"""How operands meet: promotion to a common dtype, broadcasting to a common shape; and the short way for
plain arrays.

`binary` and `unary` enter elementwise operations into the table. Each says which dtypes it takes
(`Accepts`); what is only of a lower kind is promoted, what makes no sense is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import copysign
from typing import Any, NamedTuple

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import ALL, COMPLEX, FLOATS, INEXACT, INTEGERS, DType, bool_, int64
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.registry import Weak, into, operators, read_operand, register
from trilobite.framework.promotion import promote, promote_scalar, scalar_dtype
from trilobite.framework.replay.plans import planned
from trilobite.framework.tensor import CLASSES, Tensor, wrap
from trilobite.ir.primitive import Primitive, Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.bind import Traced
from trilobite.ir.transforms.tape import Taped
from trilobite.ir.types import Affine, Dim, Shape

_cast, _broadcast = table["cast"], table["broadcast"]
ndarray = np.ndarray
SCALARS = (bool, int, float, complex)
_PLAIN = frozenset(SCALARS)
_VALUES = (np.ndarray, Traced)


class Accepts(NamedTuple):
    """The dtypes an operation takes as they are, and whether booleans and integers become floats first."""

    says: str
    direct: frozenset[DType]
    floats: bool = False


NUMERIC = Accepts("an integer, float or complex dtype", ALL - {bool_})
REAL = Accepts("an integer or float dtype", ALL - COMPLEX - {bool_})
ORDERED = Accepts("a dtype with an order: not a complex one", ALL - COMPLEX)
ANY = Accepts("any dtype", ALL)
INEXACTS = Accepts("a float or complex dtype", ALL & INEXACT, floats=True)
REAL_FLOATS = Accepts("a float dtype", ALL & FLOATS, floats=True)
INTEGRAL = Accepts("an integer dtype", INTEGERS)
BITS = Accepts("an integer or boolean dtype", INTEGERS | {bool_})

# -- dtypes and shapes -----------------------------------------------------------------------------------


def astype(x: Value, dtype: DType) -> Value:
    return x if x.dtype == dtype else _cast(x, dtype=dtype)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that these broadcast to."""
    out: list[Dim] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for i, d in enumerate(shape, start=len(out) - len(shape)):
            if out[i] == 1:
                out[i] = d
            elif d != 1 and d != out[i]:
                raise ShapeError(
                    f"shapes {' and '.join(str(tuple(s)) for s in shapes)} do not broadcast",
                    where=user_location(),
                    expected=f"sizes that are equal or 1; axis {i - len(out)} has {out[i]} and {d}",
                    remedy="reshape or index one of them with None, so that its axes line up from the right",
                )
    return tuple(out)


def broadcast_to(x: Value, shape: Shape) -> Value:
    """x repeated to a shape, axes aligned from the right."""
    if x.shape == shape:
        return x
    if type(x) is ndarray and x.shape == () and entry.threads.context.recorder is None:
        return repeated(x, shape)
    return _broadcast(x, shape=shape, axes=tuple(range(len(shape) - x.ndim, len(shape))))


def accepted(name: str, accepts: Accepts, dtype: DType) -> DType:
    """The dtype in which an operation runs on operands of this one."""
    if dtype in accepts.direct:
        return dtype
    if accepts.floats and dtype not in COMPLEX:
        return dt.default_float
    raise DTypeError(
        f"{name} of {dtype}", where=user_location(), expected=accepts.says,
        remedy=f"cast it first: x.astype(tb.{_nearest(accepts).name})",
    )  # fmt: skip


def _nearest(accepts: Accepts) -> DType:
    """A dtype to propose."""
    return next(d for d in (dt.default_float, scalar_dtype(int), bool_) if d in accepts.direct)


# -- numbers ---------------------------------------------------------------------------------------------


def scalar(number: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A Python number as an array without dimensions; an integer that does not fit is an error."""
    # Equal numbers with different bits (0.0 and -0.0) would be one entry of the cache: -0.0 stays outside.
    if number or type(number) is not float or copysign(1.0, number) > 0:
        return _kept_scalar(number, dtype) if type(number) is not complex else _scalar(number, dtype)
    return _scalar(number, dtype)


def _scalar(number: Any, dtype: DType) -> np.ndarray[Any, Any]:
    if dtype in INTEGERS and isinstance(number, int):
        return _integer(number, dtype)
    with np.errstate(all="ignore"):
        return np.asarray(number).astype(dtype)


@lru_cache(maxsize=1024, typed=True)
def _kept_scalar(number: Any, dtype: DType) -> np.ndarray[Any, Any]:
    out = _scalar(number, dtype)
    out.flags.writeable = False  # shared by all who use this number
    return out


def _integer(number: int, dtype: DType) -> np.ndarray[Any, Any]:
    from trilobite.framework.ops.dtypes import iinfo

    info = iinfo(dtype)
    if not info.min <= number <= info.max:
        raise _Overflow(
            f"the number {number} does not fit into {dtype}", where=user_location(),
            expected=f"{info.min} <= number <= {info.max}", remedy="cast the tensor to a wider dtype first",
        )  # fmt: skip
    return np.asarray(number, np.int64 if info.min < 0 else np.uint64).astype(dtype)


class _Overflow(ArgumentError, OverflowError):
    """A Python integer that the dtype of the tensor it meets cannot hold."""


def _facing(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Two operands outside of any recording: tensors read, a number made like what it faces."""
    x = x1._read() if isinstance(x1, Tensor) else x1
    y = x2._read() if isinstance(x2, Tensor) else x2
    if type(y) in _PLAIN:
        return x, _beside(y, x)
    return (_beside(x, y), y) if type(x) in _PLAIN else (x, y)


def _beside(number: Any, other: Any) -> Any:
    """A number in the dtype of the operand beside it (and its shape, if traced), if that has its kind."""
    kind: Any = type(number)
    if not isinstance(other, _VALUES) or promote_scalar(other.dtype, kind) is not other.dtype:
        return number
    value = scalar(number, other.dtype)
    return value if type(other) is ndarray else repeated(value, other.shape)


def _alike(x: Any, y: Any) -> bool:
    """Two values of one type."""
    both = isinstance(x, _VALUES) and isinstance(y, _VALUES)
    return both and x.dtype is y.dtype and x.shape == y.shape


def _at_once(primitive: Primitive, direct: frozenset[DType], *tensors: Tensor) -> Tensor | None:
    """An elementwise primitive of plain tensors, by the shortest way: arrays, or arrays on the thread's tape;
    None for anything else.
    """
    ctx = entry.threads.context
    tape = ctx.ambient
    arrays: list[Any] = []
    edges: list[Any] = []
    wanted, bit = 0, 1
    for x in tensors:
        cell = x._cell
        if x._view is not None or x._extra is not None or cell.owner is not None:
            return None
        value, leaf = cell.value, cell.leaf
        if type(value) is Taped and leaf is None and value.interpreter is tape:
            edges.append((value.node, value.index))
            wanted += bit
            value = value.primal
        elif leaf is not None:
            edges.append((leaf, 0))
            wanted += bit
        else:
            edges.append(None)
        if type(value) is not ndarray or value.dtype not in direct:
            return None
        arrays.append(value)
        bit += bit
    if not wanted:
        return wrap(primitive.evaluate(*arrays))
    if tape.level <= ctx.grad_off or tape.paused:
        return None
    return wrap(tape.over_arrays(primitive, arrays, edges, wanted))


def _are_alike(x: Any, y: Any) -> bool:
    """Are both plain tensors, and do they hold arrays of one dtype and shape?"""
    if type(x) not in CLASSES or type(y) not in CLASSES:
        return False
    first, second = x._cell.value, y._cell.value
    return first.dtype is second.dtype and first.shape == second.shape


def repeated(value: np.ndarray[Any, Any], shape: Shape) -> Value:
    """A number everywhere: one element seen under strides of 0, as `broadcast` would show it."""
    if (
        value.dtype.kind in "biufc"
        and value.dtype.isbuiltin == 1
        and not any(isinstance(d, Affine) for d in shape)
    ):
        out = np.ndarray(shape, value.dtype, value, 0, (0,) * len(shape))
        out.flags.writeable = False
        return out
    return _broadcast(value, shape=shape, axes=())


def as_value(x: Any) -> Value:
    """An operand on its own: a Python number gets the default dtype of its kind."""
    if isinstance(x, (np.ndarray, Traced)):
        return x
    number = _number(x)
    if isinstance(number, Weak):
        return astype(number.value, scalar_dtype(number.kind))
    return scalar(number, scalar_dtype(type(number)))


def _number(x: Any) -> Any:
    """A number that has no dtype of its own: Python's, or one that a run decides."""
    if isinstance(x, Weak):
        return x
    return Weak(measured(x), int) if isinstance(x, Affine) else plain(x)


def measured(size: Dim) -> Value:
    """A size as a number of int64; a symbolic one as the run will have it."""
    if not isinstance(size, Affine) or entry.threads.context.recorder is None:
        return scalar(int(size), int64)
    total: Value = scalar(size.constant, int64)
    for symbol, times in size.terms:
        ones = table["full"](shape=(Affine(0, [(symbol, 1)]),), dtype=int64, value=1)
        count = table["reduce_sum"](ones, axes=(0,))
        total = table["add"](total, table["mul"](count, scalar(times, int64)))
    return total


def plain(x: Any) -> Any:
    """A number as Python's own bool, int, float or complex."""
    if isinstance(x, np.generic):
        x = x.item()
    if type(x) in _PLAIN:
        return x
    for kind in SCALARS:
        if isinstance(x, kind):
            return kind(x)  # type: ignore[arg-type]
    raise _NoTensor(
        f"an operand of type {type(x).__name__}",
        where=user_location(),
        expected="a tensor, a NumPy array or a number",
        remedy="make it a tensor: tb.asarray(x)",
    )


class _NoTensor(ArgumentError, TypeError):
    """Something that is neither a tensor nor a number."""


# -- together --------------------------------------------------------------------------------------------


def common(*operands: Any) -> list[Value]:
    """Operands in their common dtype. Python numbers and weak values follow the others."""
    dtype: DType | None = None
    for o in operands:
        if isinstance(o, (np.ndarray, Traced)):
            dtype = o.dtype if dtype is None or dtype is o.dtype else promote(dtype, o.dtype)
    ready = [o if isinstance(o, (np.ndarray, Traced)) else _number(o) for o in operands]
    kinds = [
        o.kind if isinstance(o, Weak) else type(o) for o in ready if not isinstance(o, (np.ndarray, Traced))
    ]
    if dtype is None:
        dtype = scalar_dtype(next(k for k in (complex, float, int, bool) if k in kinds))
    for kind in kinds:
        dtype = promote_scalar(dtype, kind)
    return [_in(o, dtype) for o in ready]


def within(o: Any, dtype: DType) -> Value:
    """An operand in a dtype decided elsewhere: a number goes there straight, not by its own default."""
    if isinstance(o, (np.ndarray, Traced)) or type(o) in _PLAIN:
        return _in(o, dtype)
    return _in(_number(o), dtype)


def _in(o: Any, dtype: DType) -> Value:
    if isinstance(o, Weak):
        return astype(o.value, dtype)
    return astype(o, dtype) if isinstance(o, (np.ndarray, Traced)) else scalar(o, dtype)


def together(*operands: Any) -> list[Value]:
    """Operands in a common dtype and shape."""
    values = common(*operands)
    shape = values[0].shape
    if all(v.shape == shape for v in values):
        return values
    shape = broadcast_shapes(*(v.shape for v in values))
    return [broadcast_to(v, shape) for v in values]


# -- elementwise operations ------------------------------------------------------------------------------


def binary(
    name: str,
    primitive: Primitive,
    accepts: Accepts,
    fn: Callable[[Value, Value], Value] | None = None,
    *,
    methods: Sequence[str] | None = None,
    bools: Primitive | None = None,
    group: str = "elementwise",
    doc: str = "",
) -> Callable[..., Any]:
    """Enter a binary elementwise operation: the primitive, or `fn` over operands that have met.

    Plain arrays of one dtype take a short way: NumPy broadcasts them itself. `bools` is what it means for
    booleans.
    """
    evaluate, direct = primitive.evaluate, accepts.direct if fn is None else frozenset()
    over_values = _over_two(name, primitive, accepts, fn, bools)

    def public(x1: Any = None, x2: Any = None, /, **settings: Any) -> Tensor:
        if settings or x2 is None:
            return with_settings(name, public, x1, x2, settings)  # type: ignore[no-any-return]
        ctx = entry.threads.context
        if ctx.recorder is not None:
            return wrap(over_values(read_operand(x1), read_operand(x2)))
        unwatched = ctx.watch is None
        done = _at_once(primitive, direct, x1, x2) if unwatched and _are_alike(x1, x2) else None
        return unlike(*_facing(x1, x2), unwatched) if done is None else done

    def unlike(x: Any, y: Any, unwatched: bool) -> Tensor:
        """Of operands that differ in dtype or shape, or are no plain tensors."""
        arrays = type(x) is ndarray and type(y) is ndarray and unwatched
        if arrays and x.dtype is y.dtype and x.dtype in direct:
            if x.shape != y.shape and x.shape and y.shape:
                broadcast_shapes(x.shape, y.shape)
            return wrap(evaluate(x, y))
        done: Tensor | None = planned(over_values, (x, y), {})
        if done is not None:
            return done
        return wrap(primitive(x, y) if _alike(x, y) and x.dtype in direct else over_values(x, y))

    _describe(public, name, doc or primitive.doc or f"{name}, element by element")
    register(name, public, group, (name,) if methods is None else methods)
    return over_values


def _over_two(
    name: str,
    primitive: Primitive,
    accepts: Accepts,
    fn: Callable[..., Value] | None,
    bools: Primitive | None,
) -> Callable[[Any, Any], Value]:
    """A binary operation over values: operands meet in shape and dtype first."""

    def over_values(x: Any, y: Any) -> Value:
        x, y = together(x, y)
        if bools is not None and x.dtype == bool_:
            return bools(x, y)
        dtype = accepted(name, accepts, x.dtype)
        x, y = astype(x, dtype), astype(y, dtype)
        return primitive(x, y) if fn is None else fn(x, y)

    return over_values


def with_settings(name: str, public: Callable[..., Any], x: Any, y: Any, settings: dict[str, Any]) -> Any:
    """PyTorch's settings: `alpha` scales the second operand of a sum, `rounding_mode` rounds a quotient;
    `input` is a word for the first operand, `other` and `exponent` for the second.
    """
    x = settings.pop("input", x)
    y = settings.pop("other", settings.pop("exponent", y))
    out = settings.pop("out", None)
    if out is not None:
        return into(out, public(x, y, **settings))
    mode, alpha = settings.pop("rounding_mode", None), settings.pop("alpha", 1)
    fits = (mode is None or (name == "divide" and mode in ("floor", "trunc"))) and (
        (type(alpha) is int and alpha == 1) or name in ("add", "subtract")
    )
    if settings or x is None or y is None or not fits:
        given = {**settings, **({} if mode is None else {"rounding_mode": mode})}
        raise _NoTensor(
            f"{name}({'x' if y is None else 'x, y'}{''.join(f', {k}={v!r}' for k, v in given.items())})",
            where=user_location(),
            expected="two operands"
            + (", and perhaps rounding_mode='floor' or 'trunc'" if name == "divide" else ""),
        )
    if mode == "floor":
        return operators["floor_divide"].public(x, y)
    out = public(x, y if alpha == 1 else operators["multiply"].public(y, alpha))
    if mode is None:
        return out
    whole = operators["trunc"].public(out)
    kinds = [v.dtype for v in (x, y) if hasattr(v, "dtype")]
    exact = all(d in INTEGERS for d in kinds) and not any(isinstance(v, float) for v in (x, y))
    if not exact:
        return whole
    return whole.astype(promote(*kinds) if len(kinds) == 2 else kinds[0] if kinds else dt.default_int)


def unary(
    name: str,
    primitive: Primitive,
    accepts: Accepts,
    fn: Callable[[Value], Value] | None = None,
    *,
    methods: Sequence[str] | None = None,
    doc: str = "",
) -> Callable[..., Any]:
    """Enter a unary elementwise operation: the primitive, or for complex numbers `fn` over values."""
    direct = accepts.direct if fn is None else accepts.direct - COMPLEX
    rule = getattr(primitive.evaluate, "plain", None)
    several = hasattr(rule, "block") or primitive.name == "rsqrt"  # calls of NumPy's in its rule

    def over_values(x: Any) -> Value:
        x = as_value(x)
        x = astype(x, accepted(name, accepts, x.dtype))
        return primitive(x) if fn is None or x.dtype not in COMPLEX else fn(x)

    def public(x: Any = None, /, **words: Any) -> Tensor:
        if words:
            x, out = words.pop("input", x), words.pop("out", None)
            if words:
                raise _NoTensor(
                    f"{name}(x, {', '.join(words)}=...)",
                    where=user_location(),
                    expected="one operand, and perhaps out=",
                )
            if out is not None:
                return into(out, public(x))  # type: ignore[no-any-return]
        ctx = entry.threads.context
        if isinstance(x, Tensor) and ctx.recorder is None:
            if several and (found := planned(over_values, (x,), {})) is not None:
                return found  # type: ignore[no-any-return]
            done = _at_once(primitive, direct, x) if ctx.watch is None else None
            return wrap(over_values(x._read())) if done is None else done
        return wrap(over_values(read_operand(x)))

    _describe(public, name, doc or primitive.doc or f"{name} of each element")
    register(name, public, "elementwise", (name,) if methods is None else methods)
    return over_values


def _describe(public: Callable[..., Any], name: str, doc: str) -> None:
    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"{doc[0].upper()}{doc[1:]}." if not doc.endswith(".") else doc
