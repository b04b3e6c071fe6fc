"""General convolution and its two gradients: three views of one trilinear form.

F(x, w, y) = sum of x[n, c, p*stride + r*w_dilation - low] * w[k, c, r] * y[n, k, p], channels c within k's
group, x spread by x_dilation. `conv` is F's slope in y, `conv_input_grad` in x (a transposed convolution),
`conv_weight_grad` in w. So each one's derivatives are the other two, to any order. Sizes: `conv_geometry`.
Meaning: `conv_blocks`. A transposed convolution with output padding is `conv_input_grad` with a larger
`space` and a `high` smaller by as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.blas import one_thread
from trilobite.base.dtypes import ALL, DType, bool_, is_complex, is_integer
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import cast_to, conj, count, same_types
from trilobite.ir.primitives.conv_blocks import convolve, input_gradient, weight_gradient
from trilobite.ir.primitives.conv_geometry import Geometry, Ints, geometry
from trilobite.ir.types import Dim, Shape, TensorType, size_of

Array = np.ndarray[Any, Any]


# -- types and meaning ---------------------------------------------------------------------------------------


def _check_dtypes(name: str, a: TensorType, b: TensorType, dtype: DType) -> None:
    same_types(name, (a,), ALL - {bool_})
    if a.dtype != b.dtype:
        raise DTypeError(
            f"{name} of {a} and {b}", where=user_location(), expected="equal dtypes; casts are explicit"
        )
    if is_integer(dtype) != is_integer(a.dtype) or (is_complex(a.dtype) and not is_complex(dtype)):
        raise DTypeError(
            f"{name} of {a.dtype} with a {dtype} result",
            where=user_location(),
            expected="a result of the same kind",
        )


def _conv_type(
    x: TensorType, w: TensorType,
    stride: Ints, low: Ints, high: Ints, x_dilation: Ints, w_dilation: Ints, groups: int, dtype: DType,
) -> TensorType:  # fmt: skip
    _check_dtypes("conv", x, w, dtype)
    g = geometry("conv", x.shape, w.shape, stride, low, high, x_dilation, w_dilation, groups)
    return TensorType(g.y_shape, dtype)


def _conv(x: Array, w: Array, dtype: DType, **window: Any) -> Array:
    return convolve(x, w, geometry("conv", x.shape, w.shape, **window), dtype)


def input_geometry(y: Shape, w: Shape, space: Shape, groups: int, **window: Any) -> Geometry:
    channels = w[1] * groups if len(w) > 1 else 0
    g = geometry("conv_input_grad", (*y[:1], channels, *space), w, groups=groups, **window)
    return _agree("conv_input_grad", g, y)


def weight_geometry(x: Shape, y: Shape, kernel: Ints, groups: int, **window: Any) -> Geometry:
    if len(x) < 2 or len(y) < 2:
        raise ShapeError(
            f"conv_weight_grad of shapes {x} and {y}",
            where=user_location(),
            expected="(batch, channels, *space)",
        )
    if x[1] % groups:
        raise ShapeError(
            f"conv_weight_grad: {x[1]} input channels in {groups} groups",
            where=user_location(), expected=f"a number of channels that {groups} divides",
        )  # fmt: skip
    g = geometry("conv_weight_grad", x, (y[1], x[1] // groups, *kernel), groups=groups, **window)
    return _agree("conv_weight_grad", g, y)


def _agree(name: str, g: Geometry, y: Shape) -> Geometry:
    if g.y_shape != y:
        raise ShapeError(
            f"{name}: the cotangent has shape {list(y)}", where=user_location(), expected=list(g.y_shape)
        )
    return g


def _input_grad_type(y: TensorType, w: TensorType, dtype: DType, **attrs: Any) -> TensorType:
    _check_dtypes("conv_input_grad", y, w, dtype)
    return TensorType(input_geometry(y.shape, w.shape, **attrs).x_shape, dtype)


def _input_grad(y: Array, w: Array, dtype: DType, **attrs: Any) -> Array:
    return input_gradient(y, w, input_geometry(y.shape, w.shape, **attrs), dtype)


def _weight_grad_type(x: TensorType, y: TensorType, dtype: DType, **attrs: Any) -> TensorType:
    _check_dtypes("conv_weight_grad", x, y, dtype)
    return TensorType(weight_geometry(x.shape, y.shape, **attrs).w_shape, dtype)


def _weight_grad(x: Array, y: Array, dtype: DType, **attrs: Any) -> Array:
    return weight_gradient(x, y, weight_geometry(x.shape, y.shape, **attrs), dtype)


# -- derivatives: each slope is one of the other two, with complex factors conjd on the way back --------


def _to_x(y: Value, w: Value, x: TensorType, **window: Any) -> Value:
    return conv_input_grad(cast_to(y, w.dtype), w, space=x.shape[2:], dtype=x.dtype, **window)


def _to_w(x: Value, y: Value, w: TensorType, **window: Any) -> Value:
    return conv_weight_grad(x, cast_to(y, x.dtype), kernel=w.shape[2:], dtype=w.dtype, **window)


def _window(
    stride: Ints, low: Ints, high: Ints, x_dilation: Ints, w_dilation: Ints, groups: int
) -> dict[str, Any]:
    return {
        "stride": stride, "low": low, "high": high,
        "x_dilation": x_dilation, "w_dilation": w_dilation, "groups": groups,
    }  # fmt: skip


def _conv_x(
    t: Value, w: Value, x_type: TensorType, *,
    stride: Ints, low: Ints, high: Ints, x_dilation: Ints, w_dilation: Ints, groups: int,
) -> Value:  # fmt: skip
    return _to_x(t, conj(w), x_type, **_window(stride, low, high, x_dilation, w_dilation, groups))


def _conv_w(
    t: Value, x: Value, w_type: TensorType, *,
    stride: Ints, low: Ints, high: Ints, x_dilation: Ints, w_dilation: Ints, groups: int,
) -> Value:  # fmt: skip
    return _to_w(conj(x), t, w_type, **_window(stride, low, high, x_dilation, w_dilation, groups))


def _input_grad_y(
    t: Value, w: Value, y_type: TensorType, *,
    stride: Ints, low: Ints, high: Ints, x_dilation: Ints, w_dilation: Ints, groups: int,
) -> Value:  # fmt: skip
    window = _window(stride, low, high, x_dilation, w_dilation, groups)
    return conv(cast_to(t, w.dtype), conj(w), dtype=y_type.dtype, **window)


def _input_grad_w(
    t: Value, y: Value, w_type: TensorType, *,
    stride: Ints, low: Ints, high: Ints, x_dilation: Ints, w_dilation: Ints, groups: int,
) -> Value:  # fmt: skip
    window = _window(stride, low, high, x_dilation, w_dilation, groups)
    return conv_weight_grad(
        cast_to(t, y.dtype), conj(y), kernel=w_type.shape[2:], dtype=w_type.dtype, **window
    )


def _weight_grad_x(
    t: Value, y: Value, x_type: TensorType, *,
    stride: Ints, low: Ints, high: Ints, x_dilation: Ints, w_dilation: Ints, groups: int,
) -> Value:  # fmt: skip
    window = _window(stride, low, high, x_dilation, w_dilation, groups)
    return conv_input_grad(conj(y), cast_to(t, y.dtype), space=x_type.shape[2:], dtype=x_type.dtype, **window)


def _weight_grad_y(
    t: Value, x: Value, y_type: TensorType, *,
    stride: Ints, low: Ints, high: Ints, x_dilation: Ints, w_dilation: Ints, groups: int,
) -> Value:  # fmt: skip
    window = _window(stride, low, high, x_dilation, w_dilation, groups)
    return conv(conj(x), cast_to(t, x.dtype), dtype=y_type.dtype, **window)


# -- batching: the batch joins an axis that the convolution already maps over --------------------------------


class _Join(NamedTuple):
    """Which axes of the operands (None: not mapped) and of the result take up the batch.

    `per_group`: it goes between the groups and what is in them; otherwise before everything, and with
    `spread` every element of the batch is a group (or groups) of its own.
    """

    first: int | None
    second: int | None
    result: int
    per_group: tuple[bool, bool, bool] = (False, False, False)
    spread: bool = False


def _absorb(v: Value, axis: int, groups: int) -> Value:
    """The leading axis moved into `axis`: (B, ..., g*c, ...) to (..., g*B*c, ...)."""
    size, *shape = v.shape
    inner = [*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]]
    v = table["reshape"](v, shape=(size, *inner))
    order = [*range(1, axis + 2), 0, *range(axis + 2, len(inner) + 1)]
    v = table["transpose"](v, axes=tuple(order))
    return table["reshape"](v, shape=(*shape[:axis], shape[axis] * size, *shape[axis + 1 :]))


def _release(v: Value, axis: int, groups: int, size: Dim) -> Value:
    """The inverse of `_absorb`."""
    shape = list(v.shape)
    each = shape[axis] // (size * groups)
    v = table["reshape"](v, shape=(*shape[:axis], groups, size, each, *shape[axis + 1 :]))
    order = [axis + 1, *range(axis + 1), *range(axis + 2, len(shape) + 2)]
    v = table["transpose"](v, axes=tuple(order))
    return table["reshape"](v, shape=(size, *shape[:axis], groups * each, *shape[axis + 1 :]))


def _batch(primitive: Callable[[], Primitive], joins: dict[tuple[bool, bool], _Join]) -> Callable[..., Value]:
    def rule(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
        join, groups = joins[mapped[0], mapped[1]], attrs["groups"]
        if size == 0:
            return _empty_batch(primitive(), values, mapped, attrs)
        within = [groups if p else 1 for p in join.per_group]
        operands = [
            v if axis is None else _absorb(v, axis, g)
            for v, axis, g in zip(values, (join.first, join.second), within[:2], strict=True)
        ]
        out = primitive()(*operands, **{**attrs, "groups": groups * size if join.spread else groups})
        return _release(out, join.result, within[2], size)

    return rule


def _empty_batch(
    primitive: Primitive, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes
) -> Value:
    each = [TensorType(v.shape[1:] if m else v.shape, v.dtype) for v, m in zip(values, mapped, strict=True)]
    found = primitive.type(*each, **attrs)
    return table["full"](shape=(0, *found.shape), dtype=found.dtype, value=0.0)


_CONV_JOINS = {
    (True, False): _Join(0, None, 0),
    (False, True): _Join(None, 0, 1, per_group=(False, True, True)),
    (True, True): _Join(1, 0, 1, spread=True),
}
_INPUT_GRAD_JOINS = {
    (True, False): _Join(0, None, 0),
    (False, True): _Join(None, 1, 1, per_group=(False, False, True)),
    (True, True): _Join(1, 0, 1, spread=True),
}
_WEIGHT_GRAD_JOINS = {
    (True, False): _Join(1, None, 1, per_group=(True, False, False)),
    (False, True): _Join(None, 1, 0, per_group=(False, True, True)),
    (True, True): _Join(1, 1, 0, spread=True),
}


# -- costs and the table -------------------------------------------------------------------------------------


def _flops(y: TensorType, w: Shape) -> float:
    """Two per element of y, channel of a filter, and tap."""
    return 2.0 * count(y.size) * count(size_of(w[1:]))


conv: Primitive = Primitive(
    "conv", "x w", type=_conv_type, evaluate=one_thread(array_rule(_conv)),
    jvp=(
        lambda t, w, *, stride, low, high, x_dilation, w_dilation, groups, dtype:
            conv(t, w, dtype=dtype, **_window(stride, low, high, x_dilation, w_dilation, groups)),
        lambda t, x, *, stride, low, high, x_dilation, w_dilation, groups, dtype:
            conv(x, t, dtype=dtype, **_window(stride, low, high, x_dilation, w_dilation, groups)),
    ),
    vjp=(_conv_x, _conv_w), batch=_batch(lambda: conv, _CONV_JOINS),
    cost=lambda i, o, a: _flops(o[0], i[1].shape),
    doc="x[N, C, *space] with w[K, C/groups, *kernel] to [N, K, *out]; cross-correlation, as networks use it",
)  # fmt: skip

conv_input_grad: Primitive = Primitive(
    "conv_input_grad", "y w", type=_input_grad_type, evaluate=one_thread(array_rule(_input_grad)),
    jvp=(
        lambda t, w, *, space, stride, low, high, x_dilation, w_dilation, groups, dtype:
            conv_input_grad(t, w, space=space, dtype=dtype,
                            **_window(stride, low, high, x_dilation, w_dilation, groups)),
        lambda t, y, *, space, stride, low, high, x_dilation, w_dilation, groups, dtype:
            conv_input_grad(y, t, space=space, dtype=dtype,
                            **_window(stride, low, high, x_dilation, w_dilation, groups)),
    ),
    vjp=(_input_grad_y, _input_grad_w), batch=_batch(lambda: conv_input_grad, _INPUT_GRAD_JOINS),
    cost=lambda i, o, a: _flops(i[0], i[1].shape),
    doc="the transpose of conv in x: y[N, K, *out] with w to x[N, C, *space]; a transposed convolution",
)  # fmt: skip

conv_weight_grad: Primitive = Primitive(
    "conv_weight_grad", "x y", type=_weight_grad_type, evaluate=one_thread(array_rule(_weight_grad)),
    jvp=(
        lambda t, y, *, kernel, stride, low, high, x_dilation, w_dilation, groups, dtype:
            conv_weight_grad(t, y, kernel=kernel, dtype=dtype,
                             **_window(stride, low, high, x_dilation, w_dilation, groups)),
        lambda t, x, *, kernel, stride, low, high, x_dilation, w_dilation, groups, dtype:
            conv_weight_grad(x, t, kernel=kernel, dtype=dtype,
                             **_window(stride, low, high, x_dilation, w_dilation, groups)),
    ),
    vjp=(_weight_grad_x, _weight_grad_y), batch=_batch(lambda: conv_weight_grad, _WEIGHT_GRAD_JOINS),
    cost=lambda i, o, a: _flops(i[1], o[0].shape),
    doc="the transpose of conv in w: x[N, C, *space] with y[N, K, *out] to w[K, C/groups, *kernel]",
)  # fmt: skip
