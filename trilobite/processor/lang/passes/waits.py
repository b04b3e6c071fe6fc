"""Scalar work stands before waits: what a core computes for the copies and products behind a wait, it
computes while it would only wait.

Enters: a legalised, ordered function and the values that live out of its blocks. Leaves: the same operations,
pure ones before the nearest `sync` or `barrier` that comes before them and behind what they need. They may
come out of a branch, not out of a loop, and never go across a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.ir import Argument, Block, Constant, Op, Result, Value
from trilobite.processor.lang.ops import PURE

WAITS = frozenset(("sync", "barrier"))
MOVED = PURE - {"address", "table"}  # those are known numbers
ROOM = 40  # registers that may be taken while a core waits
MOST = 32  # operations before one wait: longer work would come too late for what is ready already


@dataclass(eq=False)
class _Wait:
    """A place before waits that follow each other: what is moved there, and how much more may be."""

    block: Block
    at: int
    room: int
    moved: list[Op] = field(default_factory=list)


class _Mover:
    def __init__(self, graph: Graph, out: Mapping[Block, set[Value]]) -> None:
        self.graph, self.out, self.inner = graph, out, graph.innermost()
        self.kept: dict[Block, list[Op | _Wait]] = {block: [] for block in graph.order}
        self.places: dict[Op, tuple[Block, int]] = {}
        self.last: dict[Block, _Wait | None] = {}  # the last wait of a block; None behind a call

    def run(self) -> None:
        for block in self.graph.order:
            taken = dict(_taken(block, self.out[block]))
            for number, op in enumerate(block.ops):
                self._put(block, op, taken.get(number, 0))
        for block, kept in self.kept.items():
            block.ops = [op for x in kept for op in (x.moved if isinstance(x, _Wait) else (x,))]

    def _put(self, block: Block, op: Op, taken: int) -> None:
        kept = self.kept[block]
        if op.opcode in WAITS and not (kept and isinstance(kept[-1], Op) and kept[-1].opcode in WAITS):
            self.last[block] = _Wait(block, len(kept), min(MOST, ROOM - taken))
            kept.append(self.last[block])  # type: ignore[arg-type]
        elif op.opcode == "call":
            self.last[block] = None
        wait = self._wait(block, op) if op.opcode in MOVED else None
        if wait is None:
            self.places[op] = block, len(kept)
            kept.append(op)
            return
        self.places[op] = wait.block, wait.at
        wait.moved.append(op)
        wait.room -= 1
        op.block = wait.block

    def _wait(self, block: Block, op: Op) -> _Wait | None:
        """The nearest wait before the operation, if all that it takes is there and registers are left."""
        loop, first = self.inner.get(block), self.graph.order[0]
        while block not in self.last and block is not first:
            block = self.graph.parent[block]
            if self.inner.get(block) is not loop:
                return None
        wait = self.last.get(block)
        if wait is None or wait.room <= 0 or not all(self._is_there(v, wait) for v in op.operands):
            return None
        return wait

    def _is_there(self, value: Value, wait: _Wait) -> bool:
        if isinstance(value, Constant):
            return True
        if isinstance(value, Argument):
            return self.graph.dominates(value.block, wait.block)
        assert isinstance(value, Result)
        block, at = self.places[value.op]
        return at <= wait.at if block is wait.block else self.graph.dominates(block, wait.block)


def _taken(block: Block, out: set[Value]) -> Iterator[tuple[int, int]]:
    """Registers that are taken at the waits of a block, from the last one on."""
    alive = set(out)
    for number in reversed(range(len(block.ops))):
        op = block.ops[number]
        alive.difference_update(op.results)
        if op.opcode in WAITS:
            yield number, sum(_width(value) for value in alive)
        if op.opcode != "note":
            alive.update(v for v in op.uses() if not isinstance(v, Constant))


def _width(value: Value) -> int:
    return int(value.op.attrs.get("width", 1)) if isinstance(value, Result) else 1


def work_before_waits(graph: Graph, out: Mapping[Block, set[Value]]) -> None:
    """Moves what can be moved; `out` are the values that are needed behind each block."""
    if any(op.opcode in WAITS for block in graph.order for op in block.ops):
        _Mover(graph, out).run()
