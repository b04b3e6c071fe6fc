"""Networks whose channels come last, as ONNX, whose channels come first: TFLite, TensorFlow and Keras.

A `Tensor` is known by the name of its last-channel form, of its first-channel form, or both; whoever needs
the other form gets a Transpose, once. Convolutions, pooling and resizing give the first-channel form;
elementwise operators stay in it where all operands can follow. So a chain of layers has one Transpose at
each end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.inference.formats.assembly import Assembly
from trilobite.inference.formats.mapped import Array


def to_first(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def to_last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


class Tensor:
    """A value: `last` and `first` are names of its two forms, `array` its numbers where they are known."""

    __slots__ = ("array", "first", "last", "rank")

    def __init__(
        self, last: str = "", first: str = "", rank: int | None = None, array: Array | None = None
    ) -> None:
        self.last, self.first, self.array = last, first, array
        self.rank = array.ndim if array is not None else rank


class Layers:
    """Writes layers over channels-last tensors into an assembly."""

    def __init__(self, a: Assembly) -> None:
        self.a = a

    # -- forms ---------------------------------------------------------------------------------------------

    def known(self, array: Any, hint: str = "constant") -> Tensor:
        array = np.asarray(array)
        return (
            Tensor(array=array)
            if array.nbytes <= 512
            else Tensor(self.a.constant(array, hint=hint), array=array)
        )

    def last(self, t: Tensor) -> str:
        if not t.last:
            if t.array is not None:
                t.last = self.a.constant(t.array)
            else:
                assert t.rank is not None
                t.last = self.a.node("Transpose", t.first, perm=to_last(t.rank))
        return t.last

    def first(self, t: Tensor, rank: int = 4) -> str:
        if not t.first:
            n = t.rank if t.rank is not None and t.rank > 2 else rank
            if t.array is not None:
                t.first = self.a.constant(t.array.transpose(to_first(n)))
            else:
                t.first = self.a.node("Transpose", self.last(t), perm=to_first(n))
                t.rank = n
        return t.first

    def made(self, last: str, rank: int | None = None) -> Tensor:
        return Tensor(last, rank=rank)

    def made_first(self, first: str, rank: int) -> Tensor:
        return Tensor(first=first, rank=rank)

    # -- elementwise ---------------------------------------------------------------------------------------

    def pointwise(self, op: str, *operands: Tensor, **attrs: Any) -> Tensor:
        """One operator of ONNX that broadcasts."""
        rank = self._first_rank(operands)
        if rank is None:
            names = [self.last(t) for t in operands]
            ranks = [t.rank for t in operands]
            known = None if any(r is None for r in ranks) else max(r for r in ranks if r is not None)
            return self.made(self.a.node(op, *names, **attrs), known)
        names = [self._aligned(t, rank) for t in operands]
        return self.made_first(self.a.node(op, *names, **attrs), rank)

    def _first_rank(self, operands: Sequence[Tensor]) -> int | None:
        """The rank in which all operands can be had channels first, if one of them is there already."""
        ranks = [t.rank for t in operands if t.array is None and t.first and not t.last]
        if not ranks or ranks[0] is None:
            return None
        rank = ranks[0]
        for t in operands:
            fits = t.rank is not None and (
                t.rank == rank or (t.array is not None and t.rank <= rank) or t.rank == 0
            )
            if not fits:
                return None
        return rank

    def _aligned(self, t: Tensor, rank: int) -> str:
        if t.rank == rank and t.array is None:
            return self.first(t, rank)
        if t.rank == 0 or t.array is None:
            return self.last(t)
        full = t.array.reshape((1,) * (rank - t.array.ndim) + t.array.shape)
        if full.size == 1:
            return self.a.constant(full.reshape(()))
        moved = full.transpose(to_first(rank))
        return self.a.constant(moved[0] if moved.shape[0] == 1 else moved)

    def unary(self, op: str, x: Tensor, **attrs: Any) -> Tensor:
        return self.pointwise(op, x, **attrs)

    def number(self, value: float, dtype: Any = np.float32) -> Tensor:
        return Tensor(array=np.asarray(value, dtype))

    def clip(self, x: Tensor, low: float | None, high: float | None) -> Tensor:
        bounds = ["" if v is None else self.a.constant(v, np.float32) for v in (low, high)]
        while bounds and not bounds[-1]:
            bounds.pop()
        if x.first and not x.last and x.rank is not None:
            return self.made_first(self.a.node("Clip", x.first, *bounds), x.rank)
        return self.made(self.a.node("Clip", self.last(x), *bounds), x.rank)

    # -- windows -------------------------------------------------------------------------------------------

    def _window(self, padding: str | Sequence[Sequence[int]], strides: Sequence[int]) -> dict[str, Any]:
        """`padding`: SAME, VALID, or (before, after) for each spatial axis."""
        out: dict[str, Any] = {"strides": list(strides)}
        if padding == "SAME":
            out["auto_pad"] = "SAME_UPPER"
        elif padding != "VALID":
            out["pads"] = [int(p[0]) for p in padding] + [int(p[1]) for p in padding]
        return out

    def conv(
        self, x: Tensor, weight: str, bias: str, kernel: Sequence[int], *,
        strides: Sequence[int], dilations: Sequence[int], padding: Any, groups: int,
    ) -> Tensor:  # fmt: skip
        """`weight` as ONNX has it: (filters, channels of a group, *kernel)."""
        rank = len(kernel) + 2
        window = self._window(padding, strides)
        if any(d != 1 for d in dilations):
            window["dilations"] = list(dilations)
        inputs = [self.first(x, rank), weight, *([bias] if bias else [])]
        out = self.a.node("Conv", *inputs, kernel_shape=list(kernel), group=groups, **window)
        return self.made_first(out, rank)

    def conv_transposed(
        self, x: Tensor, weight: str, bias: str, kernel: Sequence[int], *,
        strides: Sequence[int], padding: Any, space: Sequence[int] | None, groups: int = 1,
        dilations: Sequence[int] | None = None,
    ) -> Tensor:  # fmt: skip
        """`weight`: (channels in, channels out of a group, *kernel). `space`: the extent of the result, if
        the file says it."""
        rank = len(kernel) + 2
        window = self._window(padding, strides)
        if dilations is not None and any(d != 1 for d in dilations):
            window["dilations"] = list(dilations)
        if space is not None:
            window["output_shape"] = list(space)
        inputs = [self.first(x, rank), weight, *([bias] if bias else [])]
        out = self.a.node("ConvTranspose", *inputs, kernel_shape=list(kernel), group=groups, **window)
        return self.made_first(out, rank)

    def pool(self, op: str, x: Tensor, size: Sequence[int], strides: Sequence[int], padding: Any) -> Tensor:
        rank = len(size) + 2
        window = self._window(padding, strides)
        out = self.a.node(op, self.first(x, rank), kernel_shape=list(size), **window)
        return self.made_first(out, rank)

    def resize(self, x: Tensor, size: str, mode: str, *, align_corners: bool, half_pixel: bool) -> Tensor:
        """`size`: an int64 tensor of (height, width)."""
        a = self.a
        how = "align_corners" if align_corners else "half_pixel" if half_pixel else "asymmetric"
        name = self.first(x)
        lead = a.node("Shape", name, start=0, end=2)
        sizes = a.node("Concat", lead, size, axis=0)
        attrs: dict[str, Any] = {"coordinate_transformation_mode": how, "mode": mode}
        if mode == "nearest":
            attrs["nearest_mode"] = "round_prefer_ceil" if align_corners or half_pixel else "floor"
        return self.made_first(a.node("Resize", name, "", "", sizes, **attrs), 4)

    def reduce(self, op: str, x: Tensor, axes: Sequence[int] | None, keep: bool) -> Tensor:
        """Over axes of the last-channel form; None: over all of them."""
        a, rank = self.a, x.rank
        if axes is not None and rank is not None and x.first and not x.last:
            order = to_first(rank)
            moved = sorted(order.index(i % rank) for i in axes)
            out = a.node(op, x.first, a.ints(*moved), keepdims=int(keep))
            if keep:
                return self.made_first(out, rank)
            left = [i for i in order if i not in {j % rank for j in axes}]
            if left == sorted(left):
                return self.made(out, rank - len(axes))
        over = [] if axes is None else [a.ints(*axes)]
        out = a.node(op, self.last(x), *over, keepdims=int(keep))
        left_rank = None if rank is None else rank if keep else 0 if axes is None else rank - len(axes)
        return self.made(out, left_rank)
