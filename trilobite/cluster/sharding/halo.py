"""Convolutions split along space: each rank needs rows beyond its own part, which its neighbours have.

Enters: parts of an image. Leaves: the part of the result. Both neighbours along the side send the rows at
their borders, once; what lies outside of the whole image comes as zeros, which is the convolution's padding.
Parts that are smaller than what their neighbours need of them are refused: then the image is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from trilobite.cluster.groups import parts
from trilobite.cluster.sharding.placements import Range
from trilobite.cluster.sharding.rules import Attributes, Splitting
from trilobite.ir.graph import Var
from trilobite.ir.types import TensorType

SPACE = 4  # the factor of the first dimension of space


class Window(NamedTuple):
    """A convolution along one dimension."""

    stride: int
    low: int
    span: int  # of the spread kernel

    def read(self, out: Range) -> Range:
        """Which elements of the input these of the output read."""
        begin = out.begin * self.stride - self.low
        return Range(begin, (out.end - 1) * self.stride - self.low + self.span)

    def readers(self, x: Range) -> Range:
        """Which elements of the output read these of the input."""
        begin = -(-(x.begin + self.low - self.span + 1) // self.stride)
        return Range(begin, (x.end - 1 + self.low) // self.stride + 1)


def window(attributes: Attributes, kernel: int, i: int) -> Window:
    span = attributes["w_dilation"][i] * (kernel - 1) + 1
    return Window(attributes["stride"][i], attributes["low"][i], span)


def _cut(size: int, n: int) -> list[Range]:
    out, at = [], 0
    for k in parts(size, n):
        out.append(Range(at, at + k))
        at += k
    return out


class Borders(NamedTuple):
    """How many rows come from the neighbour before and from the one behind."""

    before: int
    behind: int


def borders(have: Sequence[Range], need: Sequence[Range]) -> Borders | str:
    """The same for all ranks along the side; or why not."""
    if any(r.size < 1 for r in need):
        return "a part of the result reads nothing"
    rows = list(zip(have, need, strict=True))
    before = max(0, *(h.begin - w.begin for h, w in rows))
    behind = max(0, *(w.end - h.end for h, w in rows))
    shortest = min(r.size for r in have)
    if max(before, behind) > shortest:
        return f"parts of {shortest} rows are shorter than the {max(before, behind)} that a neighbour reads"
    return Borders(before, behind)


def reach(
    x: TensorType, y: TensorType, attributes: Attributes, kernel: Sequence[int]
) -> Callable[[int, int], str]:
    """Why a dimension of space cannot be split into n parts; nothing if it can."""

    def refuses(factor: int, n: int) -> str:
        i = factor - SPACE
        if i < 0:
            return ""
        of_x, of_y = int(x.shape[2 + i]), int(y.shape[2 + i])
        if min(of_x, of_y) < n:
            return "there are fewer rows than ranks"
        w, xs, ys = window(attributes, kernel[i], i), _cut(of_x, n), _cut(of_y, n)
        for found in (borders(xs, [w.read(r) for r in ys]), borders(ys, [w.readers(r) for r in xs])):
            if isinstance(found, str):
                return found
        return ""

    return refuses


def _extended(s: Splitting, x: Var, d: int, have: list[Range], need: list[Range]) -> Var:
    """This rank's rows with those around them that it needs."""
    found = borders(have, need)
    assert isinstance(found, Borders)  # `reach` has looked
    own, size = have[s.at], int(x.type.shape[d])
    rows = [x]
    if found.before:
        rows.insert(0, s.shift(_rows(s, x, d, size - found.before, size), 1))
    if found.behind:
        rows.append(s.shift(_rows(s, x, d, 0, found.behind), -1))
    joined = s.emit("concatenate", *rows, axis=d) if len(rows) > 1 else x
    first = need[s.at].begin - (own.begin - found.before)
    return _rows(s, joined, d, first, first + need[s.at].size)


def _rows(s: Splitting, x: Var, d: int, begin: int, end: int) -> Var:
    start, stop = [0] * x.type.ndim, list(x.type.shape)
    if (begin, end) == (0, stop[d]):
        return x
    start[d], stop[d] = begin, end
    return s.emit("slice", x, start=tuple(start), stop=tuple(stop), step=(1,) * x.type.ndim)


def _unpadded(attributes: Attributes, i: int) -> dict[str, object]:
    return {**attributes, **{k: _replaced(attributes[k], i, 0) for k in ("low", "high")}}


def _replaced(values: Sequence[int], i: int, new: int) -> tuple[int, ...]:
    return (*values[:i], new, *values[i + 1 :])


def _with_rows_around(s: Splitting, factor: int, whole_y: TensorType, kernel: int) -> tuple[Var, int]:
    i = factor - SPACE
    w = window(s.attributes, kernel, i)
    have = _cut(int(s.equation.inputs[0].type.shape[2 + i]), s.n)
    need = [w.read(r) for r in _cut(int(whole_y.shape[2 + i]), s.n)]
    return _extended(s, s.inputs[0], 2 + i, have, need), i


def conv(s: Splitting, factor: int) -> tuple[Var, ...]:
    w = s.inputs[1]
    kernel = int(w.type.shape[2 + factor - SPACE])
    x, i = _with_rows_around(s, factor, s.equation.outputs[0].type, kernel)
    return (s.emit("conv", x, w, **_unpadded(s.attributes, i)),)


def conv_weight_grad(s: Splitting, factor: int) -> tuple[Var, ...]:
    kernel = s.attributes["kernel"][factor - SPACE]
    x, i = _with_rows_around(s, factor, s.equation.inputs[1].type, kernel)
    return (s.emit("conv_weight_grad", x, s.inputs[1], **_unpadded(s.attributes, i)),)


def conv_input_grad(s: Splitting, factor: int) -> tuple[Var, ...]:
    """All that the readers of this rank's rows make of them, cropped to these rows."""
    i = factor - SPACE
    y, w = s.inputs
    at = window(s.attributes, int(w.type.shape[2 + i]), i)
    rows = _cut(int(s.equation.outputs[0].type.shape[2 + i]), s.n)
    have = _cut(int(s.equation.inputs[0].type.shape[2 + i]), s.n)
    need = [at.readers(r) for r in rows]
    near = _extended(s, y, 2 + i, have, need)
    made = at.read(need[s.at])
    attributes = _unpadded(s.attributes, i)
    space = _replaced(s.attributes["space"], i, made.size)
    x = s.emit("conv_input_grad", near, w, **{**attributes, "space": space})
    none = (0,) * x.type.ndim
    low = _replaced(none, 2 + i, made.begin - rows[s.at].begin)
    high = _replaced(none, 2 + i, rows[s.at].end - made.end)
    return (s.emit("pad", x, low=low, high=high, between=none, value=0),)
