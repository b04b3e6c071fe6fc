"""fold_batch_norm: what scales and shifts the channels of a product goes into its weights.

Enters: a simplified graph, and which inputs are stable (weights that runs only read). Leaves: the graph in
which  conv(x, w)·s + t,  with s and t per channel and stable, is  conv(x, w·s) + t : the batch norm of
inference behind a convolution or a linear layer, with or without bias, and any other chain of additions and
multiplications per channel. w·s and t depend on stable values alone, so the target computes them once.
Rounding happens elsewhere than before: of w·s instead of conv·s, each within a unit of the same terms.
Large weights stay as they are, because a second copy of them would stay in memory beside them: there the
chain becomes one product and one sum behind the convolution, which the kernel does as it stores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from trilobite.base.dtypes import float32, float64
from trilobite.base.records import dataclass
from trilobite.compiler.graph.passes.stable import stable_values
from trilobite.compiler.graph.pipeline import USUAL
from trilobite.compiler.graph.regions import uses
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives.dot import free_axes
from trilobite.ir.types import Shape, TensorType

_WIDE = frozenset({float32, float64})  # in shorter formats a rounded weight is too far from the exact one
_CHAINED = frozenset({"add", "sub", "mul", "div", "neg"})


@dataclass(frozen=True)
class Root:
    """A product, which of its operands are the weights, and where the channels lie."""

    equation: Equation
    weights: int
    weight_axes: tuple[int, ...]
    result_axes: tuple[int, ...]
    large: int | None  # bytes of a weight that is not scaled

    @property
    def is_large(self) -> bool:
        t = self.equation.inputs[self.weights].type
        return self.large is not None and isinstance(t.size, int) and t.size * t.dtype.itemsize >= self.large


@dataclass(frozen=True)
class Chain:
    """A value as a product followed by steps (operation, the other operand, its place) per channel."""

    root: Root
    steps: tuple[tuple[Equation, int], ...] = ()  # the equation, and which operand continues the chain

    @property
    def pays(self) -> bool:
        """A product or a quotient goes; or several additions become one."""
        names = [e.primitive.name for e, _ in self.steps]
        if not self.root.is_large:
            return len(names) > 1 or any(n in ("mul", "div") for n in names)
        left = int(not {"mul", "div", "neg"}.isdisjoint(names)) + int(not {"add", "sub"}.isdisjoint(names))
        return len(names) > left or "div" in names


def fold_batch_norm(
    graph: Graph,
    stable: Collection[int] = (),
    counters: Counters = UNCOUNTED,
    large: int | None = USUAL.scaled,
) -> Graph:
    """The graph with scales and shifts of channels inside the weights; with `large=None` inside all of them,
    for who keeps the scaled weights alone.
    """
    finder = _Finder(graph, stable, large)
    chains = finder.chains() if stable else {}
    if not chains:
        return graph
    gone = {id(e) for c in chains.values() for e in (c.root.equation, *(e for e, _ in c.steps))}
    writer = _Writer(finder.makers)
    for e in graph.equations:
        chain = chains.get(e.outputs[0]) if e.outputs else None
        if chain is not None:
            writer.write(chain, e)
            counters[chain.root.equation.primitive.name] += 1
        elif id(e) not in gone:
            writer.equations.append(e)
    return Graph(graph.inputs, writer.equations, graph.outputs, graph.name)


# -- finding -------------------------------------------------------------------------------------------------


class _Finder:
    def __init__(self, graph: Graph, stable: Collection[int], large: int | None) -> None:
        self.graph, self.stable, self.large = graph, stable_values(graph, stable), large
        self.readers = uses(graph)
        self.makers = {v: e for e in graph.equations for v in e.outputs}

    def chains(self) -> dict[Var, Chain]:
        """By the value they end in, the chains that are worth folding."""
        found: dict[Var, Chain] = {}
        for e in self.graph.equations:
            root = self._root(e)
            if root is not None:
                found[e.outputs[0]] = Chain(root)
            elif e.primitive.name in _CHAINED:
                self._extend(found, e)
        return {v: c for v, c in found.items() if c.pays}

    def _root(self, e: Equation) -> Root | None:
        name = e.primitive.name
        if name not in ("conv", "conv_input_grad", "dot") or e.outputs[0] in self.stable:
            return None
        if e.outputs[0].type.dtype not in _WIDE or e.inputs[0].type.dtype != e.outputs[0].type.dtype:
            return None
        if name == "dot":
            return self._dot_root(e)
        if e.inputs[1] not in self.stable or (name == "conv_input_grad" and e.attributes["groups"] != 1):
            return None
        return Root(e, 1, (0 if name == "conv" else 1,), (1,), self.large)

    def _dot_root(self, e: Equation) -> Root | None:
        """The free axes of the stable operand are the channels."""
        contract, batch = e.attributes["contract"], e.attributes["batch"]
        free = [free_axes(v.type.ndim, contract[i], batch[i]) for i, v in enumerate(e.inputs)]
        side = next((i for i in (1, 0) if e.inputs[i] in self.stable), None)
        if side is None or not free[side]:
            return None
        start = len(batch[0]) + (len(free[0]) if side else 0)
        return Root(e, side, free[side], tuple(range(start, start + len(free[side]))), self.large)

    def _extend(self, found: dict[Var, Chain], e: Equation) -> None:
        for i, v in enumerate(e.inputs):
            chain = found.get(v)
            if chain is None or self.readers[v] != 1:
                continue
            others = [w for k, w in enumerate(e.inputs) if k != i]
            divides = e.primitive.name == "div" and i == 1
            if not divides and all(self._is_per_channel(w, chain.root) for w in others):
                del found[v]
                found[e.outputs[0]] = Chain(chain.root, (*chain.steps, (e, i)))
                return

    def _is_per_channel(self, v: Var, root: Root) -> bool:
        """Stable, and the same along every axis but the channels'."""
        e = self.makers.get(v)
        if v not in self.stable:
            return False
        if has_only_channels(v.type.shape, root.result_axes):
            return True
        if e is None or e.primitive.name not in ("full", "broadcast"):
            return False
        return e.primitive.name == "full" or set(e.attributes["axes"]) <= set(root.result_axes)


def has_only_channels(shape: Shape, axes: Sequence[int]) -> bool:
    """Is every other axis of size 1?"""
    return all(d == 1 for i, d in enumerate(shape) if i not in axes)


# -- writing -------------------------------------------------------------------------------------------------


class _Writer:
    def __init__(self, makers: Mapping[Var, Equation]) -> None:
        self.makers = makers
        self.equations: list[Equation] = []
        self.at: Equation | None = None

    def make(self, name: str, *inputs: Var, **attributes: Any) -> Var:
        assert self.at is not None
        self.equations.append(Equation.of(name, inputs, attributes, self.at.location))
        return self.equations[-1].outputs[0]

    def write(self, chain: Chain, last: Equation) -> None:
        """The product with scaled weights, and one shift, under the name of the chain's end; with a large
        weight the product, one scale and one shift.
        """
        self.at = last
        scale, shift = self._scale_and_shift(chain)
        root, inputs = chain.root, list(chain.root.equation.inputs)
        after = [("mul", scale), ("add", shift)] if root.is_large else [("add", shift)]
        if scale is not None and not root.is_large:
            w = inputs[root.weights]
            wide = self.make("broadcast", scale, shape=w.type.shape, axes=root.weight_axes)
            inputs[root.weights] = self.make("mul", w, wide)
        self.at = root.equation
        found = self.make(root.equation.primitive.name, *inputs, **root.equation.attributes)
        self.at = last
        for name, vector in after:
            if vector is not None:
                wide = self.make("broadcast", vector, shape=found.type.shape, axes=root.result_axes)
                found = self.make(name, found, wide)
        e = self.equations.pop()
        self.equations.append(Equation(e.primitive, e.inputs, e.attributes, last.outputs, e.location))

    def _scale_and_shift(self, chain: Chain) -> tuple[Var | None, Var | None]:
        """What the steps come to: product·scale + shift, per channel; None for 1 and 0."""
        scale: Var | None = None
        shift: Var | None = None
        for e, i in chain.steps:
            name = e.primitive.name
            other = self._vector(e.inputs[1 - i], chain) if len(e.inputs) == 2 else None
            if name == "neg" or (name == "sub" and i == 1):
                scale, shift = self._negated(scale, chain), None if shift is None else self.make("neg", shift)
            if other is None:
                continue
            if name in ("mul", "div"):
                scale = self._scaled(name, scale, other)
                shift = None if shift is None else self.make(name, shift, other)
            elif name == "sub" and i == 0:
                shift = self.make("neg", other) if shift is None else self.make("sub", shift, other)
            else:
                shift = other if shift is None else self.make("add", shift, other)
        return scale, shift

    def _scaled(self, name: str, scale: Var | None, other: Var) -> Var:
        if scale is not None:
            return self.make(name, scale, other)
        if name == "mul":
            return other
        return self.make("div", self._number(1.0, other.type), other)

    def _negated(self, scale: Var | None, chain: Chain) -> Var:
        if scale is not None:
            return self.make("neg", scale)
        return self._number(-1.0, _channel_type(chain))

    def _number(self, value: float, like: TensorType) -> Var:
        return self.make("full", shape=like.shape, dtype=like.dtype, value=value)

    def _vector(self, v: Var, chain: Chain) -> Var:
        """A repeated value, repeated along the channels alone."""
        wanted = _channel_type(chain)
        if has_only_channels(v.type.shape, chain.root.result_axes):
            return v if v.type == wanted else self.make("reshape", v, shape=wanted.shape)
        e = self.makers[v]
        if e.primitive.name == "full":
            return self._number(e.attributes["value"], wanted)
        source, axes = e.inputs[0], [chain.root.result_axes.index(a) for a in e.attributes["axes"]]
        if source.type.shape == wanted.shape:
            return source
        return self.make("broadcast", source, shape=wanted.shape, axes=tuple(axes))


def _channel_type(chain: Chain) -> TensorType:
    t = chain.root.equation.outputs[0].type
    return TensorType(tuple(t.shape[a] for a in chain.root.result_axes), t.dtype)
