"""`tb.checkpoint`: a function that keeps its arguments instead of its intermediates, and runs again for the
gradient.

Eagerly the second run happens on the same tape, with the random state and the context variables of the first
and with its writes to tensors undone afterwards; gradients of everything it reads, arguments or not, go where
they would have gone. In a recording the function becomes a `call` whose backward graph recomputes behind a
barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from trilobite.base import pytree
from trilobite.base.dtypes import is_inexact
from trilobite.framework import random
from trilobite.framework.autocast import keeping_mode
from trilobite.framework.control import Closed
from trilobite.framework.tensor import wrap
from trilobite.framework.transforms import is_tensor, read_tree
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.backward import backward
from trilobite.ir.transforms.bind import Traced
from trilobite.ir.transforms.cells import Cell, read, write
from trilobite.ir.transforms.record import record, record_graph
from trilobite.ir.transforms.regions import reverse_graph
from trilobite.ir.transforms.tape import Node, Tape, Taped, next_order
from trilobite.ir.types import type_of

Fn = Callable[..., Any]


class _Arguments:
    """The tensors among the arguments, and the rest to put them back into."""

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        leaves, self.tree = pytree.flatten((tuple(args), kwargs), is_tensor)
        self.leaves = leaves
        self.values = [x._read() for x in leaves if is_tensor(x)]

    def call(self, fn: Fn, values: Sequence[Value]) -> Any:
        it = iter(values)
        args, kwargs = self.tree.unflatten(wrap(next(it)) if is_tensor(x) else x for x in self.leaves)
        return fn(*args, **kwargs)


def checkpoint(fn: Fn) -> Fn:
    """`fn` that saves memory: nothing inside it is kept for the backward pass, where it runs again."""

    def once(*args: Any, **kwargs: Any) -> Any:
        a = _Arguments(args, kwargs)
        if entry.threads.context.recorder is not None or any(_is_dual_or_batched(v) for v in a.values):
            return _recorded(fn, a)
        return _eager(keeping_mode(fn), a)

    update_wrapper(once, fn, updated=())
    return once


def _is_dual_or_batched(v: Value) -> bool:
    return isinstance(v, Traced) and not isinstance(v, Taped)


# -- eager ---------------------------------------------------------------------------------------------------


class _Again(Node):
    """The node of a checkpointed call. Its edges are found when it runs again."""

    __slots__ = ("arguments", "count", "fn", "key", "surroundings", "tape")

    def __init__(
        self, tape: Tape, fn: Fn, arguments: _Arguments, key: Value, surroundings: Context, count: int
    ) -> None:
        super().__init__(getattr(fn, "__name__", "checkpoint"), ())
        self.tape, self.fn, self.arguments, self.key, self.count = tape, fn, arguments, key, count
        self.surroundings = surroundings

    def outputs(self) -> int:
        return self.count

    def free(self) -> None:
        self.freed = True
        self.arguments = self.fn = None  # type: ignore[assignment]

    def pull(self, cotangents: list[Any], tape: Tape, again: bool) -> Sequence[Any]:
        self.check_kept(self.arguments.values)
        since = next_order()
        # The backward pass runs outside of what the call stood in: which part of a batch this is, for one.
        call = partial(self.surroundings.copy().run, self.arguments.call, self.fn, self.arguments.values)
        outs, _ = read_tree(_replay(self.tape, self.key, call))
        roots = [(o, ct) for o, ct in zip(outs, cotangents, strict=True) if ct is not None and tape.tracks(o)]
        older: dict[tuple[Node, int], Value] = {}
        fresh = backward(tape, roots, again=again, retain=again, since=since, older=older)
        self.edges = [*((leaf, 0) for leaf in fresh), *older]
        return [*fresh.values(), *older.values()]


def _eager(fn: Fn, a: _Arguments) -> Any:
    key = read(random.state)
    key = key.copy() if isinstance(key, np.ndarray) else key
    surroundings = copy_context()
    outs, tree = read_tree(a.call(fn, a.values))
    tape = _highest_tape(outs)
    if tape is None:
        return tree.unflatten(map(wrap, outs))
    node = _Again(tape, fn, a, key, surroundings, len(outs))
    marked = [tape.wrap(tape.strip(o), node, i) if tape.tracks(o) else o for i, o in enumerate(outs)]
    return tree.unflatten(map(wrap, marked))


def _highest_tape(values: Sequence[Value]) -> Tape | None:
    tapes = [v.interpreter for v in values if isinstance(v, Taped)]
    return max(tapes, key=lambda t: t.level) if tapes else None


def _replay(tape: Tape, key: Value, body: Callable[[], Any]) -> Any:
    """Run as the first time: gradients on, the same random numbers; what it writes is taken back."""
    ctx = entry.context()
    saved = (ctx.grad_off, ctx.undo, tape.alive, read(random.state))
    ctx.grad_off, ctx.undo, tape.alive = 0, {}, True
    write(random.state, key)
    try:
        return body()
    finally:
        _take_back(ctx.undo)
        ctx.grad_off, ctx.undo, tape.alive = saved[:3]
        write(random.state, saved[3])


def _take_back(undo: dict[Cell, Value]) -> None:
    for cell, value in undo.items():
        if (
            isinstance(cell.value, np.ndarray)
            and isinstance(value, np.ndarray)
            and cell.value.flags.writeable
        ):
            np.copyto(cell.value, value)
        else:
            cell.value = value


# -- recorded ------------------------------------------------------------------------------------------------


def _recorded(fn: Fn, a: _Arguments) -> Any:
    trees: list[pytree.Tree] = []
    name = getattr(fn, "__name__", "checkpoint")

    def body(*values: Value) -> list[Value]:
        outs, tree = read_tree(a.call(fn, values))
        trees[:] = [tree]
        return outs

    types = [type_of(v) for v in a.values]
    recording = record(body, types, name)
    closed = Closed([recording], len(types))
    graph = closed.graph(recording, types)
    operands = [*a.values, *closed.operands()]
    forward = record_graph(lambda *v: run(graph, v) + list(v), graph.input_types, f"{name}.fwd")
    outs = table["call"](
        *operands, graph=graph, name=name, forward=forward, backward=_recomputing(graph, name)
    )
    closed.write_back(outs[recording.results :])
    return trees[0].unflatten(map(wrap, outs[: recording.results]))


def _recomputing(graph: Graph, name: str) -> Graph:
    """operands, cotangents -> cotangents: forward and backward in one, behind a barrier."""
    halves = reverse_graph(graph, [True] * len(graph.inputs))
    n = len(graph.inputs)

    def back(*values: Value) -> list[Value]:
        again = [table["barrier"](v) for v in values[:n]]
        residuals = run(halves.forward, again)[halves.outputs :]
        return run(halves.backward, [*residuals, *values[n:]])

    cts = [t for t in graph.output_types if is_inexact(t.dtype)]
    return record_graph(back, [*graph.input_types, *cts], f"{name}.bwd")
