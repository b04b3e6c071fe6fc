"""Rules of what looks along an axis: reductions, running sums, order, products, convolutions, windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.dtypes import int64, is_float, is_integer
from trilobite.compiler.graph.bounded.scope import (
    OneByOne,
    Rule,
    Scope,
    again,
    is_symbolic,
    loose,
    lowest,
    neutral,
)
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import Value, table
from trilobite.ir.types import Dim


def _reduce(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    x, t = values[0], e.inputs[0].type
    source = s.made.get(e.inputs[0])
    if _counts(e, source):  # a size that somebody computes with is recorded as a sum of ones
        count: Dim = 1
        for n in t.shape:
            count = count * n
        return table["cast"](s.live(count), dtype=x.dtype) if x.dtype != int64 else s.live(count)
    return again(
        e, s.clean(x, t, e.attributes["axes"], neutral(x.dtype, e.primitive.name.removeprefix("reduce_")))
    )


def _counts(e: Equation, source: Equation | None) -> bool:
    ones = source is not None and source.primitive.name == "full" and source.attributes["value"] == 1
    whole = len(e.attributes["axes"]) == e.inputs[0].type.ndim
    return ones and whole and e.primitive.name == "reduce_sum" and is_integer(e.inputs[0].type.dtype)


def _arg(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    x, sign = values[0], 1 if e.primitive.name == "argmin" else -1
    return again(e, s.clean(x, e.inputs[0].type, (e.attributes["axis"],), lowest(x.dtype, sign)))


def _cumulative(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    a, x = e.attributes, values[0]
    if a["reverse"]:
        x = s.clean(x, e.inputs[0].type, (a["axis"],), neutral(x.dtype, a["kind"]))
    return again(e, x)


def _sort(s: Scope, e: Equation, values: Sequence[Value]) -> Any:
    """What lies behind comes last: NaN among floats, and equal elements keep their order."""
    axis, keys = e.attributes["axis"], e.attributes["keys"]
    found = list(values)
    for i in range(keys):
        last = float("nan") if is_float(found[i].dtype) else lowest(found[i].dtype, 1)
        found[i] = s.clean(found[i], e.inputs[i].type, (axis,), last)
    return again(e, *found)


def _top_k(s: Scope, e: Equation, values: Sequence[Value]) -> Any:
    x, t = values[0], e.inputs[0].type
    return again(e, s.clean(x, t, (e.attributes["axis"] % t.ndim,), lowest(x.dtype)))


def _dot(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    pairs = zip(values, e.inputs, e.attributes["contract"], strict=True)
    return again(e, *(s.clean(x, v.type, axes, 0) for x, v, axes in pairs))


def _conv(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    """Images may be any number; planes are padded by what lies behind them."""
    if loose(e.inputs[1].type):
        raise OneByOne("a convolution whose weights the run sizes")
    t = e.inputs[0].type
    return again(e, s.clean(values[0], t, range(1, t.ndim), 0), values[1])


def _weight_grad(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    return again(e, *(s.clean(x, v.type, None, 0) for x, v in zip(values, e.inputs, strict=True)))


def _window_reduce(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    x, t = values[0], e.inputs[0].type
    plane = range(t.ndim - len(e.attributes["size"]), t.ndim)
    return again(e, s.clean(x, t, plane, neutral(x.dtype, e.attributes["kind"])))


def _of_whole_planes(rank: Any) -> Rule:
    """What counts places of a plane: its size must not change."""

    def rule(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
        for v in (*e.inputs, *e.outputs):
            if is_symbolic(tuple(v.type.shape[v.type.ndim - rank(e.attributes) :])):
                raise OneByOne(f"{e.primitive.name} counts the places of a plane whose size the run decides")
        return again(e, *values)

    return rule


def _of_whole_axes(s: Scope, e: Equation, values: Sequence[Value]) -> Any:
    """Transforms along axes whose size is known; others are a batch."""
    a, t = e.attributes, e.inputs[0].type
    along = a["axes"] if "axes" in a else (a["axis"],)
    if is_symbolic((*(t.shape[i] for i in along), a.get("length"))):
        raise OneByOne(f"{e.primitive.name} along a size that the run decides")
    return again(e, *values)


def _of_matrices(s: Scope, e: Equation, values: Sequence[Value]) -> Any:
    for v in (*e.inputs, *e.outputs):
        if is_symbolic(tuple(v.type.shape[-2:])):
            raise OneByOne(f"{e.primitive.name} of a matrix whose size the run decides")
    return again(e, *values)


RULES: dict[str, Rule] = {
    **{f"reduce_{kind}": _reduce for kind in ("sum", "prod", "max", "min", "and", "or")},
    "argmax": _arg,
    "argmin": _arg,
    "cumulative": _cumulative,
    "sort": _sort,
    "top_k": _top_k,
    "dot": _dot,
    "conv": _conv,
    "conv_input_grad": _conv,
    "conv_weight_grad": _weight_grad,
    "window_reduce": _window_reduce,
    "window_argmax": _of_whole_planes(lambda a: len(a["size"])),
    "window_gather": _of_whole_planes(lambda a: a["rank"]),
    "window_scatter": _of_whole_planes(lambda a: len(a["plane"])),
    **dict.fromkeys(("fft", "rfft", "irfft"), _of_whole_axes),
    **dict.fromkeys(("lu", "qr", "cholesky", "triangular_solve"), _of_matrices),
}  # fmt: skip
