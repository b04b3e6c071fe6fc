"""The algebra of data movement: what moves nothing goes, two moves become one. Bits never change.

Canonical form: a broadcast repeats a value without axes of size 1, so that its axes tell what varies; one
that repeats nothing is a reshape, as is a transpose that only moves axes of size 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trilobite.base.dtypes import INEXACT, INTEGERS
from trilobite.compiler.graph.rewrite import Element, Match, Rule, filled
from trilobite.ir.graph import Var
from trilobite.ir.types import Affine, Dim, Shape

_PARTS = 16  # of a part that become parts of the whole
_FEW = 64  # elements that are looked at before all of a constant


def squeezed(shape: Shape) -> Shape:
    return tuple(d for d in shape if d != 1)


def reshaped(m: Match, v: Var, shape: Shape) -> Var:
    return v if v.type.shape == shape else m.make("reshape", v, shape=shape)


def repeated(m: Match, v: Var, shape: Shape, axes: Sequence[int]) -> Var:
    return v if v.type.shape == shape else m.make("broadcast", v, shape=shape, axes=tuple(axes))


# -- numbers -------------------------------------------------------------------------------------------------


def _filled(m: Match) -> Var | None:
    """What is one number everywhere, whatever moved it, is a `full`."""
    element = m.number(m["c"])
    assert element is not None
    return m.full(element) if filled(element, m.type) is not None else None


def _constant(m: Match) -> Var | None:
    flat = m.attributes["value"].array.reshape(-1)
    if flat.size == 0 or not _all_same(flat[:_FEW]) or not _all_same(flat):
        return None
    element = flat[:1].reshape(())
    return m.full(element) if filled(element, m.type) is not None else None


def _all_same(flat: Element) -> bool:
    words = flat.view(np.uint8).reshape(flat.size, -1)
    return bool((words == words[:1]).all())


def _nothing(m: Match) -> Var | None:
    """Of no elements it does not matter which."""
    if (
        m.equation.primitive.name in ("full", "constant")
        or m.equation.primitive.effect
        or 0 not in m.type.shape
    ):
        return None
    return m.make("full", shape=m.type.shape, dtype=m.type.dtype, value=0)


# -- broadcast -----------------------------------------------------------------------------------------------


def _broadcast(m: Match) -> Var | None:
    """In canonical form: no axis of size 1 in what is repeated, and something is repeated."""
    x, shape, axes = m["x"], m.attributes["shape"], m.attributes["axes"]
    if x.type.shape == shape:
        return x
    if squeezed(x.type.shape) == squeezed(shape):
        return m.make("reshape", x, shape=shape)
    kept = [(d, a) for d, a in zip(x.type.shape, axes, strict=True) if d != 1]
    if len(kept) == len(axes):
        return None
    small = m.make("reshape", x, shape=tuple(d for d, _ in kept))
    return m.make("broadcast", small, shape=shape, axes=tuple(a for _, a in kept))


def _broadcast_twice(m: Match) -> Var:
    inner, outer = m.inner().attributes["axes"], m.attributes["axes"]
    return m.make("broadcast", m["x"], shape=m.type.shape, axes=tuple(outer[a] for a in inner))


# -- reshape and transpose -----------------------------------------------------------------------------------


def _same_shape(m: Match) -> Var | None:
    return m["x"] if m.type == m["x"].type else None


def _reshape_twice(m: Match) -> Var:
    return reshaped(m, m["x"], m.type.shape)


def _transpose(m: Match) -> Var | None:
    """Nothing moves, or only axes of size 1."""
    axes, shape = m.attributes["axes"], m["x"].type.shape
    moving = [a for a in axes if shape[a] != 1]
    return reshaped(m, m["x"], m.type.shape) if moving == sorted(moving) else None


def _transpose_twice(m: Match) -> Var:
    inner, outer = m.inner().attributes["axes"], m.attributes["axes"]
    return m.make("transpose", m["x"], axes=tuple(inner[a] for a in outer))


# -- slices and the like -------------------------------------------------------------------------------------


def _slice_twice(m: Match) -> Var:
    a, b = m.inner().attributes, m.attributes
    shape = m.type.shape  # where nothing is left, the start may lie behind x's end
    start = tuple(
        0 if d == 0 else s + t * k
        for d, s, t, k in zip(shape, a["start"], b["start"], a["step"], strict=True)
    )
    step = tuple(k * n for k, n in zip(a["step"], b["step"], strict=True))
    stop = tuple(0 if d == 0 else s + (d - 1) * k + 1 for s, d, k in zip(start, shape, step, strict=True))
    return m.make("slice", m["x"], start=start, stop=stop, step=step)


def _slice_of_parts(m: Match) -> Var | None:
    """A slice that lies within one of the parts of a concatenation."""
    e = m.maker(m["x"])
    if e is None or e.primitive.name != "concatenate":
        return None
    axis, at = e.attributes["axis"], 0
    low, high = m.attributes["start"][axis], m.attributes["stop"][axis]
    for part in e.inputs:
        size = part.type.shape[axis]
        if not all(isinstance(d, int) for d in (low, high, size)):
            return None
        if at <= low and high <= at + size:
            return m.make(
                "slice", part, start=_replaced(m.attributes["start"], axis, low - at),
                stop=_replaced(m.attributes["stop"], axis, high - at), step=m.attributes["step"],
            )  # fmt: skip
        at += size
    return None


def _replaced(values: Shape, axis: int, value: Dim) -> Shape:
    return (*values[:axis], value, *values[axis + 1 :])


def _slice_of_repeated(m: Match) -> Var | None:
    """slice(broadcast(x)) -> broadcast(slice(x)): what is repeated is cut once."""
    x, axes = m["x"], m.inner().attributes["axes"]
    at = m.attributes
    if any(x.type.shape[i] != m.inner().outputs[0].type.shape[a] for i, a in enumerate(axes)):
        return None
    cut = m.make("slice", x, **{k: tuple(at[k][a] for a in axes) for k in ("start", "stop", "step")})
    return repeated(m, cut, m.type.shape, axes)


def _pad_nothing(m: Match) -> Var | None:
    at = m.attributes
    return None if any(at["low"]) or any(at["high"]) or any(at["between"]) else m["x"]


def _side_by_side(m: Match) -> Var | None:
    """pad(x) + pad(y) -> pad(concatenate(x, y)), where zeros meet what is not: the slopes of two slices."""
    parts = [m.rewriter.makers[v] for v in m.equation.inputs]
    if any(any(e.attributes["between"]) or e.attributes["value"] != 0 for e in parts):
        return None
    axes = {i for e in parts for k in ("low", "high") for i, d in enumerate(e.attributes[k]) if d != 0}
    if len(axes) != 1:
        return None
    (axis,) = axes
    first, second = sorted(parts, key=lambda e: _known(e.attributes["low"][axis]))
    begin, end = first.attributes["low"][axis], second.attributes["high"][axis]
    meets = first.attributes["low"][axis] + first.inputs[0].type.shape[axis] == second.attributes["low"][axis]
    if not meets or _known(begin) < 0 or _known(end) < 0:
        return None
    joined = m.make("concatenate", first.inputs[0], second.inputs[0], axis=axis)
    around = {"low": first.attributes["low"], "high": second.attributes["high"]}
    return m.make("pad", joined, **around, between=first.attributes["between"], value=0)


def _known(d: Dim) -> int:
    """A size to compare by; symbolic ones stand last and meet nothing."""
    return -1 if isinstance(d, Affine) else d


def _one_part(m: Match) -> Var | None:
    """Parts without elements go; one part is itself; parts of a part are parts; slices that follow each other
    are one slice.
    """
    axis, parts = m.attributes["axis"], m.equation.inputs
    some = [v for w in parts for v in _parts(m, w, axis) if v.type.shape[axis] != 0]
    if len(some) == 1:
        return some[0]
    joined = _joined(m, some, axis)
    if tuple(joined) == parts or not joined:
        return None
    return joined[0] if len(joined) == 1 else m.make("concatenate", *joined, axis=axis)


def _parts(m: Match, v: Var, axis: int) -> Sequence[Var]:
    """The parts of a value that is joined itself, if nobody else reads it and they are few."""
    e = m.maker(v)
    joins = e is not None and e.primitive.name == "concatenate" and e.attributes["axis"] == axis
    if e is None or not joins or len(e.inputs) > _PARTS or m.rewriter.readers[v] > 1:
        return [v]
    return e.inputs


def _joined(m: Match, parts: Sequence[Var], axis: int) -> list[Var]:
    out: list[Var] = []
    for v in parts:
        merged = _following(m, out[-1], v, axis) if out else None
        if merged is None:
            out.append(v)
        else:
            out[-1] = merged
    return out


def _following(m: Match, a: Var, b: Var, axis: int) -> Var | None:
    """Two slices of one value, the second beginning where the first ends."""
    e, f = m.maker(a), m.maker(b)
    if e is None or f is None or not e.primitive.name == f.primitive.name == "slice":
        return None
    if e.inputs[0] is not f.inputs[0] or e.attributes["step"] != f.attributes["step"]:
        return None
    s, t = e.attributes, f.attributes
    beside = all(s["start"][i] == t["start"][i] and s["stop"][i] == t["stop"][i]
                 for i in range(len(s["start"])) if i != axis)  # fmt: skip
    if not beside or s["step"][axis] != 1 or s["stop"][axis] != t["start"][axis]:
        return None
    stop = _replaced(s["stop"], axis, t["stop"][axis])
    return m.make("slice", e.inputs[0], start=s["start"], stop=stop, step=s["step"])


def _reverse(m: Match) -> Var | None:
    """Axes of size 1 are not worth turning round."""
    axes = tuple(a for a in m.attributes["axes"] if m.type.shape[a] != 1)
    if axes == m.attributes["axes"]:
        return None
    return m.make("reverse", m["x"], axes=axes) if axes else m["x"]


def _reverse_twice(m: Match) -> Var:
    once = set(m.attributes["axes"]) ^ set(m.inner().attributes["axes"])
    return m.make("reverse", m["x"], axes=tuple(sorted(once))) if once else m["x"]


def _update_all(m: Match) -> Var | None:
    """Writing all of x gives y; writing nothing gives x."""
    if m["y"].type == m["x"].type:
        return m["y"]
    return m["x"] if 0 in m["y"].type.shape else None


RULES = (
    Rule("constant", _constant),
    Rule("*", _nothing),
    *(Rule(f"{name}(c)", _filled) for name in ("broadcast", "reshape", "transpose", "slice", "reverse")),
    Rule("stop_gradient(x)", "x"),
    Rule("cluster_share(x)", "x"),  # it matters to derivatives alone
    Rule("broadcast(x)", _broadcast),
    Rule("broadcast(broadcast(x))", _broadcast_twice),
    Rule("reshape(x)", _same_shape),
    Rule("reshape(reshape(x))", _reshape_twice),
    Rule("transpose(x)", _transpose),
    Rule("transpose(transpose(x))", _transpose_twice),
    Rule("slice(x)", _same_shape),
    Rule("slice(slice(x))", _slice_twice),
    Rule("slice(broadcast(x))", _slice_of_repeated),
    Rule("slice(x)", _slice_of_parts),
    Rule("pad(x)", _pad_nothing),
    Rule("concatenate", _one_part),
    Rule("add(pad(x), pad(y))", _side_by_side, INTEGERS),
    Rule("add(pad(x), pad(y))", _side_by_side, INEXACT, exact=False),  # -0.0 + 0.0 is 0.0, and here -0.0
    Rule("reverse(x)", _reverse),
    Rule("reverse(reverse(x))", _reverse_twice),
    Rule("update_slice(x, y)", _update_all),
)
