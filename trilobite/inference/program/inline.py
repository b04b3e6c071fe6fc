"""Bodies of nodes traced in the place where they are called: no step of their own.

Enters: a graph and values for its inputs. Leaves: values of its outputs, recorded or computed like those
around. Only for bodies that hold no host operation. A Scan or Loop becomes a scan of the IR; if its states
change their types from round to round, it raises `NotRecorded`, and the program makes it a step of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.errors import TrilobiteError
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Graph, Node
from trilobite.inference.operators import registry
from trilobite.inference.program.apply import apply
from trilobite.inference.program.values import Known, as_tensor


def traced(graph: Graph, values: Mapping[str, Any]) -> list[Any]:
    """Outputs of a graph whose inputs and outer values are given by name."""
    look = {**values, **{k: Known(v) for k, v in graph.constants.items()}}
    for node in graph.nodes:
        row = registry.find(node.domain, node.op, node.version)
        assert row is not None, node.label()
        results = apply(node, row, [look[n] if n else None for n in node.reads_in_order()])
        look.update(zip(node.outputs, results, strict=False))
    return [look[o.name] for o in graph.outputs]


def inlined(node: Node, attribute: str, outer: Sequence[Any], *operands: Any) -> Any:
    """The one output of a body in an attribute; the first operand where the attribute is missing."""
    graph = node.attribute(attribute)
    if graph is None:
        return operands[0]
    values = dict(zip(node.taken(), outer, strict=True))
    values.update((i.name, v) for i, v in zip(graph.inputs, operands, strict=True))
    return as_tensor(traced(graph, values)[0])


# -- loops ---------------------------------------------------------------------------------------------------


class NotRecorded(TrilobiteError):
    """A loop that is no scan of the IR, for these operands at least."""

    def __init__(self, node: Node, why: TrilobiteError) -> None:
        super().__init__(why.what.splitlines()[0])
        self.node = node


def _carried(
    node: Node, first: Sequence[Tensor], sequences: Sequence[Tensor], round_: Any, **how: Any
) -> Any:
    """The last states and the stacked results. `round_` gives all outputs of the body for states and rows."""
    states = len(first)

    def step(state: tuple[Tensor, ...], rows: tuple[Tensor, ...]) -> Any:
        outs = [as_tensor(v) for v in round_(state, rows)]
        return tuple(outs[:states]), tuple(outs[states:])

    try:
        last, stacked = tb.scan(step, tuple(first), tuple(sequences), **how)
    except TrilobiteError as why:
        raise NotRecorded(node, why) from why
    return list(last), list(stacked)


def scanned(node: Node, operands: Sequence[Any]) -> list[Any]:
    """A Scan of operator set 9 or later."""
    body, count = node.attributes["body"], int(node.attributes["num_scan_inputs"])
    taken, given = operands[len(node.inputs) :], [as_tensor(v) for v in operands[: len(node.inputs)]]
    outer = dict(zip(node.taken(), taken, strict=True))
    states = len(given) - count
    stacked = len(body.outputs) - states
    turns, turned_back = (_listed(node, f"scan_{s}_directions", n) for s, n in _sides(count, stacked))
    axes, places = (_listed(node, f"scan_{s}_axes", n) for s, n in _sides(count, stacked))
    backwards = all(turns)
    rows = [tb.moveaxis(x, a, 0) for x, a in zip(given[states:], axes, strict=True)]
    rows = [tb.flip(x, axis=0) if d and not backwards else x for x, d in zip(rows, turns, strict=True)]
    names = [i.name for i in body.inputs]

    def round_(state: Sequence[Tensor], here: Sequence[Tensor]) -> list[Any]:
        return traced(body, {**outer, **dict(zip(names, [*state, *here], strict=True))})

    last, found = _carried(node, given[:states], rows, round_, reverse=backwards)
    found = [tb.flip(y, axis=0) if d != backwards else y for y, d in zip(found, turned_back, strict=True)]
    return [*last, *(tb.moveaxis(y, 0, a) for y, a in zip(found, places, strict=True))]


def _sides(inputs: int, outputs: int) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("input", inputs), ("output", outputs)


def _listed(node: Node, name: str, count: int) -> list[int]:
    return list(node.attribute(name) or (0,) * count)


def repeated(node: Node, operands: Sequence[Any]) -> list[Any]:
    """A Loop whose number of rounds is known before it runs."""
    body = node.attributes["body"]
    outer = dict(zip(node.taken(), operands[len(node.inputs) :], strict=True))
    first = [as_tensor(v) for v in operands[2 : len(node.inputs)]]
    count = operands[0].array.reshape(())[()]
    rounds = max(int(count), 0) if isinstance(count, np.integer) else count
    names = [i.name for i in body.inputs]
    still = Known(np.asarray(True))

    def round_(state: Sequence[Tensor], here: Sequence[Tensor]) -> list[Any]:
        values = dict(zip(names, [here[0], still, *state], strict=True))
        return traced(body, {**outer, **values})[1:]

    number = tb.cumulative_sum(tb.ones((rounds,), dtype=tb.int64)) - 1
    last, found = _carried(node, first, [number], round_)
    return [*last, *found]
