"""Micro-kernels: pieces of loops that hand-written vector code runs.

Each states which loops it computes (`matched` gives the reason if it does not) and emits LLVM for them. The
loops stay in the nest as its meaning, for the interpreter, for C, and for iterations that are too short.

`transpose`: a copy of a tile between rows that run along one loop and rows that run along the other, through
registers, in squares of vectors. `register_tile` (a file of its own): sums of products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.emit.squares import transpose
from trilobite.compiler.targets.cpu.loops import register_tile
from trilobite.compiler.targets.cpu.loops.emit_values import Scope
from trilobite.compiler.targets.cpu.loops.index import Index
from trilobite.compiler.targets.cpu.loops.ir import Buffer, Load, Loop, Nest, Node, Statement
from trilobite.compiler.targets.cpu.loops.register_tile import size_of
from trilobite.native.llvm.text import memory_type


class Tile(Protocol):
    """Loops that a micro-kernel has recognised as its own."""

    @property
    def filled(self) -> tuple[Loop, ...]: ...  # whose extents stand in the text: it computes all of them

    def emit(self, scope: Scope) -> None: ...


@dataclass(frozen=True)
class MicroKernel:
    doc: str
    matched: Callable[[Nest, Loop], Tile | str]

    def refuses(self, nest: Nest, node: Loop) -> str | None:
        found = self.matched(nest, node)
        return found if isinstance(found, str) else None

    def emit(self, scope: Scope, node: Loop, plainly: Callable[[tuple[Node, ...]], None]) -> None:
        """The tile where it is whole, else the loops."""
        found = self.matched(scope.nest, node)
        assert not isinstance(found, str)
        t = scope.text
        whole = t.constant("i1", 1)
        for each in found.filled:
            whole = t.and_(whole, t.icmp("eq", scope.extent(each), size_of(each)))

        def tile() -> None:
            with scope.entered({}):
                found.emit(scope)

        def rest() -> None:
            with scope.entered({}):
                plainly((node,))

        t.either(whole, tile, rest)


@dataclass(frozen=True)
class _Copy:
    """A tile's copy: the loop along the source's rows, the loop along the target's rows, both places."""

    along_source: Loop
    along_target: Loop
    source: Buffer
    target: Buffer
    read: Index
    write: Index

    @property
    def filled(self) -> tuple[Loop, ...]:
        return self.along_source, self.along_target

    def emit(self, scope: Scope) -> None:
        _squares(scope, self)


def _matched(nest: Nest, node: Loop) -> _Copy | str:
    inner = node.body[0] if len(node.body) == 1 else None
    if not isinstance(inner, Loop) or len(inner.body) != 1 or not isinstance(inner.body[0], Statement):
        return "it is not two loops around one statement"
    s = inner.body[0]
    load = s.leaves[0] if len(s.leaves) == 1 else None
    plain = all(e.primitive.name == "stop_gradient" for e in s.body.equations)
    if not plain or not isinstance(load, Load) or load.guards or len(s.targets) != 1 or s.targets[0].combine:
        return "its statement is not a plain copy"
    source, target = nest.buffer(load.buffer), nest.buffer(s.targets[0].buffer)
    read, write = source.flat(load.index), target.flat(s.targets[0].index)
    for a, b in ((node, inner), (inner, node)):
        if read.coefficient(a.var) == 1 and write.coefficient(b.var) == 1:
            return _checked(_Copy(a, b, source, target, read, write))
    return "no loop runs along the source's rows while the other runs along the target's"


def _checked(c: _Copy) -> _Copy | str:
    step = lanes_for(c.source)
    for each in c.filled:
        if each.start:
            return "a loop is skewed"
        if not size_of(each) or size_of(each) % step:
            return f"the extent of {each.var} is not a multiple of {step}"
    return c


def lanes_for(buffer: Buffer) -> int:
    return 4 if buffer.dtype.itemsize == 8 else 8


def _squares(scope: Scope, c: _Copy) -> None:
    t = scope.text
    a, b = c.along_source, c.along_target
    rows, columns = size_of(a), size_of(b)
    whole = c.source.dtype.itemsize == 1 and rows % 16 == columns % 16 == 0  # bytes that fill a vector
    lanes = 16 if whole else lanes_for(c.source)
    with t.loop(0, rows, lanes, name=a.var) as i, t.loop(0, columns, lanes, name=b.var) as j:
        vectors = []
        for k in range(lanes):
            with scope.entered({a.var: i.index, b.var: t.add(j.index, k)}):
                at = scope.pointer(c.source, c.read)
                vectors.append(t.load_type(memory_type(c.source.dtype, lanes), at))
        for k, v in enumerate(transpose(t, vectors)):
            with scope.entered({a.var: t.add(i.index, k), b.var: j.index}):
                t.store_type(v, scope.pointer(c.target, c.write))


KERNELS: dict[str, MicroKernel] = {
    "transpose": MicroKernel(
        "two loops of fixed extent around a copy that reads along one and writes along the other",
        _matched,
    ),
    "register_tile": MicroKernel(register_tile.DOC, register_tile.matched),
}
