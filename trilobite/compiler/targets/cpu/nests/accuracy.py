"""Long sums in chunks: each chunk has an accumulator of its own, so that few additions follow each other.

Enters and leaves: a nest with the same results but for rounding. A sum of n numbers in chunks of c, in p
partial sums each, has an error of about (c/p + n/c) roundings instead of n/p.
"""

from __future__ import annotations

from dataclasses import replace

from trilobite.base.dtypes import is_float
from trilobite.compiler.targets.cpu.loops.combine import identity
from trilobite.compiler.targets.cpu.loops.index import upper
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Load,
    Loop,
    Nest,
    Node,
    Statement,
    Target,
    rewritten,
)
from trilobite.compiler.targets.cpu.loops.transform import split_loop
from trilobite.compiler.targets.cpu.nests.scalars import Scalars

CHUNK = 4096


def in_chunks(nest: Nest) -> Nest:
    """The nest with every long sum inside one loop cut into chunks."""
    added: list[Buffer] = []

    def change(node: Node) -> tuple[Node, ...]:
        if not isinstance(node, Loop) or not all(isinstance(n, Statement) for n in node.body):
            return (node,)
        sums = [t for s in node.body if isinstance(s, Statement) for t in s.targets if _is_sum(nest, t, node)]
        longest = [upper(e.constant) for e in node.extent if e.is_constant]
        if not sums or (longest and min(longest) <= 2 * CHUNK):
            return (node,)
        parts = {}
        for t in sums:
            acc = nest.buffer(t.buffer)
            parts[t] = Buffer(f"{t.buffer}_part{len(added)}", acc.dtype, acc.shape, kind="local")
            added.append(parts[t])
        return (_chunked(node, parts),)

    body = rewritten(nest.body, change)
    return replace(nest, buffers=(*nest.buffers, *added), body=body)


def _is_sum(nest: Nest, t: Target, node: Loop) -> bool:
    """Is it a sum of floats in a local that does not move?"""
    buffer = nest.buffer(t.buffer)
    fixed = buffer.kind == "local" and all(not i.variables for i in t.index)
    return fixed and t.combine in ("add", "mul") and is_float(buffer.dtype)


def _chunked(node: Loop, parts: dict[Target, Buffer]) -> Loop:
    def redirect(s: Node) -> Node:
        assert isinstance(s, Statement)
        return replace(s, targets=tuple(
            replace(t, buffer=parts[t].name) if t in parts else t for t in s.targets
        ))  # fmt: skip

    outer = split_loop(replace(node, body=tuple(map(redirect, node.body))), CHUNK)
    before: list[Node] = []
    after: list[Node] = []
    for t, part in parts.items():
        start, end = Scalars(), Scalars()
        first = Target(part.name, t.index)
        before.append(
            start.statement([start.number(identity(str(t.combine), part.dtype), part.dtype)], [first])
        )
        after.append(end.statement([end.leaf(Load(part.name, t.index), part.dtype)], [t]))
    return replace(outer, body=(*before, *outer.body, *after))
