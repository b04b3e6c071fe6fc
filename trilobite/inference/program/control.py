"""If, Loop and Scan as steps on the host: each body is a program, run as often as values ask for.

Enters: a node with bodies and the program around it. Leaves: a step. Bodies see constants of the graphs
around them as constants, and other outer values as further inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.inference.model import Graph, Node
from trilobite.inference.program.partition import Kind

if TYPE_CHECKING:
    from trilobite.inference.program.program import Program
    from trilobite.inference.program.steps import Step

Values = Mapping[str, Any]


class Control:
    """What the three have in common: programs of bodies, and the values these take from outside."""

    def __init__(self, node: Node, around: Program) -> None:
        self.node, self.constants = node, around.constants
        self.reads = tuple(n for n in node.reads() if n not in around.constants)
        self.makes = tuple(n for n in node.outputs if n)
        self.around = around

    def body(self, graph: Graph) -> Program:
        from trilobite.inference.program.program import Program

        around = self.around
        outer = {
            n: Kind.HOST if around.kinds[n] is Kind.HOST else Kind.TENSOR
            for n in graph.free()
            if n not in around.constants
        }
        known = {n: around.constants[n] for n in graph.free() if n in around.constants}
        return Program(graph, around.target, known, outer, around.options)

    def operand(self, at: int, values: Values) -> Any:
        """An operand that may be missing."""
        name = self.node.inputs[at] if at < len(self.node.inputs) else ""
        if not name:
            return None
        return values[name] if name in values else self.constants[name].array

    def chosen(self, results: Sequence[Any]) -> list[Any]:
        return [r for n, r in zip(self.node.outputs, results, strict=False) if n]


class If(Control):
    """One of two bodies."""

    def __init__(self, node: Node, around: Program) -> None:
        super().__init__(node, around)
        self.branches = [self.body(node.attributes[k]) for k in ("else_branch", "then_branch")]

    def run(self, values: Values) -> Sequence[Any]:
        condition = np.asarray(self.operand(0, values))
        if condition.size != 1:
            raise ArgumentError(
                f"the condition of {self.node.label()} has the shape {condition.shape}",
                expected="one element",
            )
        branch = self.branches[bool(condition.reshape(()))]
        return self.chosen(branch.run(_taken(branch, values)))

    def describe(self) -> list[str]:
        lines = [f"host: {self.node.label()}"]
        for name, branch in zip(("else", "then"), self.branches, strict=True):
            lines += [f"  {name}:", *branch.describe("    ")]
        return lines


class Loop(Control):
    """A body repeated by count and condition, with states and collected results."""

    def __init__(self, node: Node, around: Program) -> None:
        super().__init__(node, around)
        self.program = self.body(node.attributes["body"])

    def run(self, values: Values) -> Sequence[Any]:
        most, condition = self.operand(0, values), self.operand(1, values)
        count = None if most is None else int(np.asarray(most).reshape(()))
        going = condition is None or bool(np.asarray(condition).reshape(()))
        state = [self.operand(i, values) for i in range(2, len(self.node.inputs))]
        body, states = self.program, len(state)
        outer, names = _taken(body, values), [i.name for i in body.graph.inputs]
        collected: list[list[Any]] = [[] for _ in body.outputs[1 + states :]]
        step = 0
        while going and (count is None or step < count):
            given = [np.asarray(step, np.int64), np.asarray(going), *state]
            out = body.run({**outer, **dict(zip(names, given, strict=True))})
            going = bool(np.asarray(out[0]).reshape(()))
            state = out[1 : 1 + states]
            for rows, r in zip(collected, out[1 + states :], strict=True):
                rows.append(r)
            step += 1
        types = [o.type for o in body.graph.outputs[1 + states :]]
        return self.chosen([*state, *(_stacked(r, t) for r, t in zip(collected, types, strict=True))])

    def describe(self) -> list[str]:
        return [f"host: {self.node.label()}", *self.program.describe("  ")]


class Scan(Control):
    """A body carried along axes of its operands."""

    def __init__(self, node: Node, around: Program) -> None:
        super().__init__(node, around)
        self.program = self.body(node.attributes["body"])

    def run(self, values: Values) -> Sequence[Any]:
        operands = [self.operand(i, values) for i in range(len(self.node.inputs))]
        if self.node.version < 9:
            return self._batched(operands[1:], values)
        return self.chosen(self._one(operands, values, self._axes("input"), self._axes("output")))

    def _axes(self, side: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        n = self._scanned() if side == "input" else len(self.node.outputs) - self._states()
        axes = self.node.attribute(f"scan_{side}_axes") or (0,) * n
        return axes, self.node.attribute(f"scan_{side}_directions") or (0,) * n

    def _scanned(self) -> int:
        return int(self.node.attributes["num_scan_inputs"])

    def _states(self) -> int:
        return len(self.node.inputs) - self._scanned() - (self.node.version < 9)

    def _one(self, operands: Sequence[Any], values: Values, inputs: Any, outputs: Any) -> list[Any]:
        states = self._states()
        state, sequences = list(operands[:states]), list(operands[states:])
        rows = [np.moveaxis(x, a, 0) for x, a in zip(sequences, inputs[0], strict=True)]
        rows = [r[::-1] if d else r for r, d in zip(rows, inputs[1], strict=True)]
        body, outer = self.program, _taken(self.program, values)
        names = [i.name for i in body.graph.inputs]
        collected: list[list[Any]] = [[] for _ in body.outputs[states:]]
        for i in range(len(rows[0])):
            out = body.run({**outer, **dict(zip(names, [*state, *(r[i] for r in rows)], strict=True))})
            state = out[:states]
            for found, r in zip(collected, out[states:], strict=True):
                found.append(r)
        types = [o.type for o in body.graph.outputs[states:]]
        results = []
        for found, t, axis, backwards in zip(collected, types, *outputs, strict=True):
            stacked = _stacked(found[::-1] if backwards else found, t)
            results.append(np.moveaxis(stacked, 0, axis) if axis else stacked)
        return [*state, *results]

    def _batched(self, operands: Sequence[Any], values: Values) -> Sequence[Any]:
        """Operator set 8: a batch axis in front, and the scanned axis behind it."""
        n = self._scanned()
        directions = self.node.attribute("directions") or (0,) * n
        each = []
        for b in range(operands[0].shape[0]):
            outputs = ((0,) * (len(self.node.outputs) - self._states()),) * 2
            each.append(self._one([o[b] for o in operands], values, ((0,) * n, directions), outputs))
        return self.chosen([np.stack(r) for r in zip(*each, strict=True)])

    def describe(self) -> list[str]:
        return [f"host: {self.node.label()}", *self.program.describe("  ")]


class SequenceMap(Control):
    """A body for every element of sequences; tensors among the operands are the same for all."""

    def __init__(self, node: Node, around: Program) -> None:
        super().__init__(node, around)
        self.program = self.body(node.attributes["body"])

    def run(self, values: Values) -> Sequence[Any]:
        operands = [self.operand(i, values) for i in range(len(self.node.inputs))]
        outer, names = _taken(self.program, values), [i.name for i in self.program.graph.inputs]
        rows = []
        for i in range(len(operands[0])):
            given = [v[i] if isinstance(v, list) else v for v in operands]
            rows.append(self.program.run({**outer, **dict(zip(names, given, strict=True))}))
        count = len(self.program.outputs)
        return self.chosen([[row[i] for row in rows] for i in range(count)])

    def describe(self) -> list[str]:
        return [f"host: {self.node.label()}", *self.program.describe("  ")]


def _taken(body: Program, values: Values) -> dict[str, Any]:
    return {n: values[n] for n in body.graph.free() if n in values}


def _stacked(rows: Sequence[Any], declared: Any) -> Any:
    """Results of all rounds along a new first axis; without rounds, an empty array of the declared type."""
    if rows:
        return np.stack(rows)
    shape = tuple(d if isinstance(d, int) else 0 for d in declared.shape or ())
    dtype = declared.dtype if declared.dtype is not None else np.dtype(np.float32)
    return np.zeros((0, *shape), dtype)


CONTROL: dict[str, Callable[[Node, Program], Step]] = {
    "If": If,
    "Loop": Loop,
    "Scan": Scan,
    "SequenceMap": SequenceMap,
}
"""Operators whose attributes are graphs."""
