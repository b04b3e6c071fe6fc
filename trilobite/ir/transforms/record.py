"""Recording: run a function once on symbolic values and keep what it does as a Graph.

Enters: a function over values, and the types of its arguments. Leaves: a `Recording`, that is the graph, the
outer cells it reads (further inputs) and the outer cells it writes (further outputs). Every primitive bound
while a recording is innermost is recorded, whether or not its operands are symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import is_inexact
from trilobite.base.errors import IRError
from trilobite.base.locations import user_location
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.primitive import Attributes, Primitive, Value, result_types, table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.bind import Interpreter, Traced
from trilobite.ir.transforms.cells import Cell, escaped
from trilobite.ir.transforms.tape import Boundary, Tape, Taped
from trilobite.ir.types import TensorType, type_of


class Recorded(Traced):
    """A variable of the graph being recorded."""

    __slots__ = ("constant", "stamp", "var")

    def __init__(self, recorder: Recorder, var: Var, constant: bool = False) -> None:
        self.interpreter, self.var = recorder, var
        # Made under no_grad: what differentiates the graph later must not look through it
        self.constant = constant
        self.shape, self.dtype = var.type.shape, var.type.dtype
        self.stamp = 0


class Recording(NamedTuple):
    """A graph with the state it touches. Graph inputs: arguments, then `cells`, then `values`; outputs:
    results, then `writes`.
    """

    graph: Graph
    cells: tuple[Cell, ...]
    values: tuple[Value, ...]
    writes: tuple[Cell, ...]
    results: int
    tracked: tuple[bool, ...]
    """Per output: does `backward()` outside reach through it? (Not if the function itself has consumed its
    tape.)
    """

    def operands(self) -> list[Value]:
        """The present values of what the graph reads besides its arguments."""
        return [see(c) for c in self.cells] + list(self.values)


def _settled(attribute: Any) -> Any:
    """NumPy's integers and bools, which sizes are often computed with, as Python's: graphs are compared,
    printed and kept in files.
    """
    if type(attribute) is tuple:
        return tuple(map(_settled, attribute))
    return attribute.item() if isinstance(attribute, (np.integer, np.bool_)) else attribute


class Recorder(Interpreter):
    """The interpreter that records."""

    __slots__ = (
        "ambient",
        "cells",
        "equations",
        "known",
        "notes",
        "outer",
        "parent",
        "started_off",
        "values",
        "written",
    )

    def __init__(self, level: int, parent: Recorder | None) -> None:
        super().__init__(level)
        self.parent = parent
        self.started_off = False
        self.ambient: Any = None
        self.equations: list[Equation] = []
        self.cells: dict[Cell, Recorded] = {}  # outer cells read, with the input each became
        self.written: dict[Cell, Value] = {}  # outer cells written, with their newest value
        self.values: list[tuple[Value, Recorded]] = []  # outer values met without a cell
        self.known: dict[int, tuple[Value, Recorded]] = {}  # constants and outer values already lifted
        self.notes: dict[Any, Any] = {}  # what upper rooms remember about this recording

    def process(self, primitive: Primitive, values: Sequence[Value], attributes: Attributes) -> Any:
        self.check_alive("a recorded function")
        off = self._grad_is_off()
        inputs = tuple((self.lift(v) if off else self.stopped(self.lift(v))).var for v in values)
        attributes = {k: _settled(v) for k, v in attributes.items()}
        types = result_types(primitive, [v.type for v in inputs], attributes)
        outputs = tuple(Var(t) for t in types)
        self.equations.append(Equation(primitive, inputs, attributes, outputs, user_location()))
        if primitive.multiple:
            return tuple(Recorded(self, v, off) for v in outputs)
        return Recorded(self, outputs[0], off)

    def _grad_is_off(self) -> bool:
        return not self.started_off and bool(self.ambient.level <= entry.threads.context.grad_off)

    def stopped(self, value: Recorded) -> Recorded:
        """A value made under no_grad and used with gradients on passes through `stop_gradient` first."""
        if not value.constant or not is_inexact(value.dtype):
            return value
        var = Var(value.var.type)
        self.equations.append(Equation(table["stop_gradient"], (value.var,), {}, (var,), user_location()))
        value.var, value.constant = var, False
        return value

    def lift(self, value: Value) -> Recorded:
        """A value as a variable of this graph: its own, a constant, or an outer one that is now an input."""
        if isinstance(value, Recorded) and value.interpreter is self:
            return value
        known = self.known.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, np.ndarray):
            out = self._constant(value)
        else:
            if value.interpreter.level >= self.level:
                raise escaped(value)
            out = Recorded(self, Var(type_of(value)))
            self.values.append((value, out))
        self.known[id(value)] = (value, out)
        return out

    def _constant(self, array: np.ndarray[Any, Any]) -> Recorded:
        var = Var(TensorType(array.shape, array.dtype))
        self.equations.append(
            Equation(table["constant"], (), {"value": Dense(array)}, (var,), user_location())
        )
        return Recorded(self, var)

    def read_outer(self, cell: Cell) -> Value:
        """The value of a cell made outside: an input of the graph from its first read on, or what was written
        to it.
        """
        if cell in self.written:
            return self.written[cell]
        found = self.cells.get(cell)
        if found is None:
            found = self.cells[cell] = Recorded(self, Var(type_of(self._seen_by_parent(cell))))
        return found

    def _seen_by_parent(self, cell: Cell) -> Value:
        if cell.owner is self.parent:
            return cell.held  # for its type alone
        if self.parent is None:
            raise escaped(cell.held)
        return self.parent.read_outer(cell)

    def write_outer(self, cell: Cell, value: Value) -> None:
        if cell not in self.written:
            self.read_outer(cell)  # also checks that the cell is still reachable
        self.written[cell] = value


def see(cell: Cell) -> Value:
    """A cell's value as an operand: on the ambient tape if its gradient is collected or it has a history."""
    ctx = entry.context()
    value = cell.value if cell.owner is ctx.recorder else see_outer(cell)
    if cell.leaf is not None and ctx.ambient.level > ctx.grad_off:
        return Taped(ctx.ambient, value, cell.leaf)
    return value


def see_outer(cell: Cell) -> Value:
    """A cell of an outer recording. One with a history outside starts behind a boundary here."""
    ctx = entry.context()
    if ctx.recorder is None:
        raise escaped(cell.held)
    value = ctx.recorder.read_outer(cell)
    outside = cell.held
    history = type(outside) is Taped and outside.interpreter.ambient and value is ctx.recorder.cells.get(cell)
    if not history or ctx.ambient.level <= ctx.grad_off:
        return value
    node = ctx.recorder.notes.setdefault(("boundary", cell), Boundary("an input", ()))
    return Taped(ctx.ambient, value, node)


def record(fn: Callable[..., Sequence[Value]], types: Sequence[TensorType], name: str = "graph") -> Recording:
    """Run `fn` on variables of the given types and return what it did.

    `fn` returns a flat sequence of values. It runs under an ambient tape of its own, so that `backward()`
    inside works.
    """
    ctx = entry.context()
    saved = (ctx.recorder, ctx.ambient, ctx.depth, ctx.grad_off, ctx.writes)
    recorder = Recorder(ctx.depth + 1, ctx.recorder)
    tape = Tape(ctx.depth + 2, ambient=True)
    grad_was_off = ctx.ambient.level <= ctx.grad_off
    ctx.recorder, ctx.ambient, ctx.depth = recorder, tape, ctx.depth + 2
    ctx.writes = None
    if grad_was_off:
        ctx.grad_off = tape.level
    recorder.ambient, recorder.started_off = tape, grad_was_off
    inputs = [Recorded(recorder, Var(t)) for t in types]
    try:
        results = list(fn(*inputs))
        return _finish(recorder, inputs, results, tape, name)
    finally:
        recorder.alive = tape.alive = False
        ctx.recorder, ctx.ambient, ctx.depth, ctx.grad_off, ctx.writes = saved


def _finish(
    recorder: Recorder, inputs: list[Recorded], results: list[Value], tape: Any, name: str
) -> Recording:
    outputs = results + list(recorder.written.values())
    tracked = tuple(tape.tracks(v) for v in outputs)
    lifted = [recorder.stopped(recorder.lift(tape.strip(v))).var for v in outputs]
    captured = list(recorder.cells.values()) + [r for _, r in recorder.values]
    equations = _whole_calls(recorder.equations, lifted, any(tracked))
    graph = Graph([r.var for r in inputs + captured], equations, lifted, name)
    return Recording(
        graph,
        tuple(recorder.cells),
        tuple(v for v, _ in recorder.values),
        tuple(recorder.written),
        len(results),
        tracked,
    )


def _whole_calls(equations: Sequence[Equation], outputs: Sequence[Var], continues: bool) -> list[Equation]:
    """A call, scan or cond that a tape has turned into its forward half becomes whole again where no backward
    pass has used what it kept: who differentiates the graph from outside must find the rules inside. If one
    has, and outputs still continue on the tape outside (`continues`), the whole one stands beside the half.
    """
    used = {v for e in equations for v in e.inputs} | set(outputs)
    out: list[Equation] = []
    for e in equations:
        whole, n = _before_halving(e)
        halved = whole is not None and any(v in used for v in e.outputs[n:])
        if whole is None or (halved and not continues):
            out.append(e)
            continue
        out.append(Equation(e.primitive, e.inputs, whole, e.outputs[:n], e.location))
        if halved:
            unused = tuple(Var(v.type) for v in e.outputs[:n])
            out.append(Equation(e.primitive, e.inputs, e.attributes, (*unused, *e.outputs[n:]), e.location))
    return out


def _before_halving(e: Equation) -> tuple[dict[str, Any] | None, int]:
    """The attributes that an equation had before a tape took its forward half, and how many results."""
    key = _REGION.get(e.primitive.name)
    if key is None or "backward" in e.attributes:
        return None, 0
    region = e.attributes[key]
    found = (region[0] if isinstance(region, tuple) else region).__dict__.get("_whole")
    if found is None:
        return None, 0
    original = found[key]
    n = len((original[0] if isinstance(original, tuple) else original).outputs)
    return dict(found) if key == "graph" else {**e.attributes, **found}, n


_REGION = {"call": "graph", "scan": "body", "cond": "branches"}


def record_graph(
    fn: Callable[..., Sequence[Value]], types: Sequence[TensorType], name: str = "graph"
) -> Graph:
    """Record a function that is known to touch no state and to close over no traced value."""
    found = record(fn, types, name)
    if found.cells or found.values or found.writes:
        raise IRError(f"{name} reads or writes state where only its arguments are allowed")
    return found.graph
