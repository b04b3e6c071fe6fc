"""merge_phases: a transposed convolution to few channels becomes one convolution to all phases of its stride.

Enters: a graph before layout. Leaves: the graph in which such a `conv_input_grad` of stride s, whose kernel
is some whole number of strides long, is a `conv` with s outputs for each channel along each axis, put side
by side. A transposed convolution runs phase by phase, each with filters for its channels alone: few of them
leave most lanes empty, which all phases together fill.
"""

from __future__ import annotations

from itertools import chain
from math import prod

from trilobite.base.dtypes import float32, float64
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters, Match, Rule, by_head, rewrite
from trilobite.ir.graph import Graph, Var
from trilobite.ir.types import Affine
from trilobite.native.host import features

_GAIN = 2  # tiles of filters that all phases together must save: values are moved once more for it


def _merged(m: Match) -> Var | None:
    """conv_input_grad(y[N, K, *n], w[K, C, *kernel]) -> x[N, C, *space]."""
    y, w = m.equation.inputs
    a, space = m.attributes, m.type.shape[2:]
    if not _is_worth(m):
        return None
    stride, kernel = a["stride"], w.type.shape[2:]
    taps = tuple(k // s for k, s in zip(kernel, stride, strict=True))
    # Position i of y reaches s*i + r - low: tap r // s of phase r % s, counted from -low on.
    steps = tuple(
        max(-(-(low + size) // s), n)
        for low, size, s, n in zip(a["low"], space, stride, y.type.shape[2:], strict=True)
    )
    high = tuple(many - n for many, n in zip(steps, y.type.shape[2:], strict=True))
    ones = (1,) * len(space)
    phases = m.make(
        "conv", y, _filters(m, w, taps, stride), stride=ones, low=tuple(t - 1 for t in taps), high=high,
        x_dilation=ones, w_dilation=ones, groups=1, dtype=a["dtype"],
    )  # fmt: skip
    return _side_by_side(m, phases, steps, stride)


def _is_worth(m: Match) -> bool:
    """Sizes are numbers, and phases together need clearly fewer tiles of filters."""
    (y, w), a = m.equation.inputs, m.attributes
    sizes = (*y.type.shape[1:], *w.type.shape, *m.type.shape[1:])
    if y.type.dtype not in (float32, float64) or any(isinstance(n, Affine) for n in sizes):
        return False
    spread = any(d != 1 for name in ("x_dilation", "w_dilation") for d in a[name])
    stride, kernel = a["stride"], w.type.shape[2:]
    whole = all(k and k % s == 0 for k, s in zip(kernel, stride, strict=True))
    if a["groups"] != 1 or spread or not whole or any(low < 0 for low in a["low"]) or prod(sizes) == 0:
        return False
    channels, phases = int(w.type.shape[1]), prod(stride)
    lanes = features().tile_lanes(y.type.dtype.itemsize)
    apart, together = phases * -(-channels // lanes), -(-channels * phases // lanes)
    return bool(apart >= _GAIN * together)


def _filters(m: Match, w: Var, taps: tuple[int, ...], stride: tuple[int, ...]) -> Var:
    """w[K, C, *kernel] as [C * phases, K, *taps], taps turned round."""
    k, c = w.type.shape[:2]
    axes = range(2, 2 + 2 * len(taps), 2)
    parted = m.make("reshape", w, shape=(k, c, *chain.from_iterable(zip(taps, stride, strict=True))))
    turned = m.make("reverse", parted, axes=tuple(axes))
    order = (1, *(a + 1 for a in axes), 0, *axes)
    sizes = (int(c) * prod(stride), k, *taps)
    return m.make("reshape", m.make("transpose", turned, axes=order), shape=sizes)


def _side_by_side(m: Match, phases: Var, steps: tuple[int, ...], stride: tuple[int, ...]) -> Var:
    """[N, C * phases, *steps] as [N, C, *space]: phases in turn, from the first position that is wanted."""
    n, c = m.type.shape[:2]
    parted = m.make("reshape", phases, shape=(n, c, *stride, *steps))
    rank = len(steps)
    order = (0, 1, *chain.from_iterable((2 + rank + i, 2 + i) for i in range(rank)))
    sizes = tuple(many * s for many, s in zip(steps, stride, strict=True))
    whole = m.make("reshape", m.make("transpose", parted, axes=order), shape=(n, c, *sizes))
    low = m.attributes["low"]
    start, stop = (0, 0, *low), (n, c, *(a + b for a, b in zip(low, m.type.shape[2:], strict=True)))
    return m.make("slice", whole, start=start, stop=stop, step=(1,) * (2 + rank))


_RULES = by_head((Rule("conv_input_grad(x, y)", _merged, frozenset({float32, float64}), exact=False),))


def merge_phases(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    """The graph with transposed convolutions to few channels as convolutions to all phases."""
    return rewrite(graph, _RULES, counters)
