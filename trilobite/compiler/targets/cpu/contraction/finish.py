"""The last store of sums: through the epilogue into the results, row by row.

Enters: sums in registers or in scratch, which rows of the result they are, columns. Leaves: the code that
stores them. The epilogue is emitted twice: for whole rows of a tile, and masked for a last panel that is not
full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from trilobite.base.dtypes import DType
from trilobite.compiler.program.kernels import Operand
from trilobite.compiler.targets.cpu.contraction.convert import narrow
from trilobite.compiler.targets.cpu.contraction.sizes import Product
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, VECTORS, Tiling
from trilobite.compiler.targets.cpu.contraction.words import Content, EpilogueWords, OperandWords
from trilobite.compiler.targets.cpu.epilogue import Epilogue, emit_epilogue
from trilobite.ir.graph import Graph, Var
from trilobite.ir.types import Dim, TensorType
from trilobite.native.llvm.text import Text, Value

Places = tuple[list[Value], list[Value]]
"""Where a row of every operand and of every result begins."""


def plain_epilogue(dtype: DType) -> Epilogue:
    """Sums stored as they are."""
    total = Var(TensorType((), dtype))
    return Epilogue(Graph((total,), (), (total,), "epilogue"), (), (dtype,))


def epilogue_words(
    epilogue: Epilogue, result: Operand | None = None, numbers: Sequence[Operand] = ()
) -> EpilogueWords[Content]:
    """The buffers that an epilogue reads and writes; the only result may go elsewhere than into output 0.
    `numbers` are its last operands, where they are none of the region's inputs.
    """
    given = epilogue.operands[: len(epilogue.operands) - len(numbers)]
    return EpilogueWords(
        tuple(result or Operand("out", i) for i, _ in enumerate(epilogue.results)),
        (
            *(OperandWords[Content](Operand("in", o.input), plain_stride(o.row_stride)) for o in given),
            *(OperandWords[Content](at, 0) for at in numbers),
        ),
    )


def plain_stride(stride: Dim | Product) -> Dim:
    """A stride along rows; only the batch of a convolution is symbolic, so it is one number or affine."""
    return stride.words[0] if isinstance(stride, Product) else stride


def all_or_some(t: Text, width: Value, columns: int, body: Callable[[Value | None], None]) -> None:
    """body(None) where all columns of a tile exist, body(width) where only so many do."""
    t.either(t.icmp("eq", width, columns), lambda: body(None), lambda: body(width))


class Store:
    """Emits the store of one vector of sums."""

    def __init__(self, t: Text, epilogue: Epilogue, accumulator: DType, result: DType, lanes: int) -> None:
        self.t, self.epilogue, self.lanes = t, epilogue, lanes
        self.accumulator, self.result = accumulator, result

    def store(self, total: Value, places: Places, column: Value, count: Value | None, lanes: int = 0) -> None:
        """Sums of consecutive columns of one row, through the epilogue into every result; as many as fill a
        vector, or `lanes`.
        """
        value = narrow(self.t, total, self.accumulator, self.result)
        emit_epilogue(self.t, self.epilogue, value, *places, column, lanes or self.lanes, count)


class Finish(Store):
    """Emits the stores of a kernel whose rows have `width` columns."""

    def __init__(
        self, t: Text, tiling: Tiling, epilogue: Epilogue, words: EpilogueWords[Value], width: Value
    ) -> None:
        super().__init__(t, epilogue, tiling.accumulator, tiling.result, tiling.lanes)
        self.tiling, self.words, self.width = tiling, words, width

    def tile(self, sums: Value, rows: Value, count: Value, column: Value, width: Value) -> None:
        """`count` rows of sums, of which `width` columns exist, from `column` on."""
        t, tiling = self.t, self.tiling

        def each(some: Value | None) -> None:
            with t.loop(0, count, name="row") as r:
                row = t.load_type("i64", t.address(rows, t.mul(r.index, 8)))
                line = t.address(sums, t.mul(r.index, tiling.columns * tiling.size))
                self.line(line, self.row(row), column, some)

        all_or_some(t, width, tiling.columns, each)

    def line(self, sums: Value, places: Places, column: Value, width: Value | None) -> None:
        """The sums of one row; of its columns only `width` exist (None: all)."""
        t, tiling = self.t, self.tiling
        for v in range(VECTORS):
            at = v * tiling.lanes
            here = t.address(sums, at * tiling.size)
            if width is None:
                self._vector(here, places, t.add(column, at), None)
                continue
            self._some(here, places, t.add(column, at), t.sub(width, at), v + 1 < VECTORS)

    def _some(self, sums: Value, places: Places, column: Value, left: Value, fills: bool) -> None:
        """A vector of which `left` lanes exist, or none. `fills`: often all, and masked stores are slow."""
        t = self.t

        def masked() -> None:
            with t.when(t.icmp("sgt", left, 0)):
                self._vector(sums, places, column, left)

        if fills:
            full = t.icmp("sge", left, self.tiling.lanes)
            t.either(full, lambda: self._vector(sums, places, column, None), masked)
        else:
            masked()

    def registers(self, sums: Sequence[Value], rows: Value, column: Value) -> None:
        """Sums of a full tile that are still in registers, row by row."""
        t, lanes = self.t, self.tiling.lanes
        # Bytes of several vectors are put together in fewer instructions.
        together = VECTORS if any(d.itemsize == 1 for d in self.epilogue.results) else 1
        for i in range(ROWS):
            places = self.row(t.load_type("i64", t.address(rows, 8 * i)))
            line = sums[i * VECTORS : (i + 1) * VECTORS]
            for v in range(0, VECTORS, together):
                total = reduce(t.join, line[v : v + together])
                self.store(total, places, t.add(column, v * lanes), None, together * lanes)

    def row(self, row: Value) -> Places:
        t, words, epilogue = self.t, self.words, self.epilogue
        operands = [
            t.address(w.at, t.mul(row, w.row), o.dtype)
            for w, o in zip(words.operands, epilogue.operands, strict=True)
        ]
        index = t.mul(row, self.width)
        results = zip(words.results, epilogue.results, strict=True)
        return operands, [t.address(at, index, dtype) for at, dtype in results]

    def _vector(self, sums: Value, places: Places, column: Value, count: Value | None) -> None:
        self.store(self.t.load_type(self.tiling.vector, sums, 32), places, column, count)
