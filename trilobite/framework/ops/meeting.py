"""How operands meet: promotion to a common dtype, broadcasting to a common shape; and the quick way for plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.registry import Weak, register
from trilobite.framework.promotion import promote, promote_scalar, scalar_dtype
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Primitive, Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.types import Dim, Shape

_cast, _broadcast = table["cast"], table["broadcast"]
ndarray = np.ndarray
SCALARS = (bool, int, float, complex)


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
    return _broadcast(x, shape=shape, axes=tuple(range(len(shape) - x.ndim, len(shape))))


def scalar(number: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A Python number as an array without dimensions; one that does not fit is an error."""
    if type(number) is int and dtype.kind in "iu":
        return np.asarray(number, dtype)
    with np.errstate(all="ignore"):
        return np.asarray(number).astype(dtype)


def as_value(x: Any) -> Value:
    """An operand on its own: a Python number gets the default dtype of its kind."""
    if isinstance(x, Weak):
        return astype(x.value, scalar_dtype(x.kind))
    return scalar(x, scalar_dtype(type(x))) if isinstance(x, SCALARS) else x


def common(*operands: Any) -> list[Value]:
    """Operands in their common dtype. Python numbers and weak values follow the others."""
    strong = [o for o in operands if not isinstance(o, (Weak, *SCALARS))]
    if not strong:
        kinds = [o.kind if isinstance(o, Weak) else type(o) for o in operands]
        return _of_kinds(operands, kinds)
    dtype = strong[0].dtype
    for o in strong[1:]:
        if o.dtype is not dtype:
            dtype = promote(dtype, o.dtype)
    for o in operands:
        if isinstance(o, Weak):
            dtype = promote_scalar(dtype, o.kind)
        elif isinstance(o, SCALARS):
            dtype = promote_scalar(dtype, type(o))
    return [_in(o, dtype) for o in operands]


def _in(o: Any, dtype: DType) -> Value:
    if isinstance(o, Weak):
        return astype(o.value, dtype)
    if isinstance(o, SCALARS):
        return scalar(o, dtype)
    return astype(o, dtype)


def _of_kinds(operands: Sequence[Any], kinds: Sequence[type]) -> list[Value]:
    highest = next(k for k in (complex, float, int, bool) if k in kinds)
    return [_in(o, scalar_dtype(highest)) for o in operands]


def together(*operands: Any) -> list[Value]:
    """Operands in a common dtype and shape."""
    values = common(*operands)
    shape = values[0].shape
    if all(v.shape == shape for v in values):
        return values
    shape = broadcast_shapes(*(v.shape for v in values))
    return [broadcast_to(v, shape) for v in values]


def read_operand(x: Any) -> Any:
    """For operations that promote: tensors are read, weak ones stay weak."""
    if isinstance(x, Tensor):
        extra = x._extra
        if extra is not None and "weak" in extra:
            return Weak(x._read(), extra["weak"])
        return x._read()
    return x


def binary(group: str, name: str, primitive: Primitive, fn: Callable[[Value, Value], Value] | None = None, **kw: Any) -> Callable[..., Any]:
    """Enter a binary elementwise operation. Plain arrays take a short way: NumPy broadcasts them itself."""
    methods: Sequence[str] = kw.get("methods", (name,))
    evaluate = primitive.evaluate
    direct = fn is None

    def over_values(x: Any, y: Any) -> Value:
        x, y = together(x, y)
        return primitive(x, y) if fn is None else fn(x, y)

    def public(x1: Any, x2: Any, /) -> Tensor:
        x = x1._read() if type(x1) is Tensor else read_operand(x1)
        y = x2._read() if type(x2) is Tensor and x2._extra is None else read_operand(x2)
        if direct and getattr(x, "dtype", None) is getattr(y, "dtype", 0):
            if type(x) is ndarray and type(y) is ndarray:
                ctx = entry.threads.context
                if ctx.recorder is None and ctx.watch is None and (x.shape == y.shape or broadcast_shapes(x.shape, y.shape)):
                    return wrap(evaluate(x, y))
            elif x.shape == y.shape:
                return wrap(primitive(x, y))
        return wrap(over_values(x, y))

    public.__name__ = public.__qualname__ = name
    public.__doc__ = kw.get("doc") or primitive.doc or f"{name}, elementwise."
    register(name, public, group, methods)
    return over_values


def unary(group: str, name: str, primitive: Primitive, *, promotes: bool = True, methods: Sequence[str] | None = None) -> Callable[..., Any]:
    """Enter a unary elementwise operation. `promotes`: integers become the default float first."""
    from trilobite.base.dtypes import default_float, is_inexact

    evaluate = primitive.evaluate

    def over_values(x: Any) -> Value:
        x = as_value(x)
        if promotes and not is_inexact(x.dtype):
            x = astype(x, default_float)
        return primitive(x)

    def public(x: Any, /) -> Tensor:
        v = x._read() if type(x) is Tensor and x._extra is None else read_operand(x)
        ctx = entry.threads.context
        if type(v) is ndarray and ctx.recorder is None and ctx.watch is None and (not promotes or is_inexact(v.dtype)):
            return wrap(evaluate(v))
        return wrap(over_values(v))

    public.__name__ = public.__qualname__ = name
    public.__doc__ = primitive.doc or f"{name} of each element."
    register(name, public, group, (name,) if methods is None else methods)
    return over_values


def inexact(x: Value, what: str) -> None:
    if x.dtype.kind not in "fcV":
        raise DTypeError(f"{what} of {x.dtype}", where=user_location(), expected="a float or complex dtype", remedy="x.astype(tb.float32)")


