"""A nest as LLVM text: loops with phis, explicit vectors, accumulators in registers, hoisted addresses.

Enters: a scheduled `Nest` and the `Host`. Leaves: the text of a kernel (see targets/cpu/kernel.py):
words are the argument buffers in order, then the symbolic sizes; units are iterations of the parallel loop,
one if there is none. The text needs no middle end. Innermost loops are in `emit_inner`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trilobite.base.errors import IRError
from trilobite.compiler.targets.cpu.loops.emit_inner import Inner, innermost
from trilobite.compiler.targets.cpu.loops.emit_values import Scope
from trilobite.compiler.targets.cpu.loops.index import factors
from trilobite.compiler.targets.cpu.loops.ir import Loop, Micro, Nest, Node, Statement
from trilobite.compiler.targets.cpu.loops.ir import loop as plain_loop
from trilobite.compiler.targets.cpu.loops.micro import KERNELS
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value

_ALIGN = 64


def local_offsets(nest: Nest) -> tuple[dict[str, int], int]:
    """Where the locals of a nest lie in its scratch memory, and how large that is."""
    offsets, total = {}, 0
    for b in nest.buffers:
        if b.kind == "local":
            offsets[b.name] = total
            total += -(-b.bytes // _ALIGN) * _ALIGN
    return offsets, total


def emit(nest: Nest, host: Host) -> str:
    """The LLVM text of a nest."""
    text = Text(host)
    scope = Scope(nest, text)
    for i, b in enumerate(nest.arguments):
        scope.pointers[b.name] = text.argument(i, "ptr")
    for i, s in enumerate(nest.symbols, start=len(nest.arguments)):
        scope.sizes[s] = text.argument(i, "i64")
    for s in nest.sizes:
        pair = factors(s)
        if pair is not None:
            scope.sizes[s] = text.mul(scope.size(pair[0]), scope.size(pair[1]))
    for name, offset in local_offsets(nest)[0].items():
        scope.pointers[name] = text.address(text.scratch, offset)
    if nest.unless_same is None:
        _Walk(scope).units(nest.body)
        return text.module()
    first, second = (scope.pointers[name] for name in nest.unless_same)
    with text.when(text.icmp("ne", first, second)), scope.entered({}):
        _Walk(scope).units(nest.body)
    return text.module()


class _Walk:
    def __init__(self, scope: Scope) -> None:
        self.scope, self.text = scope, scope.text

    def units(self, body: tuple[Node, ...]) -> None:
        """The parallel loop runs over the units that the call names."""
        if len(body) != 1 or not isinstance(body[0], Loop) or body[0].kind != "parallel":
            self.nodes(body)
        elif innermost(body[0]):
            Inner(self.scope, body[0]).emit(self.text.begin, self.text.end)
        else:
            with self._turn(body[0], self.text.begin, self.text.end):
                self.nodes(body[0].body)

    def nodes(self, body: tuple[Node, ...]) -> None:
        for node in body:
            if isinstance(node, Statement):
                # A statement alone is a loop of one iteration.
                Inner(self.scope, plain_loop("_", 1, node)).emit()
            elif isinstance(node, Micro):
                self._micro(node)
            elif node.kind == "parallel":
                raise IRError(
                    f"the parallel loop {node.var} stands inside another node",
                    where=f"nest {self.scope.nest.name}",
                    expected="at most one parallel loop, outermost and alone",
                    remedy="fuse the loops that shall be parallel into one",
                )
            elif innermost(node):
                Inner(self.scope, node).emit()
            elif node.kind == "unrolled":
                self._unrolled(node)
            else:
                with self._turn(node, self.scope.start(node), self.scope.extent(node)):
                    self.nodes(node.body)

    def _micro(self, node: Micro) -> None:
        (meaning,) = node.meaning
        assert isinstance(meaning, Loop)
        KERNELS[node.kernel].emit(self.scope, meaning, self.nodes)

    def _unrolled(self, node: Loop) -> None:
        iterations = self.scope.extent(node).number
        if iterations is None:
            raise IRError(
                f"the unrolled loop {node.var} has no fixed extent",
                where=f"nest {self.scope.nest.name}",
                expected="a number",
                remedy="split it by a number and unroll the inner loop",
            )
        for k in range(iterations):
            with self.scope.entered({node.var: self.text.constant("i64", k)}):
                self.nodes(node.body)

    @contextmanager
    def _turn(self, node: Loop, start: Value | int, stop: Value | int) -> Iterator[None]:
        with (
            self.text.loop(start, stop, name=node.var) as iteration,
            self.scope.entered({node.var: iteration.index}),
        ):
            yield
