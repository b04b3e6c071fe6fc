"""Which values of a graph must agree on the order of their axes, and which order costs least.

Enters: a graph. Leaves: for every value the order in which its axes lie in memory. Values that equations
tie axis by axis (elementwise, pooling, padding, joining; transposes, which only rename axes) form one
component and get one order. Convolutions and pooling vote for channels last, everything that reads or makes
a value as the user wrote it votes for that; the bytes that would have to be moved decide. It rewrites
nothing, and leaves components without a convolution or a window alone. Linear in the number of equations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from trilobite.compiler.graph.regions import bytes_of
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import TensorType

Order = tuple[int, ...]  # memory axis j is the value's axis order[j]

POINTWISE = frozenset(
    """abs acos acosh add and asin asinh atan atan2 atanh barrier bitcast cast ceil clz copysign cos cosh
    digamma div eq erf erf_inv erfc exp exp2 expm1 floor floor_div ge gt hypot is_finite is_inf is_nan le
    lgamma log log10 log1p log2 logaddexp lt maximum minimum mul ne neg nextafter not or polygamma popcount
    pow rem round rsqrt select shift_left shift_right sign signbit sin sinh sqrt stop_gradient sub tan tanh
    trunc xor complex conj real imag""".split()
)
TIED = POINTWISE | frozenset(
    "pad slice concatenate reverse update_slice quantise requantise dequantise".split()
)  # axis i stays axis i
WINDOWS = {"window_reduce": 1, "window_argmax": 1, "window_gather": 2, "window_scatter": 2}
CONVOLUTIONS = frozenset({"conv", "conv_input_grad", "conv_weight_grad"})
REDUCTIONS = frozenset({"reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"})
FREE = frozenset({"full", "iota", "broadcast", "constant"})  # made in any order at no cost


def identity(ndim: int) -> Order:
    return tuple(range(ndim))


def inverse(order: Order) -> Order:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def channels_last(ndim: int, rank: int) -> Order:
    """Batch axes, the last `rank` axes, and then the axis before these."""
    at = ndim - 1 - rank
    return (*range(at), *range(at + 1, ndim), at)


def weight_last(ndim: int) -> Order:
    """(K, C, *kernel) as (*kernel, C, K)."""
    return (*range(2, ndim), 1, 0)


def permuted(t: TensorType, order: Order) -> TensorType:
    return TensorType(tuple(t.shape[i] for i in order), t.dtype)


def permuted_attributes(e: Equation, order: Order) -> dict[str, Any]:
    """Attributes that speak of axes, for axes in another order."""
    name, attributes = e.primitive.name, dict(e.attributes)
    if name in POINTWISE or order == identity(len(order)):
        return attributes
    for key in ("low", "high", "between", "start", "stop", "step", "shape"):
        if key in attributes:
            attributes[key] = tuple(attributes[key][i] for i in order)
    if attributes.get("axis") is not None:
        attributes["axis"] = order.index(attributes["axis"])
    if "axes" in attributes:
        attributes["axes"] = tuple(sorted(order.index(a) for a in attributes["axes"]))
    return attributes


def mixes_channels(e: Equation) -> bool:
    """Is it a convolution of single pixels, without padding: a product with channels as they lie?"""
    a = e.attributes
    return (
        e.primitive.name == "conv"
        and all(n == 1 for n in (*e.inputs[1].type.shape[2:], *a["x_dilation"], a["groups"]))
        and not any((*a["low"], *a["high"]))
    )


def window_rank(e: Equation) -> int:
    for name, of in (("size", len), ("plane", len), ("rank", int)):
        if name in e.attributes:
            return of(e.attributes[name])
    raise KeyError(e.primitive.name)


class Components:
    """Union-find over values, where each value knows which axis of its root its axes are."""

    def __init__(self) -> None:
        self._parent: dict[Var, tuple[Var, Order]] = {}

    def find(self, v: Var) -> tuple[Var, Order]:
        """The root, and for each axis of v the root's."""
        path, at = [], v
        while (up := self._parent.get(at)) is not None:
            path.append((at, up[1]))
            at = up[0]
        axes = identity(v.type.ndim)
        for below, step in reversed(path):  # from the root downwards
            axes = tuple(axes[i] for i in step)
            self._parent[below] = (at, axes)
        return at, axes

    def tie(self, a: Var, b: Var, axes: Order) -> None:
        """Axis i of b is axis axes[i] of a."""
        (root_a, of_a), (root_b, of_b) = self.find(a), self.find(b)
        if root_a is root_b:
            return  # if they already disagree, the votes decide and a transpose is made where they meet
        in_a = tuple(of_a[i] for i in axes)
        back = inverse(of_b)
        self._parent[root_b] = (root_a, tuple(in_a[i] for i in back))


def _wide(v: Var) -> bool:
    return v.type.ndim >= 3


def _ties(e: Equation) -> Iterator[tuple[Var, Var, Order]]:
    """Pairs of values whose axes an equation ties, outputs first."""
    name = e.primitive.name
    if name == "transpose":
        yield e.inputs[0], e.outputs[0], e.attributes["axes"]
    elif name in WINDOWS or name in TIED:
        out = e.outputs[0]
        for v in e.inputs:
            if v.type.ndim == out.type.ndim:
                yield out, v, identity(out.type.ndim)


def _wishes(e: Equation) -> Iterator[tuple[Var, Order]]:
    """Values that an equation reads or makes in an order of its own."""
    name = e.primitive.name
    if name in ("conv", "conv_input_grad"):
        for v in (e.inputs[0], e.outputs[0]):
            yield v, channels_last(v.type.ndim, v.type.ndim - 2)
    elif name == "conv_weight_grad":
        for v in e.inputs:
            yield v, channels_last(v.type.ndim, v.type.ndim - 2)
        yield e.outputs[0], weight_last(e.outputs[0].type.ndim)
    elif name in WINDOWS:
        rank = window_rank(e)
        for v in (*e.inputs, *e.outputs):
            if v.type.ndim > rank:
                yield v, channels_last(v.type.ndim, rank)


def _plain(e: Equation) -> Iterator[Var]:
    """Values that an equation reads or makes as they are written."""
    name = e.primitive.name
    if name in ("conv", "conv_input_grad"):
        yield e.inputs[1]
    elif name in TIED or name in WINDOWS or name in CONVOLUTIONS or name in REDUCTIONS or name in FREE:
        return
    elif name != "transpose":
        yield from (*e.inputs, *e.outputs)


class _Ballot:
    """The votes of each component, by the order of its root's axes; a value votes once for an order."""

    def __init__(self, components: Components) -> None:
        self.components = components
        self.votes: dict[Var, dict[Order, float]] = defaultdict(lambda: defaultdict(float))
        self.anchored: set[Var] = set()  # roots of components with a convolution or a window
        self._cast: set[tuple[Var, Order]] = set()
        self._wanted: set[tuple[Var, Order]] = set()

    def vote(self, v: Var, order: Order, anchor: bool = False, wanted: bool = True) -> None:
        if not _wide(v) or (v, order) in self._cast:
            return
        self._cast.add((v, order))
        root, axes = self.components.find(v)
        self.votes[root][tuple(axes[i] for i in order)] += bytes_of(v.type)
        if anchor:
            self.anchored.add(root)
        if anchor and wanted:
            self._wanted.add((root, tuple(axes[i] for i in order)))

    def best(self, root: Var) -> Order | None:
        if root not in self.anchored:
            return None
        # Of equals the one that kernels ask for: statistics and elementwise work then follow it. Convolutions
        # that run either way leave their values as they are written.
        return max(self.votes[root].items(), key=lambda item: (item[1], (root, item[0]) in self._wanted))[0]


def orders(
    graph: Graph,
    stays: Callable[[Equation], bool] = mixes_channels,
    moves: Callable[[Equation], bool] = lambda e: False,
) -> dict[Var, Order]:
    """The order of each value that does not lie as it is written. `stays`: does a convolution run as well
    between values that do? `moves`: does it run much better there, whatever lies around it?
    """
    components = _tied_values(graph)
    ballot = _Ballot(components)
    for v in (*graph.inputs, *graph.outputs):
        ballot.vote(v, identity(v.type.ndim))
    for e in graph.equations:
        for v in _plain(e):
            ballot.vote(v, identity(v.type.ndim))
        plainly, wanted = moves(e), not stays(e)
        for v, order in _wishes(e):
            wish = identity(v.type.ndim) if plainly else order
            ballot.vote(v, wish, anchor=True, wanted=wanted or plainly)
    best = {root: ballot.best(root) for root in ballot.anchored}
    out: dict[Var, Order] = {}
    for v in (*graph.inputs, *(v for e in graph.equations for v in e.outputs)):
        root, axes = components.find(v)
        chosen = best.get(root)
        if chosen is not None and (order := tuple(axes.index(a) for a in chosen)) != identity(v.type.ndim):
            out[v] = order
    return out


def _tied_values(graph: Graph) -> Components:
    components = Components()
    for e in graph.equations:
        for a, b, axes in _ties(e):
            if _wide(a):
                components.tie(a, b, axes)
    return components
