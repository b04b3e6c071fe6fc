"""A lowering in the making: buffers of inputs, outputs, constants and temporaries, and steps of nests.

Enters: a region and a host. Leaves: names of buffers, nests over them, and the steps that these become. Which
nests there are is decided in `lower`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType
from trilobite.compiler.program.kernels import Operand, Room, Step
from trilobite.compiler.targets.cpu.loops.collapse import collapsed
from trilobite.compiler.targets.cpu.loops.index import Ranges
from trilobite.compiler.targets.cpu.loops.ir import Buffer, Nest, Node, buffers_of
from trilobite.compiler.targets.cpu.nests.defaults import (
    BLOCK,
    flops,
    kernel,
    parallelised,
    units,
    vectorised,
    work,
)
from trilobite.compiler.targets.cpu.nests.groups import Groups, readers_of
from trilobite.compiler.targets.cpu.nests.prefetch import prefetched
from trilobite.compiler.targets.cpu.nests.reader import Reader, Source
from trilobite.compiler.targets.cpu.nests.rewrite import prepared
from trilobite.compiler.targets.cpu.nests.scalars import Scalars
from trilobite.compiler.targets.cpu.nests.sharing import shared
from trilobite.compiler.targets.cpu.nests.transposes import tiled
from trilobite.ir.graph import Graph, Var
from trilobite.ir.types import Affine, Shape, TensorType, size_of
from trilobite.native.host import Host


class Assembly:
    """What all groups of a region share."""

    def __init__(self, region: Graph, host: Host, block: int = BLOCK) -> None:
        self.host, self.name, self.block = host, region.name, block
        self.region = prepared(region)
        self.groups = Groups(self.region)
        self.producers = dict(self.groups.producers)
        self.order = {v: i for i, e in enumerate(self.region.equations) for v in e.outputs}
        self.operands: dict[str, Operand] = {}
        self.buffers: dict[str, Buffer] = {}
        self.temporaries: list[Room] = []
        self.steps: list[Step] = []
        self.nests: list[Nest] = []
        self.stores: dict[Var, list[str]] = {}
        self._declare()

    def _declare(self) -> None:
        """Buffers of inputs, outputs and constants; temporaries for what later groups read."""
        g = self.groups
        for i, v in enumerate(self.region.inputs):
            self._buffer(f"x{i}", v.type, Operand("in", i))
        for i, v in enumerate(g.constants):
            self._buffer(f"c{i}", v.type, Operand("constant", i))
        for i, v in enumerate(self.region.outputs):
            self._buffer(f"y{i}", v.type, Operand("out", i))
            self.stores.setdefault(v, []).append(f"y{i}")
        for v, groups in readers_of(g).items():
            inside = g.groups[g.group_of[v]].kind == "rows" and groups == {g.group_of[v]}
            if v not in self.stores and not inside:
                self.stores[v] = [self.temporary(v.type.shape, v.type.dtype)]

    def _buffer(self, name: str, type: TensorType, operand: Operand) -> None:
        self.buffers[name] = Buffer(name, type.dtype, type.shape)
        self.operands[name] = operand

    def temporary(self, shape: Shape, dtype: DType) -> str:
        name = f"t{len(self.temporaries)}"
        self._buffer(name, TensorType(shape, dtype), Operand("temporary", len(self.temporaries)))
        factors = (*shape, dtype.itemsize)
        self.temporaries.append(
            size_of(factors) if sum(isinstance(d, Affine) for d in shape) < 2 else factors
        )
        return name

    def _why(self) -> str:
        kinds = Counter(g.kind for g in self.groups.groups)
        words = [kind if n == 1 else f"{n} {kind}" for kind, n in kinds.items()]
        return f"{len(self.steps)} loop nest{'s' * (len(self.steps) != 1)}: {', '.join(words)}"

    def _constants(self) -> list[np.ndarray[Any, Any]]:
        return [self.producers[v].attributes["value"].array for v in self.groups.constants]

    def _in_place(self) -> tuple[tuple[int, int], ...]:
        """Outputs that may overwrite an input."""
        return shared(self.nests, len(self.region.inputs), len(self.region.outputs))

    def _reader(self, sources: dict[Var, Source], scalars: Scalars, ranges: Ranges) -> Reader:
        return Reader(self.producers, sources, ranges, scalars)

    # -- steps ---------------------------------------------------------------------------------------------

    def _nest(self, body: tuple[Node, ...], local: Sequence[Buffer]) -> Nest:
        used = buffers_of(body)
        arguments = tuple(b for name, b in self.buffers.items() if name in used)
        return Nest(self.name, (*arguments, *local), body)

    def _step(self, nest: Nest, flat: bool = False) -> None:
        self._emit(parallelised(nest if flat else tiled(collapsed(nest)), self.block))

    def _emit(self, nest: Nest) -> None:
        """The last part of a schedule, and the step."""
        done = prefetched(vectorised(nest, self.host))
        turns = units(done).constant
        words = [self.operands[b.name] for b in done.arguments]
        symbols = [Affine(0, [(s, 1)]) for s in done.symbols]
        made, sizes = kernel(done, self.host)
        self.nests.append(done)
        self.steps.append(Step(made, (*words, *symbols, *sizes), turns, flops(done), work(done) <= 2 * BLOCK))
