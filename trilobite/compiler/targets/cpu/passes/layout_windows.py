"""The channels-last form of a window equation, and the two joins that pooling's backward pass asks for.

Enters: a `window_*` equation and who made its operands. Leaves: a primitive's name, operands, attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitives.conv_geometry import spread

_WINDOW = ("size", "stride", "low", "high", "dilation")
Form = tuple[str, tuple[Var, ...], dict[str, Any]]


def last_window(e: Equation, maker: Mapping[Var, Equation]) -> Form:
    joined = _max_grad(e, maker) or _spread(e, maker)
    if joined is not None:
        return joined
    return e.primitive.name.replace("window", "window_last"), e.inputs, dict(e.attributes)


def _max_grad(e: Equation, maker: Mapping[Var, Equation]) -> Form | None:
    """window_scatter(y, window_argmax(x)) -> window_last_max_grad(x, y)"""
    if e.primitive.name != "window_scatter":
        return None
    places = maker.get(e.inputs[1])
    if places is None or places.primitive.name != "window_argmax":
        return None
    x = places.inputs[0]
    plane = x.type.shape[x.type.ndim - len(e.attributes["plane"]) :]
    if plane != e.attributes["plane"]:
        return None
    return "window_last_max_grad", (x, e.inputs[0]), {k: places.attributes[k] for k in _WINDOW}


def _spread(e: Equation, maker: Mapping[Var, Equation]) -> Form | None:
    """window_reduce(sum, stride 1, of pad(y, between)) -> window_last_spread(y)"""
    if e.primitive.name != "window_reduce" or e.attributes["kind"] != "sum":
        return None
    wide = maker.get(e.inputs[0])
    if wide is None or wide.primitive.name != "pad" or any(s != 1 for s in e.attributes["stride"]):
        return None
    a, rank = wide.attributes, len(e.attributes["size"])
    lead = e.outputs[0].type.ndim - rank
    if any(a["low"]) or any(a["high"]) or any(a["between"][:lead]) or a["value"] != 0:
        return None
    y, size, dilation = wide.inputs[0], e.attributes["size"], e.attributes["dilation"]
    plane, stride = e.outputs[0].type.shape[lead:], tuple(b + 1 for b in a["between"][lead:])
    low = tuple((n - 1) * d - lo for n, d, lo in zip(size, dilation, e.attributes["low"], strict=True))
    high = tuple(
        (m - 1) * s + spread(n, d) - p - lo
        for m, s, n, d, p, lo in zip(y.type.shape[lead:], stride, size, dilation, plane, low, strict=True)
    )
    window = {"size": size, "stride": stride, "low": low, "high": high, "dilation": dilation}
    return "window_last_spread", (y,), {"plane": plane, **window}
