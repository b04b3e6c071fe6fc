"""Rows of a softmax between two products: scores with the largest of each column, and their weights.

Scores are fp32, a column of them belongs together (one query of attention). MMTOP is MM whose drain compares
what it writes with the largest of the column so far. VSOFT sends scores through the functions at the foot of
the array's columns, in the cycles in which no sum leaves the array (timing class `drain_function`), and adds
the rounded weights up as they pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trilobite.processor.isa import functions
from trilobite.processor.isa.formats import BF16, F16, F32, Array
from trilobite.processor.isa.numbers import canonical, finish
from trilobite.processor.isa.row import (
    ACC,
    MATRIX,
    NRAM,
    VECTOR,
    WRAM,
    Flag,
    Operands,
    Region,
    Row,
    operands,
    region,
)
from trilobite.processor.isa.rows.matrix import ACCUMULATE, FLOAT_PRODUCTS, TRANSPOSE, Product, product

SCORES = tuple(formats for formats in FLOAT_PRODUCTS if formats[0] is F32)
WEIGHTS = tuple((fmt, F32) for fmt in (F32, F16, BF16))
STEPS = 3  # of a weight: a difference, a function, a sum; for energy


def scores(o: Operands, a: Array, b: Array, *rest: Array, product: Product = product) -> Sequence[Array]:
    """Drained products; behind what each row may reach stands -inf, which no maximum takes."""
    left = iter(rest)
    start, scale = (next(left) if wanted else None for wanted in (o.acc, o.scale))
    top = next(left)
    total = product(o, a.T if o.ta else a, b.T if o.tb else b, start)
    if scale is not None:
        total = total * scale
    is_beyond = np.arange(o.m)[:, None] > np.arange(o.n) + o.reach
    total = canonical(np.where(is_beyond, np.float32(-np.inf), total).astype(np.float32))
    for row in total:
        top = np.where(row > top, row, top)
    return total, top


def _score_reads(o: Operands) -> Sequence[Region]:
    a = (o.k, o.m) if o.ta else (o.m, o.k)
    b = (o.n, o.k) if o.tb else (o.k, o.n)
    found = [region(o.a, o.f1, a), region(o.b, o.f2, b, WRAM)]
    found += [region(o.dst, F32, (o.m, o.n), NRAM + ACC)] if o.acc else []
    found += [region(o.scale_at, F32, (o.n,))] if o.scale else []
    return [*found, region(o.top_at, F32, (o.n,))]


def weights(o: Operands, a: Array, top: Array, total: Array) -> Sequence[Array]:
    """Differences in fp32, the stated exponential, one rounding; the sums are chains of fp32, row by row."""
    found = finish(o.f0, functions.exp((a - top).astype(np.float32).astype(np.float64)))
    for row in found:
        total = total + row.astype(np.float32)
    return found, canonical(np.asarray(total, np.float32))


def _weight_work(o: Operands) -> Mapping[str, int]:
    return {"m": o.m, "n": o.n, "bytes": STEPS * F32.bytes(o.m * o.n)}


ROWS = (
    Row("MMTOP", operands("dst a b run:m,n,k,reach drain:scale_at,top_at"), SCORES, MATRIX, "matrix",
        "dst[m][n] = a[m][k] b[k][n] times the scale, -inf where i > j + reach; top[j] = the larger of "
        "top[j] and column j; ta, tb as for MM", scores, _score_reads,
        lambda o: [region(o.dst, F32, (o.m, o.n), NRAM + ACC), region(o.top_at, F32, (o.n,))],
        (ACCUMULATE, Flag("scale", ("", "scale")), *TRANSPOSE),
        lambda o: {"m": o.m, "n": o.n, "k": o.k, "taps": 1, "groups": 1}),
    Row("VSOFT", operands("dst a top_at total_at run:m,n"), WEIGHTS, VECTOR, "drain-function",
        "dst[i][j] = e to the power a[i][j] - top[j]; total[j] += column j of dst, row by row", weights,
        lambda o: [region(o.a, F32, (o.m, o.n)), region(o.top_at, F32, (o.n,)),
                   region(o.total_at, F32, (o.n,))],
        lambda o: [region(o.dst, o.f0, (o.m, o.n), NRAM + WRAM), region(o.total_at, F32, (o.n,))],
        work=_weight_work),
)  # fmt: skip
