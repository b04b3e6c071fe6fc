"""Slices as TFLite and TensorFlow write them, over channels-last tensors, as ONNX nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.inference.formats.channels_last import Layers, Tensor
from trilobite.inference.formats.tensor_ops import FAR, Unknown, as_int64, ints


def _slots(rank: int | None, count: int, masks: Sequence[int]) -> list[tuple[int, str]]:
    """For each entry of a strided slice: what it is; an ellipsis is spread over the axes it stands for."""
    _, _, ellipsis, new, shrink = masks
    rows: list[tuple[int, str]] = []
    for i in range(count):
        if ellipsis >> i & 1:
            if rank is None:
                raise Unknown("an ellipsis over a tensor of unknown rank")
            others = sum(1 for j in range(count) if j != i and not new >> j & 1)
            rows += [(i, "whole")] * (rank - others)
        else:
            rows.append((i, "new" if new >> i & 1 else "shrink" if shrink >> i & 1 else "slice"))
    return rows


def strided_slice(
    layers: Layers, x: Tensor, begin: Tensor, end: Tensor, strides: Tensor, masks: Sequence[int]
) -> Tensor:
    """`masks`: of begins, ends, ellipsis, new axes and axes that vanish, one bit an entry."""
    steps = ints(strides, "the steps of a slice")
    picks: list[tuple[int, int]] = []  # axes, and the entries that cut them
    new, gone, axis, out_axis = [], [], 0, 0
    for i, what in _slots(x.rank, len(steps), masks):
        if what == "new":
            new.append(out_axis)
            out_axis += 1
            continue
        if what != "whole":
            picks.append((axis, i))
        if what == "shrink":
            gone.append(axis)
        else:
            out_axis += 1
        axis += 1
    if begin.array is None or end.array is None:
        return _sliced_by_run(layers, x, (begin, end, steps), picks, masks, gone, new)
    starts, ends = ints(begin, ""), ints(end, "")
    cuts = [(axis, *_bounds(starts[i], ends[i], steps[i], masks, i, axis in gone)) for axis, i in picks]
    if x.array is not None:
        return layers.known(_cut(x.array, cuts, gone, new))
    return _sliced(layers, x, cuts, gone, new)


def _sliced_by_run(
    layers: Layers,
    x: Tensor,
    bounds: tuple[Tensor, Tensor, Sequence[int]],
    picks: Sequence[tuple[int, int]],
    masks: Sequence[int],
    gone: Sequence[int],
    new: Sequence[int],
) -> Tensor:
    """A slice whose bounds a run decides, but for its steps and what masks leave out."""
    a, steps = layers.a, bounds[2]
    begin, end = as_int64(layers, bounds[0]), as_int64(layers, bounds[1])
    starts, ends = [], []
    for axis, i in picks:
        first, last = (a.node("Slice", t, a.ints(i), a.ints(i + 1)) for t in (begin, end))
        if axis in gone:
            after = a.node("Add", first, a.ints(1))
            last = a.node("Where", a.node("Equal", after, a.ints(0)), a.ints(FAR), after)
        else:
            back = steps[i] < 0
            first = a.ints(FAR if back else 0) if masks[0] >> i & 1 else first
            last = a.ints(-FAR if back else FAR) if masks[1] >> i & 1 else last
        starts.append(first)
        ends.append(last)
    axes = a.ints(*(axis for axis, _ in picks))
    strides = a.ints(*(1 if axis in gone else steps[i] for axis, i in picks))
    name = a.node(
        "Slice",
        layers.last(x),
        a.node("Concat", *starts, axis=0),
        a.node("Concat", *ends, axis=0),
        axes,
        strides,
    )
    return _reshaped(layers, name, x.rank, gone, new)


def _bounds(
    start: int, end: int, step: int, masks: Sequence[int], i: int, shrinks: bool
) -> tuple[int, int, int]:
    if shrinks:
        return start, (start + 1 if start != -1 else FAR), 1
    back = step < 0
    if masks[0] >> i & 1:
        start = FAR if back else 0
    if masks[1] >> i & 1:
        end = -FAR if back else FAR
    return start, end, step


def _cut(array: Any, picks: Any, gone: Sequence[int], new: Sequence[int]) -> Any:
    where: list[Any] = [slice(None)] * array.ndim
    for axis, start, end, step in picks:
        stop = None if abs(end) == FAR else end
        where[axis] = slice(None if abs(start) == FAR else start, stop, step)
    out = array[tuple(where)]
    out = out.squeeze(tuple(gone)) if gone else out
    for axis in new:
        out = np.expand_dims(out, axis)
    return out


def _sliced(layers: Layers, x: Tensor, picks: Any, gone: Sequence[int], new: Sequence[int]) -> Tensor:
    a, rank = layers.a, x.rank
    picks = [p for p in picks if p[1:] != (0, FAR, 1)]
    name = layers.last(x)
    if picks:
        axes, starts, ends, steps = (a.ints(*column) for column in zip(*picks, strict=True))
        name = a.node("Slice", name, starts, ends, axes, steps)
    return _reshaped(layers, name, rank, gone, new)


def _reshaped(layers: Layers, name: str, rank: int | None, gone: Sequence[int], new: Sequence[int]) -> Tensor:
    """Without the axes that vanish, with the new ones."""
    a = layers.a
    if gone:
        name = a.node("Squeeze", name, a.ints(*gone))
    if new:
        name = a.node("Unsqueeze", name, a.ints(*new))
    return layers.made(name, None if rank is None else rank - len(gone) + len(new))


def slice_(layers: Layers, x: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    """A size of -1 reaches to the end."""
    a = layers.a
    if begin.array is not None and size.array is not None:
        starts, sizes = ints(begin, ""), ints(size, "")
        rank = len(starts)
        ends = [FAR if n == -1 else s + n for s, n in zip(starts, sizes, strict=True)]
        return _sliced(layers, x, list(zip(range(rank), starts, ends, [1] * rank, strict=True)), [], [])
    first, count = as_int64(layers, begin), as_int64(layers, size)
    far = a.node("Where", a.node("Less", count, a.ints(0)), a.ints(FAR), a.node("Add", first, count))
    if x.rank is None:
        raise Unknown("a slice of a tensor of unknown rank")
    return layers.made(a.node("Slice", layers.last(x), first, far, a.ints(*range(x.rank))), x.rank)
