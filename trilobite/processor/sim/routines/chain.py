"""The stated chain as LLVM text: one fused multiply-add per k, k ascending, many outputs side by side.

Enters: nothing. Leaves: the text of `gemm(a, b, c, m, n, k)`, c[m][n] += a[m][k] b[k][n] of float32, n a
multiple of `COLUMNS`.
"""

from __future__ import annotations

from functools import cache

from trilobite.base.dtypes import float32
from trilobite.native.host import features
from trilobite.native.llvm.functions import Functions
from trilobite.native.llvm.types import Value, vector

LANES = 8
COLUMNS = 2 * LANES  # outputs of one row of a tile: two vectors
ROWS = 6  # rows of a tile: twelve accumulators, as many as the registers of AVX2 hold beside the operands
ROW = vector("float", LANES)


def _tile(t: Functions, rows: int) -> None:
    """c[rows][16] += a[rows][k] b[k][16], one fma chain per output."""
    pointers, sizes = ["ptr noalias"] * 3, ["i64"] * 4
    with t.function(f"tile{rows}", [*pointers, *sizes]) as (a, b, c, k, lda, ldb, ldc):
        lines = [t.address(a, t.mul(lda, r), float32) for r in range(rows)]
        cells = [place for r in range(rows) for place in _halves(t, t.address(c, t.mul(ldc, r), float32))]
        with t.loop(0, k, carried=[t.load_type(ROW, cell, 4) for cell in cells]) as step:
            row = t.address(b, t.mul(step.index, ldb), float32)
            right = [t.load_type(ROW, half, 4) for half in _halves(t, row)]
            left = [t.load_splat(float32, t.address(line, step.index, float32), LANES) for line in lines]
            sums = iter(step.values)
            step.next(*(t.intrinsic("fma", ROW, x, y, next(sums)) for x in left for y in right))
        for cell, total in zip(cells, step.results, strict=True):
            t.store_type(total, cell, 4)


def _halves(t: Functions, start: Value) -> tuple[Value, Value]:
    return start, t.address(start, LANES, float32)


def _gemm(t: Functions, linkage: str) -> None:
    """All tiles of c[m][n] += a[m][k] b[k][n]; n is a multiple of 16."""
    with t.function("gemm", [*["ptr"] * 3, *["i64"] * 3], linkage=linkage) as (a, b, c, m, n, k):
        whole = t.sub(m, t.urem(m, ROWS))
        with t.loop(0, n, COLUMNS) as column:
            right = t.address(b, column.index, float32)
            for rows, first, last in ((ROWS, 0, whole), (1, whole, m)):
                with t.loop(first, last, rows) as i:
                    left = t.address(a, t.mul(i.index, k), float32)
                    out = t.address(c, t.add(t.mul(i.index, n), column.index), float32)
                    t.call(f"tile{rows}", left, right, out, k, k, n, n)


@cache
def chain_text(linkage: str = "internal ") -> str:
    """LLVM text of `gemm`, for code that calls it; without a linkage, to be called from Python."""
    t = Functions(features())
    _tile(t, ROWS)
    _tile(t, 1)
    _gemm(t, linkage)
    return t.functions_text()
