"""Random scalar graphs of exact primitives, casts and choices: the same bits as the interpreter's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.compiler.emit.native import plain_host, run_scalars, scalar_graph
from tests.compiler.emit.test_scalar import EXACT, _wide, check, numbers
from trilobite.base.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
)
from trilobite.base.errors import TrilobiteError
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.native.host import features

DTYPES = [float32, float64, int32, int8, uint8, int64, bool_, float16, bfloat16, uint32, int16, int4]
# float16 and bfloat16 are cast, compared and chosen here; their arithmetic is rounded later than NumPy's.
LATE: tuple[DType, ...] = (float16, bfloat16)
NAMES = [n for n in EXACT if n not in ("pow", "rsqrt", "nextafter")]


def grown(seed: int) -> Graph:
    """Three inputs, and up to fourteen equations over what is there so far."""
    draw = random.Random(seed)

    def step(pool: list[Any]) -> None:
        x = draw.choice(pool)
        alike = [v for v in pool if v.dtype == x.dtype]
        conditions = [v for v in pool if v.dtype == bool_]
        kind = draw.random()
        if kind < 0.3:
            pool.append(table["cast"](x, dtype=draw.choice(DTYPES)))
        elif kind < 0.4 and conditions:
            pool.append(table["select"](draw.choice(conditions), x, draw.choice(alike)))
        elif x.dtype not in LATE:
            primitive = table[draw.choice(NAMES)]
            try:
                pool.append(primitive(*[x, draw.choice(alike)][: len(primitive.operands)]))
            except TrilobiteError:
                return  # does not take this dtype

    def fn(*xs: Any) -> list[Any]:
        pool = list(xs)
        for _ in range(draw.randint(3, 14)):
            step(pool)
        return pool[3:][-5:] or pool[:1]

    return scalar_graph(fn, [draw.choice(DTYPES) for _ in range(3)])


def hold(seed: int) -> None:
    body = grown(seed)
    xs = [numbers(v.type.dtype, 200, seed + i) for i, v in enumerate(body.inputs)]
    with np.errstate(all="ignore"):
        wanted = run(_wide(body, 200), xs)
    host = features() if seed % 3 else plain_host()
    for found, want in zip(run_scalars(body, xs, (0, 4, 8, 16)[seed % 4], host), wanted, strict=True):
        check(f"graph {seed}", found, want, *xs, signed_zero=False)


@pytest.mark.parametrize("block", range(4))
def test_random_graphs(block: int) -> None:
    for seed in range(15 * block, 15 * block + 15):
        hold(seed)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_random_graphs() -> None:
    for seed in range(1000, 4000):
        hold(seed)
