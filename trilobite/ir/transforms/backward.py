"""The way back: cotangents from the roots over the nodes of a tape to its leaves.

Walking nodes from the newest to the oldest and applying vjp rules, which only `bind`, gives the cotangents.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from trilobite.base.errors import GradientError
from trilobite.base.locations import user_location, within
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.tape import Leaf, Node, Tape, Zero, add, zeros


def backward(
    tape: Tape,
    roots: Sequence[tuple[Value, Value]],
    *,
    retain: bool = False,
    again: bool = False,
    since: int = 0,
    older: dict[tuple[Node, int], Value] | None = None,
) -> dict[Node, Value]:
    """Walk from `roots` (taped value, cotangent) to the leaves; returns the cotangent of each leaf reached.

    Without `retain`, nodes are freed as they are passed. Nodes made before `since` are not entered: what
    arrives there is left in `older`.
    """
    pending: dict[Node, list[Any]] = {}
    heap: list[tuple[int, Node]] = []  # ages are unique, so nodes themselves are never compared
    found: dict[Node, Value] = {}
    ctx = entry.threads.context
    for root, ct in roots:
        _arrive(pending, heap, root.node, root.index, ct)
    while heap:
        node = heapq.heappop(heap)[1]
        if node.order < since and older is not None:
            older.update(((node, i), _whole(ct)) for i, ct in enumerate(pending.pop(node)) if ct is not None)
            continue
        cotangents = _ready(node, pending.pop(node))
        if isinstance(node, Leaf):
            found[node] = cotangents[0]
            continue
        if node.freed:
            raise freed_error(node)
        if node.module or ctx.watch is not None:
            operands = _watched_pull(node, cotangents, tape, again)
        else:
            operands = node.pull(cotangents, tape, again)
        for edge, ct in zip(node.edges, operands, strict=True):
            if edge is not None and ct is not None:
                _arrive(pending, heap, edge[0], edge[1], ct)
        if not retain:
            node.free()
    return found


def _watched_pull(node: Node, cotangents: list[Any], tape: Tape, again: bool) -> Sequence[Any]:
    """A step back that belongs to a module's call, or is looked at: in anomaly mode it is judged as a whole,
    and named by its line in the forward pass.
    """
    if node.module:
        with within(node.module):
            return _judged_pull(node, cotangents, tape, again)
    return _judged_pull(node, cotangents, tape, again)


def _judged_pull(node: Node, cotangents: list[Any], tape: Tape, again: bool) -> Sequence[Any]:
    ctx = entry.threads.context
    watch = ctx.watch
    if watch is None:
        return node.pull(cotangents, tape, again)
    ctx.watch = None
    try:
        operands = node.pull(cotangents, tape, again)
    finally:
        ctx.watch = watch
    watch.gradient(node, cotangents, operands)
    return operands


def _arrive(
    pending: dict[Node, list[Any]], heap: list[Any], node: Node, index: int, ct: Value | Zero
) -> None:
    slots = pending.get(node)
    if slots is None:
        slots = pending[node] = [None] * max(node.outputs(), index + 1)
        heapq.heappush(heap, (-node.order, node))
    there = slots[index]
    if there is None or type(there) is Zero:
        slots[index] = ct
    elif type(ct) is not Zero:
        slots[index] = add(there, ct)


def _whole(ct: Any) -> Any:
    """Zeros that nothing was added to."""
    return zeros(ct.type) if type(ct) is Zero else ct


def _ready(node: Node, arrived: list[Any]) -> list[Any]:
    """What has arrived at a node, with zeros that nothing was added to made, and as its hooks change it."""
    cotangents = [zeros(ct.type) if type(ct) is Zero else ct for ct in arrived]
    if node.hooks:
        for index, hooks in node.hooks.items():
            for hook in hooks:
                if cotangents[index] is not None and (changed := hook(cotangents[index])) is not None:
                    cotangents[index] = changed
    return cotangents


def freed_error(node: Node) -> GradientError:
    return GradientError(
        f"backward through {node.name} a second time: what it kept for the gradient has been freed",
        where=user_location(),
        expected="one backward pass per forward pass",
        remedy="pass retain_graph=True to the first backward(), or run the forward pass again",
    )
