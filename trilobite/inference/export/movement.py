"""Primitives that only move data, and reductions, as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import bfloat16, bool_, float32, is_float
from trilobite.inference.export.elementwise import Rule
from trilobite.inference.export.scope import Refused, Scope, onnx_type
from trilobite.ir.graph import Equation
from trilobite.ir.types import Dim

_FAR = 2**62  # beyond any end


def _broadcast(s: Scope, e: Equation) -> None:
    """Kept loose: axes of size 1 put where the result has its new ones, unless those come first."""
    (x,), shape, axes = e.inputs, e.attributes["shape"], e.attributes["axes"]
    (name,), _ = s.loose([x])
    first = axes[0] if axes else len(shape)
    missing = [i - first for i in range(first, len(shape)) if i not in axes]
    if missing and not (s.is_loose(x) and s.known.get(x) is not None and s.known[x].ndim == 0):
        name = s.emit("Unsqueeze", s.name(x), s.ints(*missing))
    if x in s.known and s.known[x].ndim == 0:
        s.known[e.outputs[0]] = s.known[x]
    s.set_loose(e.outputs[0], name)


def _reshape(s: Scope, e: Equation) -> None:
    x, shape = s.name(e.inputs[0]), e.attributes["shape"]
    s.set(e.outputs[0], reshaped(s, x, shape))


def reshaped(s: Scope, x: str, shape: Sequence[Dim]) -> str:
    """At most one symbolic size is left to be inferred, where no other can be 0."""
    open_ = [i for i, d in enumerate(shape) if not isinstance(d, int)]
    if len(open_) == 1 and all(isinstance(d, int) and d > 0 for i, d in enumerate(shape) if i != open_[0]):
        return s.emit("Reshape", x, s.ints(*(d if isinstance(d, int) else -1 for d in shape)))
    return s.emit("Reshape", x, s.model.sizes(shape), allowzero=1 if 0 in shape else 0)


def _transpose(s: Scope, e: Equation) -> None:
    s.set(e.outputs[0], transposed(s, s.name(e.inputs[0]), e.attributes["axes"]))


def transposed(s: Scope, x: str, axes: Sequence[int]) -> str:
    return x if list(axes) == list(range(len(axes))) else s.emit("Transpose", x, perm=list(axes))


def _slice(s: Scope, e: Equation) -> None:
    a, (x,) = e.attributes, e.inputs
    s.set(e.outputs[0], sliced(s, s.name(x), x.type.shape, a["start"], a["stop"], a["step"]))


def sliced(
    s: Scope, x: str, shape: Sequence[Dim], start: Sequence[Dim], stop: Sequence[Dim], step: Sequence[int]
) -> str:
    cut = [i for i, d in enumerate(shape) if start[i] != 0 or stop[i] != d or step[i] != 1]
    if not cut:
        return x
    ends = [stop[i] if stop[i] != shape[i] else _FAR for i in cut]
    sizes = s.model.sizes
    return s.emit(
        "Slice", x, sizes([start[i] for i in cut]), sizes(ends), s.ints(*cut), s.ints(*(step[i] for i in cut))
    )


def _reverse(s: Scope, e: Equation) -> None:
    s.set(e.outputs[0], turned(s, s.name(e.inputs[0]), e.attributes["axes"]))


def turned(s: Scope, x: str, axes: Sequence[int]) -> str:
    if not axes:
        return x
    n = len(axes)
    return s.emit("Slice", x, s.ints(*[-1] * n), s.ints(*[-_FAR] * n), s.ints(*axes), s.ints(*[-1] * n))


def padded(s: Scope, x: str, low: Sequence[Dim], high: Sequence[Dim], value: str) -> str:
    if not any(isinstance(d, int) is False or d != 0 for d in (*low, *high)):
        return x
    return s.emit("Pad", x, s.model.sizes([*low, *high]), value)


def _pad(s: Scope, e: Equation) -> None:
    (x,), a = e.inputs, e.attributes
    name, shape = s.name(x), list(x.type.shape)
    value = s.constant(a["value"], x.type.dtype)
    for axis, b in enumerate(a["between"]):
        if b and shape[axis] != 0:
            name, shape[axis] = _spread(s, name, shape, axis, b, value)
    s.set(e.outputs[0], padded(s, name, a["low"], a["high"], value))


def _spread(s: Scope, x: str, shape: Sequence[Dim], axis: int, between: int, value: str) -> tuple[str, Dim]:
    """`between` elements behind each one, but for the last: an axis of its own, padded, folded back, cut."""
    n, rank = shape[axis], len(shape)
    x = s.emit("Unsqueeze", x, s.ints(axis + 1))
    x = padded(s, x, [0] * (rank + 1), [between if i == axis + 1 else 0 for i in range(rank + 1)], value)
    whole = n * (between + 1)
    x = reshaped(s, x, [whole if i == axis else d for i, d in enumerate(shape)])
    x = s.emit("Slice", x, s.ints(0), s.ints(-between), s.ints(axis))
    return x, whole - between


def spread_by(
    s: Scope, x: str, shape: Sequence[Dim], steps: Sequence[int], dtype: Any
) -> tuple[str, list[Dim]]:
    """Elements `steps` apart with zeros between, per axis."""
    now, zero = list(shape), s.constant(0, dtype)
    for axis, step in enumerate(steps):
        if step > 1 and now[axis] != 0:
            x, now[axis] = _spread(s, x, now, axis, step - 1, zero)
    return x, now


def _update_slice(s: Scope, e: Equation) -> None:
    """y moved to its place within the shape of x, chosen where a moved mask of ones says so."""
    (x, y), a = e.inputs, e.attributes
    shape, dtype = x.type.shape, y.type.dtype
    parts = []
    for name, kind in (
        (s.name(y), dtype),
        (s.emit("Expand", s.constant(True, bool), s.model.sizes(y.type.shape)), bool_),
    ):
        name = s.cast(name, kind, np.dtype(np.int32)) if kind == bool_ else name
        kind = np.dtype(np.int32) if kind == bool_ else kind
        name, wide = spread_by(s, name, y.type.shape, a["step"], kind)
        high = [d - lo - n for d, lo, n in zip(shape, a["start"], wide, strict=True)]
        parts.append(padded(s, name, a["start"], high, s.constant(0, kind)))
    mask = s.emit("Cast", parts[1], to=onnx_type(bool_))
    moved = s.emit("Cast", parts[0], to=onnx_type(bool_)) if dtype == bool_ else parts[0]
    s.set(e.outputs[0], s.emit("Where", mask, moved, s.name(x)))


def _concatenate(s: Scope, e: Equation) -> None:
    s.set(e.outputs[0], s.emit("Concat", *(s.name(v) for v in e.inputs), axis=e.attributes["axis"]))


# -- reductions ----------------------------------------------------------------------------------------------


def reduction(op: str) -> Rule:
    def rule(s: Scope, e: Equation) -> None:
        x, axes = s.name(e.inputs[0]), e.attributes["axes"]
        if not axes:
            return s.alias(e.outputs[0], e.inputs[0])
        dtype = e.inputs[0].type.dtype
        if dtype.itemsize < 4 and not is_float(dtype):
            # not defined on all of these; what wraps at 32 bits wraps alike when it is narrowed
            wide = np.dtype(np.int32)
            out = s.emit(op, s.emit("Cast", x, to=onnx_type(wide)), s.ints(*axes), keepdims=0)
            return s.set(e.outputs[0], s.emit("Cast", out, to=onnx_type(dtype)))
        return s.set(e.outputs[0], s.emit(op, x, s.ints(*axes), keepdims=0))

    return rule


def _logical(op: str) -> Rule:
    rule = reduction(op)

    def checked(s: Scope, e: Equation) -> None:
        if e.inputs[0].type.dtype != bool_:
            raise Refused("ONNX has no reduction of integers bit by bit")
        rule(s, e)

    return checked


def _arg(op: str) -> Rule:
    def rule(s: Scope, e: Equation) -> None:
        x, dtype = s.name(e.inputs[0]), e.inputs[0].type.dtype
        x = s.cast(x, dtype, np.dtype(np.int32)) if dtype == bool_ else x
        s.set(e.outputs[0], s.emit(op, x, axis=e.attributes["axis"], keepdims=0, select_last_index=0))

    return rule


def _cumulative(s: Scope, e: Equation) -> None:
    a, (x,) = e.attributes, e.inputs
    axis = s.constant(a["axis"], np.int64)
    if a["kind"] == "sum":
        return s.set(e.outputs[0], s.emit("CumSum", s.name(x), axis, reverse=int(a["reverse"])))
    if a["kind"] == "prod" and s.model.opset >= 26:
        return s.set(e.outputs[0], s.emit("CumProd", s.name(x), axis, reverse=int(a["reverse"])))
    return s.set(e.outputs[0], _running(s, e))


def _running(s: Scope, e: Equation) -> str:
    """Element i over the elements up to i: the line against itself, masked, reduced. Square in its length."""
    (x,), a = e.inputs, e.attributes
    axis, kind, shape = a["axis"], a["kind"], x.type.shape
    ops: dict[str, tuple[str, Any]] = {
        "prod": ("ReduceProd", 1), "max": ("ReduceMax", None), "min": ("ReduceMin", None),
        "logsumexp": ("ReduceLogSumExp", -np.inf),
    }  # fmt: skip
    op, fill = ops[kind]
    if fill is None:
        info = np.finfo if is_float(x.type.dtype) else np.iinfo
        limits = info(x.type.dtype)
        fill = (limits.min, limits.max)[kind == "min"]
        fill = {"max": -np.inf, "min": np.inf}[kind] if is_float(x.type.dtype) else fill
    n, rank = shape[axis], len(shape)
    if not isinstance(n, int):
        raise Refused(f"a running {kind} along an axis of symbolic size")
    mask = np.tril(np.ones((n, n), bool))
    mask = (mask.T if a["reverse"] else mask).reshape(*[1] * axis, n, n, *[1] * (rank - axis - 1))
    rows = s.emit("Unsqueeze", s.name(x), s.ints(axis))
    line = s.emit("Where", s.model.constant(mask), rows, s.constant(fill, x.type.dtype))
    return s.emit(op, line, s.ints(axis + 1), keepdims=0)


# -- order ---------------------------------------------------------------------------------------------------


def _top_k(s: Scope, e: Equation) -> None:
    k, axis = e.attributes["k"], e.attributes.get("axis", -1)
    outs = s.emit_many("TopK", [s.name(e.inputs[0]), s.model.sizes([k])], 2, axis=axis, largest=1, sorted=1)
    for v, name in zip(e.outputs, outs, strict=True):
        s.set(v, name)


def _sort(s: Scope, e: Equation) -> None:
    """By the last key first, each time keeping the order of equals: TopK puts the first of them first."""
    axis, keys = e.attributes["axis"], e.attributes["keys"]
    names = [s.name(v) for v in e.inputs]
    k = s.model.sizes([e.inputs[0].type.shape[axis]])
    for i in reversed(range(keys)):
        key = names[i]
        dtype = e.inputs[i].type.dtype
        if dtype in (bool_, bfloat16):
            key = s.cast(key, dtype, np.dtype(np.int32) if dtype == bool_ else float32)
        _, order = s.emit_many("TopK", [key, k], 2, axis=axis, largest=0, sorted=1)
        names = [s.emit("GatherElements", n, order, axis=axis) for n in names]
    for v, name in zip(e.outputs, names, strict=True):
        s.set(v, name)


Write = Callable[[Scope, Equation], None]
ROWS: dict[str, Write] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
    "pad": _pad,
    "update_slice": _update_slice,
    "concatenate": _concatenate,
    "reduce_sum": reduction("ReduceSum"),
    "reduce_prod": reduction("ReduceProd"),
    "reduce_max": reduction("ReduceMax"),
    "reduce_min": reduction("ReduceMin"),
    "reduce_and": _logical("ReduceMin"),
    "reduce_or": _logical("ReduceMax"),
    "argmax": _arg("ArgMax"),
    "argmin": _arg("ArgMin"),
    "cumulative": _cumulative,
    "top_k": _top_k,
    "sort": _sort,
}
