"""The meaning of a nest: every statement for every iteration of its loops, one after the other, nothing
reordered.

Enters: a nest, its argument buffers as arrays, its sizes. Leaves: the arrays, written. Each scalar graph is
evaluated by the primitives' NumPy rules. Slow on purpose: compiled nests are compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from trilobite.base.errors import IndexingError
from trilobite.compiler.targets.cpu.loops.index import Index, evaluate, size_value
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Leaf,
    Load,
    Loop,
    Micro,
    Nest,
    Node,
    Position,
    Statement,
)
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.types import Symbol

Array = np.ndarray[Any, Any]


def interpret(nest: Nest, arguments: Sequence[Array], sizes: Mapping[Symbol, int] | None = None) -> None:
    """Run a nest on its argument buffers, in place."""
    run_of = Interpreter(nest, arguments, sizes or {})
    first, second = nest.unless_same or ("", "")
    if not first or not np.shares_memory(run_of.memory[first], run_of.memory[second]):
        run_of.nodes(nest.body, {})


class Interpreter:
    def __init__(self, nest: Nest, arguments: Sequence[Array], sizes: Mapping[Symbol, int]) -> None:
        self.nest, self.sizes = nest, sizes
        self.buffers: dict[str, Buffer] = {b.name: b for b in nest.buffers}
        self.memory = {b.name: a.reshape(-1) for b, a in zip(nest.arguments, arguments, strict=True)}
        for b in nest.buffers:
            if b.kind == "local":
                count = int(np.prod([size_value(d, sizes) for d in b.shape]))
                self.memory[b.name] = np.zeros(count, b.dtype)

    def nodes(self, nodes: tuple[Node, ...], variables: dict[str, int]) -> None:
        for node in nodes:
            if isinstance(node, Loop):
                iterations = min(self._value(e, variables) for e in node.extent)
                first = max((self._value(s, variables) for s in node.start), default=0)
                for k in range(max(first, 0), iterations):
                    self.nodes(node.body, {**variables, node.var: k})
            elif isinstance(node, Micro):
                self.nodes(node.meaning, variables)
            else:
                self._statement(node, variables)

    def _value(self, index: Index, variables: Mapping[str, int]) -> int:
        return evaluate(index, variables, self.sizes, lambda load: int(self._load(load, variables)))

    def _place(self, buffer: Buffer, index: tuple[Index, ...], variables: Mapping[str, int]) -> int:
        steps = (size_value(s, self.sizes) for s in buffer.steps)
        at = sum(s * self._value(i, variables) for s, i in zip(steps, index, strict=True))
        if not 0 <= at < len(self.memory[buffer.name]):
            raise IndexingError(
                f"element {at} of {buffer.name}, which has {len(self.memory[buffer.name])}",
                where=f"nest {self.nest.name} at {dict(variables)}",
                expected="an element inside the buffer",
                remedy="guard the load, or correct the index",
            )
        return at

    def _holds(self, guards: tuple[Index, ...], variables: Mapping[str, int]) -> bool:
        return all(self._value(g, variables) >= 0 for g in guards)

    def _load(self, load: Load, variables: Mapping[str, int]) -> Array:
        buffer = self.buffers[load.buffer]
        if not self._holds(load.guards, variables):
            return np.full((), load.fill, buffer.dtype)
        place = self._place(buffer, load.index, variables)
        return np.asarray(self.memory[buffer.name][place]).astype(buffer.dtype)

    def _leaf(self, leaf: Leaf, variables: Mapping[str, int]) -> Array:
        if isinstance(leaf, Load):
            return self._load(leaf, variables)
        if isinstance(leaf, Position):
            return np.asarray(self._value(leaf.index, variables)).astype(leaf.dtype)
        return np.asarray(self._holds(leaf.guards, variables))

    def _statement(self, s: Statement, variables: Mapping[str, int]) -> None:
        results = _run(s.body, [self._leaf(leaf, variables) for leaf in s.leaves])
        for target, result in zip(s.targets, results, strict=True):
            buffer = self.buffers[target.buffer]
            at = self._place(buffer, target.index, variables)
            memory = self.memory[buffer.name]
            if target.combine is not None:
                there = np.asarray(memory[at]).astype(buffer.dtype)
                result = table[target.combine].evaluate(there, np.asarray(result, buffer.dtype))
            memory[at] = result


def _run(body: Graph, values: list[Array]) -> list[Array]:
    return list(chain(run(body, values)))
