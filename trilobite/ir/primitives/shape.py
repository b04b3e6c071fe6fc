"""Primitives that only move data: broadcast, reshape, transpose, slice, pad, concatenate, reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import OWN, free, same_types
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Affine, Dim, Shape, TensorType, size_of

Array = np.ndarray[Any, Any]


def _shifted(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + 1 for a in axes)


# -- broadcast ---------------------------------------------------------------------------------------------


def _broadcast_type(x: TensorType, shape: Shape, axes: tuple[int, ...]) -> TensorType:
    fits = (
        len(axes) == len(x.shape)
        and list(axes) == sorted(set(axes))
        and all(0 <= a < len(shape) for a in axes)
        and not any(isinstance(d, int) and d < 0 for d in shape)
    )
    if not fits or any(d not in (1, shape[a]) for d, a in zip(x.shape, axes, strict=True)):
        raise ShapeError(
            f"broadcast of {x} to {list(shape)} along axes {list(axes)}",
            where=user_location(),
            expected="sizes equal or 1, and none below 0",
        )
    return TensorType(shape, x.dtype)


def _broadcast(x: Array, shape: Sequence[int], axes: Sequence[int]) -> Array:
    if x.dtype.num >= OWN or not x.flags.c_contiguous or 0 in shape:
        if len(axes) != len(shape):
            x = x.reshape([x.shape[axes.index(i)] if i in axes else 1 for i in range(len(shape))])
        return np.broadcast_to(x, shape)
    # The same view at a third of the time: repeated axes have stride 0.
    strides = [0] * len(shape)
    for a, size, stride in zip(axes, x.shape, x.strides, strict=True):
        strides[a] = stride if size == shape[a] else 0
    out: Array = np.ndarray(shape, x.dtype, x, 0, strides)
    out.flags.writeable = False
    return out


def _unbroadcast(t: Value, x_type: TensorType, *, shape: Shape, axes: tuple[int, ...]) -> Value:
    summed = [i for i in range(len(shape)) if i not in axes]
    summed += [a for a, d in zip(axes, x_type.shape, strict=True) if d != shape[a]]
    if summed:
        t = table["reduce_sum"](t, axes=tuple(sorted(summed)))
    return t if t.shape == x_type.shape else reshape(t, shape=x_type.shape)


def _broadcast_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    return broadcast(values[0], shape=(size, *attrs["shape"]), axes=(0, *_shifted(attrs["axes"])))


broadcast: Primitive = Primitive(
    "broadcast", "x", type=_broadcast_type, evaluate=array_rule(_broadcast),
    jvp=(lambda t, *, shape, axes: broadcast(t, shape=shape, axes=axes),), vjp=(_unbroadcast,),
    batch=_broadcast_batch, cost=free,
    doc="axis i of x becomes axis axes[i] of the result; sizes 1 and new axes are repeated",
)  # fmt: skip

# -- reshape and transpose ----------------------------------------------------------------------------------


def _without(shape: Shape, other: Shape) -> list[Dim]:
    """The sizes but those symbolic ones that the other shape has too: n·n is no size, but it is n·n."""
    left = [d for d in other if isinstance(d, Affine)]
    kept = []
    for d in shape:
        if isinstance(d, Affine) and d in left:
            left.remove(d)
        else:
            kept.append(d)
    return kept


def _reshape_type(x: TensorType, shape: Shape) -> TensorType:
    if size_of(_without(x.shape, shape)) != size_of(_without(shape, x.shape)):
        raise ShapeError(
            f"reshape of {x} to {list(shape)}",
            where=user_location(),
            expected=f"{_product(x.shape)} elements",
            remedy=f"got {_product(shape)}",
        )
    return TensorType(shape, x.dtype)


def _product(shape: Shape) -> str:
    symbolic = sum(isinstance(d, Affine) for d in shape) > 1
    return "·".join(map(str, shape)) if symbolic else str(size_of(shape))


reshape: Primitive = Primitive(
    "reshape", "x", type=_reshape_type, evaluate=array_rule(lambda x, shape: x.reshape(shape)),
    jvp=(lambda t, *, shape: reshape(t, shape=shape),),
    vjp=(lambda t, x_type: reshape(t, shape=x_type.shape),),
    batch=lambda size, values, mapped, attrs: reshape(values[0], shape=(size, *attrs["shape"])), cost=free,
    doc="the same elements in row-major order under another shape",
)  # fmt: skip


def _transpose_type(x: TensorType, axes: tuple[int, ...]) -> TensorType:
    if sorted(axes) != list(range(len(x.shape))):
        raise ShapeError(
            f"transpose of {x} by {list(axes)}",
            where=user_location(),
            expected=f"a permutation of 0..{len(x.shape) - 1}",
        )
    return TensorType(tuple(x.shape[a] for a in axes), x.dtype)


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    out = [0] * len(axes)
    for i, a in enumerate(axes):
        out[a] = i
    return tuple(out)


transpose: Primitive = Primitive(
    "transpose", "x", type=_transpose_type, evaluate=array_rule(lambda x, axes: x.transpose(axes)),
    jvp=(lambda t, *, axes: transpose(t, axes=axes),),
    vjp=(lambda t, *, axes: transpose(t, axes=inverse(axes)),),
    batch=lambda size, values, mapped, attrs: transpose(values[0], axes=(0, *_shifted(attrs["axes"]))),
    cost=free,
    doc="axis i of the result is axis axes[i] of x",
)  # fmt: skip

# -- slice and pad ------------------------------------------------------------------------------------------


def _extent(start: Dim, stop: Dim, step: int) -> Dim:
    """(stop - start)/step, rounded up."""
    span = stop - start
    return span if step == 1 else (span + step - 1) // step


def _slice_type(x: TensorType, start: Shape, stop: Shape, step: tuple[int, ...]) -> TensorType:
    if not len(start) == len(stop) == len(step) == len(x.shape) or any(s < 1 for s in step):
        raise ShapeError(
            f"slice of {x}: {list(start)}:{list(stop)}:{list(step)}",
            where=user_location(),
            expected="one start, stop and step >= 1 per axis",
        )
    for a, (lo, hi, d) in enumerate(zip(start, stop, x.shape, strict=True)):
        if not 0 <= lo <= hi <= d:
            raise ShapeError(
                f"slice of {x}: {lo}:{hi} on axis {a}",
                where=user_location(),
                expected=f"0 <= start <= stop <= {d}",
            )
    return TensorType(tuple(_extent(*ends) for ends in zip(start, stop, step, strict=True)), x.dtype)


def _slice(x: Array, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> Array:
    return x[tuple(map(slice, start, stop, step))]


def _slice_back(
    t: Value, x_type: TensorType, out_type: TensorType, *, start: Shape, stop: Shape, step: tuple[int, ...]
) -> Value:
    """Zeros around and between the elements that were taken."""
    high = []
    for d, lo, n, s in zip(x_type.shape, start, out_type.shape, step, strict=True):
        high.append(d - lo - ((n - 1) * s + 1) if n != 0 else d - lo)
    return pad(t, low=start, high=tuple(high), between=tuple(s - 1 for s in step), value=0.0)


def _slice_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    return slice_(
        values[0], start=(0, *attrs["start"]), stop=(size, *attrs["stop"]), step=(1, *attrs["step"])
    )


slice_: Primitive = Primitive(
    "slice", "x", type=_slice_type, evaluate=array_rule(_slice),
    jvp=(lambda t, *, start, stop, step: slice_(t, start=start, stop=stop, step=step),), vjp=(_slice_back,),
    batch=_slice_batch, cost=free, doc="every step-th element from start to stop, per axis",
)  # fmt: skip


def _pad_type(x: TensorType, low: Shape, high: Shape, between: tuple[int, ...], value: complex) -> TensorType:
    if not len(low) == len(high) == len(between) == len(x.shape) or any(b < 0 for b in between):
        raise ShapeError(
            f"pad of {x}: low {list(low)}, high {list(high)}, between {list(between)}",
            where=user_location(),
            expected="one of each per axis",
        )
    return TensorType(tuple(_padded(*a) for a in zip(x.shape, low, high, between, strict=True)), x.dtype)


def _padded(d: Dim, low: Dim, high: Dim, between: int) -> Dim:
    spread = d if between == 0 or d == 0 else (d - 1) * (between + 1) + 1
    total = spread + low + high
    if total < 0:
        raise ShapeError(f"pad by {low} and {high} leaves {total} of {d} elements", where=user_location())
    return total


def _pad(x: Array, low: Sequence[int], high: Sequence[int], between: Sequence[int], value: complex) -> Array:
    shape = [_padded(*a) for a in zip(x.shape, low, high, between, strict=True)]
    out = np.full(shape, value, x.dtype)
    inner, source = [], []
    for d, lo, b, total in zip(x.shape, low, between, shape, strict=True):
        step = b + 1
        first = 0 if lo >= 0 else -(lo // step)  # negative padding crops
        last = min(d, (total - lo + b) // step)
        inner.append(
            slice(
                lo + first * step,
                max(lo + (last - 1) * step + 1, 0) if last > first else lo + first * step,
                step,
            )
        )
        source.append(slice(first, max(last, first)))
    out[tuple(inner)] = x[tuple(source)]
    return out


def _pad_back(t: Value, x_type: TensorType, *, low: Shape, high: Shape, between: tuple[int, ...]) -> Value:
    """Crop what was added, then keep every (between+1)-th element."""
    cropped = pad(
        t, low=tuple(-d for d in low), high=tuple(-d for d in high), between=(0,) * len(low), value=0.0
    )
    if not any(between):
        return cropped
    return slice_(cropped, start=(0,) * len(low), stop=cropped.shape, step=tuple(b + 1 for b in between))


def _pad_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    at = {k: (0, *attrs[k]) for k in ("low", "high", "between")}
    return pad(values[0], **at, value=attrs["value"])


pad: Primitive = Primitive(
    "pad", "x", type=_pad_type, evaluate=array_rule(_pad),
    jvp=(lambda t, *, low, high, between: pad(t, low=low, high=high, between=between, value=0.0),),
    vjp=(_pad_back,),
    batch=_pad_batch, cost=free, doc="elements added before, after and between; negative numbers crop",
)  # fmt: skip

# -- writing a slice ----------------------------------------------------------------------------------------


def _update_type(
    x: TensorType, y: TensorType, start: Shape, stop: Shape, step: tuple[int, ...]
) -> TensorType:
    part = _slice_type(x, start, stop, step)
    if part != y:
        raise ShapeError(f"update_slice of {x} with {y}", where=user_location(), expected=part)
    return x


def _update(x: Array, y: Array, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> Array:
    out = x.copy()
    out[tuple(map(slice, start, stop, step))] = y
    return out


def _update_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    x, y = all_mapped(size, values, mapped)
    return update_slice(
        x, y, start=(0, *attrs["start"]), stop=(size, *attrs["stop"]), step=(1, *attrs["step"])
    )


def _update_x(t: Value, y_type: TensorType, *, start: Shape, stop: Shape, step: tuple[int, ...]) -> Value:
    hole = table["full"](shape=y_type.shape, dtype=t.dtype, value=0.0)
    return update_slice(t, hole, start=start, stop=stop, step=step)


def _update_y(t: Value, x_type: TensorType, *, start: Shape, stop: Shape, step: tuple[int, ...]) -> Value:
    blank = table["full"](shape=x_type.shape, dtype=t.dtype, value=0.0)
    return update_slice(blank, t, start=start, stop=stop, step=step)


update_slice: Primitive = Primitive(
    "update_slice", "x y", type=_update_type, evaluate=array_rule(_update),
    jvp=(_update_x, _update_y),
    vjp=(_update_x, lambda t, *, start, stop, step: slice_(t, start=start, stop=stop, step=step)),
    batch=_update_batch, cost=free, doc="x with y in place of one of its slices",
)  # fmt: skip

# -- concatenate and reverse --------------------------------------------------------------------------------


def _concatenate_type(*types: TensorType, axis: int) -> TensorType:
    if not types:
        raise ShapeError("concatenate of no operands", where=user_location(), expected="at least one")
    first = same_types("concatenate", types[:1], ALL)
    if not 0 <= axis < len(first.shape):
        raise ShapeError(
            f"concatenate of {first} along axis {axis}",
            where=user_location(),
            expected=f"0 <= axis < {len(first.shape)}",
        )
    total: Dim = 0
    for t in types:
        if _beside(t, axis) != _beside(first, axis) or t.dtype != first.dtype:
            raise ShapeError(
                f"concatenate: {first} and {t} differ beside axis {axis}",
                where=user_location(),
                expected="equal shapes and dtypes elsewhere",
            )
        total = total + t.shape[axis]
    return TensorType((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


def _beside(t: TensorType, axis: int) -> Shape:
    return t.shape[:axis] + t.shape[axis + 1 :]


def _concatenate_jvp(
    primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes
) -> tuple[Value, Any]:
    out = concatenate(*primals, **attrs)
    if all(t is None for t in tangents):
        return out, None
    full = [_zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True)]
    return out, concatenate(*full, **attrs)


def _zeros_like(x: Value) -> Value:
    return table["full"](shape=x.shape, dtype=x.dtype, value=0.0)


def _concatenate_vjp(
    cts: Sequence[Value], inputs: Sequence[Value], outs: Any, wanted: Sequence[bool], attrs: Attributes
) -> list[Any]:
    axis, (ct,) = attrs["axis"], cts
    pieces: list[Any] = []
    at: Dim = 0
    for x, want in zip(inputs, wanted, strict=True):
        end = at + x.shape[axis]
        if want:
            start = tuple(at if i == axis else 0 for i in range(ct.ndim))
            stop = tuple(end if i == axis else d for i, d in enumerate(ct.shape))
            pieces.append(slice_(ct, start=start, stop=stop, step=(1,) * ct.ndim))
        else:
            pieces.append(None)
        at = end
    return pieces


def _concatenate_batch(
    size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes
) -> Value:
    return concatenate(*all_mapped(size, values, mapped), axis=attrs["axis"] + 1)


concatenate: Primitive = Primitive(
    "concatenate", "x", type=_concatenate_type,
    evaluate=array_rule(lambda *xs, axis: np.concatenate(xs, axis=axis)),
    whole_jvp=_concatenate_jvp, whole_vjp=_concatenate_vjp, keep="types", batch=_concatenate_batch, cost=free,
    doc="one after the other along an axis",
)  # fmt: skip


def _reverse_type(x: TensorType, axes: tuple[int, ...]) -> TensorType:
    if len(set(axes)) != len(axes) or any(not 0 <= a < len(x.shape) for a in axes):
        raise ShapeError(
            f"reverse of {x} along axes {list(axes)}",
            where=user_location(),
            expected=f"distinct axes below {len(x.shape)}",
        )
    return x


reverse: Primitive = Primitive(
    "reverse", "x", type=_reverse_type, evaluate=array_rule(lambda x, axes: np.flip(x, axes)),
    jvp=(lambda t, *, axes: reverse(t, axes=axes),), vjp=(lambda t, *, axes: reverse(t, axes=axes),),
    batch=lambda size, values, mapped, attrs: reverse(values[0], axes=_shifted(attrs["axes"])), cost=free,
    doc="back to front along the axes",
)  # fmt: skip
