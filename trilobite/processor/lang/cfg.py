"""The control-flow graph of a function: order, predecessors, dominators, natural loops.

Enters: a function. Leaves: facts about it that hold until somebody changes its blocks or terminators.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from trilobite.processor.lang.ir import Block, Function


def reverse_postorder(function: Function) -> list[Block]:
    """Reachable blocks, each before its successors except along back edges."""
    seen: set[Block] = {function.blocks[0]}
    order: list[Block] = []
    stack = [(function.blocks[0], function.blocks[0].successors)]
    while stack:
        block, rest = stack[-1]
        if not rest:
            order.append(block)
            stack.pop()
            continue
        following = rest.pop()
        if following not in seen:
            seen.add(following)
            stack.append((following, following.successors))
    return order[::-1]


def predecessors(blocks: list[Block]) -> dict[Block, list[Block]]:
    found: dict[Block, list[Block]] = {block: [] for block in blocks}
    for block in blocks:
        for following in block.successors:
            if block not in found[following]:
                found[following].append(block)
    return found


def remove_unreachable(function: Function) -> None:
    alive = set(reverse_postorder(function))
    function.blocks = [block for block in function.blocks if block in alive]


@dataclass
class Loop:
    """A natural loop: its head dominates every block of it."""

    head: Block
    blocks: dict[Block, None] = field(default_factory=dict)  # a set in the order in which they were met
    latches: list[Block] = field(default_factory=list)
    depth: int = 1
    parent: Loop | None = None

    def exits(self) -> list[tuple[Block, Block]]:
        """Edges that leave the loop."""
        return [(b, s) for b in self.blocks for s in b.successors if s not in self.blocks]


class Graph:
    """Everything about the shape of one function, computed once."""

    def __init__(self, function: Function) -> None:
        self.order = reverse_postorder(function)
        self.number = {block: place for place, block in enumerate(self.order)}
        self.predecessors = predecessors(self.order)
        self.parent = self._dominators()

    def _dominators(self) -> dict[Block, Block]:
        """Immediate dominators by Cooper, Harvey and Kennedy's iteration."""
        first = self.order[0]
        parent: dict[Block, Block] = {first: first}
        changed = True
        while changed:
            changed = False
            for block in self.order[1:]:
                known = [p for p in self.predecessors[block] if p in parent]
                new = known[0]
                for other in known[1:]:
                    new = self._meet(parent, other, new)
                if parent.get(block) is not new:
                    parent[block] = new
                    changed = True
        return parent

    def _meet(self, parent: dict[Block, Block], a: Block, b: Block) -> Block:
        while a is not b:
            while self.number[a] > self.number[b]:
                a = parent[a]
            while self.number[b] > self.number[a]:
                b = parent[b]
        return a

    def dominates(self, a: Block, b: Block) -> bool:
        while self.number[b] > self.number[a]:
            b = self.parent[b]
        return a is b

    @cached_property
    def loops(self) -> list[Loop]:
        """Innermost last; loops with one head are one loop. As they are when first asked for."""
        found: dict[Block, Loop] = {}
        for block in self.order:
            for head in block.successors:
                if self.dominates(head, block):
                    loop = found.setdefault(head, Loop(head, {head: None}))
                    loop.latches.append(block)
                    self._collect(loop, block)
        loops = sorted(found.values(), key=lambda loop: len(loop.blocks), reverse=True)
        for place, loop in enumerate(loops):
            around = [other for other in loops[:place] if loop.head in other.blocks]
            if around:
                loop.parent = around[-1]
                loop.depth = around[-1].depth + 1
        return loops

    def _collect(self, loop: Loop, block: Block) -> None:
        stack = [block]
        while stack:
            current = stack.pop()
            if current not in loop.blocks:
                loop.blocks[current] = None
                stack.extend(self.predecessors[current])

    def innermost(self) -> dict[Block, Loop]:
        """The smallest loop around each block that has one."""
        return {block: loop for loop in self.loops for block in loop.blocks}
