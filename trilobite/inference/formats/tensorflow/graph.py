"""A frozen TensorFlow graph as plain data: nodes with inputs and attributes, each behind what it reads.

Enters: a path. Leaves: `Node`s. Refuses cycles, inputs that nobody makes, and graphs that are not frozen.
Does not know what operations mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from trilobite.framework.checkpoint.arrays import checked_bytes
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.inference.formats.mapped import Array, mapped, outside
from trilobite.inference.formats.wire import Message

DTYPES: dict[int, Any] = {
    1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 5: np.int16, 6: np.int8, 9: np.int64,
    10: np.bool_, 14: ml_dtypes.bfloat16, 17: np.uint16, 19: np.float16, 22: np.uint32, 23: np.uint64,
}  # fmt: skip
# where numbers stand that are not given as bytes: field, and how they are written
_LISTS: dict[int, tuple[int, Any]] = {
    1: (5, np.float32), 2: (6, np.float64), 3: (7, None), 4: (7, None), 5: (7, None), 6: (7, None),
    9: (10, None), 10: (11, None), 17: (7, None), 22: (16, None), 23: (17, None),
}  # fmt: skip

_LOOPS = ("NextIteration", "RefNextIteration")


class Node(NamedTuple):
    """An operation: inputs as (node, number of the result); `after`: nodes that only come before it."""

    name: str
    op: str
    inputs: list[tuple[str, int]]
    attributes: dict[str, Message]
    after: tuple[str, ...] = ()


def read(path: Any) -> tuple[list[Node], str]:
    data, where = mapped(path)
    graph = Message(data, where)
    if not graph.has(1) or graph.has(3):
        raise corrupt("the file holds no graph", where, "a frozen GraphDef")
    try:
        nodes = {n.name: n for n in (_node(m) for m in graph.messages(1))}
    except ValueError as error:
        raise outside(
            "the file is no frozen graph", where, "a saved model keeps its weights elsewhere: freeze it first"
        ) from error
    if not nodes or any(not n.op for n in nodes.values()):
        raise corrupt("the file holds nodes without operations", where, "a frozen GraphDef")
    return ordered(nodes, where), where


def _node(m: Message) -> Node:
    attributes = {}
    for entry in m.messages(5):
        value = entry.message(2)
        if value is not None:
            attributes[entry.text(1)] = value
    return made(m.text(1), m.text(2), m.texts(3), attributes)


def made(name: str, op: str, read: Sequence[str], attributes: dict[str, Message]) -> Node:
    """`read`: names as files have them, `name:1` for a second result, `^name` for what only comes before."""
    inputs = []
    for text in read:
        if not text.startswith("^"):
            source, _, number = text.partition(":")
            inputs.append((source, int(number) if number.isdecimal() else 0))
    after = tuple(t[1:] for t in read if t.startswith("^"))
    return Node(name, op, inputs, attributes, after)


def ordered(nodes: dict[str, Node], where: str) -> list[Node]:
    """Each node behind those that it reads."""
    if any(n.op in _LOOPS for n in nodes.values()):
        raise outside(
            "the graph has a loop",
            where,
            "convert what stands around it, or the body alone",
            "no NextIteration",
        )
    done: dict[str, bool] = {}  # False: begun
    out: list[Node] = []
    inputs_first = sorted(nodes, key=lambda name: not nodes[name].op.startswith("Placeholder"))
    for first in inputs_first:  # in the order of the file
        stack = [(first, False)]
        while stack:
            name, behind = stack.pop()
            if behind:
                done[name] = True
                out.append(nodes[name])
                continue
            if done.get(name):
                continue
            if name not in nodes:
                raise corrupt(f"nothing makes {shown(name)}, which is read", where, "a node of that name")
            done[name] = False
            stack.append((name, True))
            for source in (*(source for source, _ in nodes[name].inputs), *nodes[name].after):
                if done.get(source) is False:
                    raise corrupt(f"the graph goes round at {shown(source)}", where, "no cycles")
                if source not in done:
                    stack.append((source, False))
    return out


def shape_of(m: Message | None) -> list[int | None] | None:
    if m is None or m.integer(3):
        return None
    sizes = [d.integer(1) for d in m.messages(2)]
    return [None if n < 0 else n for n in sizes]


def tensor(m: Message, where: str) -> Array | None:
    """The numbers of a TensorProto; None for strings and other things that are no numbers."""
    code = m.integer(1)
    if code not in DTYPES:
        return None
    dtype = np.dtype(DTYPES[code])
    shape = [n or 0 for n in shape_of(m.message(2)) or []]
    size = checked_bytes(shape, dtype.itemsize, where)
    raw = m.raw(4)
    if len(raw):
        if len(raw) != size:
            raise corrupt(f"the data take {len(raw)} bytes", where, f"{size} for {dtype.name} {shape}")
        return np.frombuffer(raw, dtype).reshape(shape)
    if size > 1 << 28:
        raise corrupt(f"one number stands for {size} bytes", where, "at most 256 MB of repeated numbers")
    return _repeated(m, code, dtype, shape, where)


def _repeated(m: Message, code: int, dtype: Any, shape: list[int], where: str) -> Array:
    """Fewer numbers than the shape has: the last one goes on."""
    if code in (14, 19):
        values = np.array(m.integers(13), np.uint16).view(dtype)
    elif code in _LISTS:
        field, form = _LISTS[code]
        values = m.numbers(field, form) if form is not None else np.array(m.integers(field)).astype(dtype)
    else:
        values = np.zeros(0, dtype)
    count = int(np.prod(shape, dtype=object))
    if len(values) > max(count, 1):
        raise corrupt(f"{len(values)} numbers for a shape {shape}", where, f"at most {count}")
    if not len(values):
        return np.zeros(shape, dtype)
    full = np.concatenate([values, np.repeat(values[-1:], max(count - len(values), 0))])[:count]
    found: Array = full.astype(dtype).reshape(shape)
    return found
