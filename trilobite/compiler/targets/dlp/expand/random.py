"""Random bits: Philox 4x32-10 in 64-bit integers, the framework's bits exactly."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from trilobite.base.dtypes import uint32, uint64
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation
from trilobite.ir.primitives.random import MULTIPLIERS, ROUNDS, WEYL

LOW = 0xFFFFFFFF


def _bits(e: Equation) -> Callable[..., Any]:
    shape, stream = e.attributes["shape"], e.attributes["stream"]
    lead = extents(e.inputs[0])[:-1]
    total = prod(int(n) for n in shape)
    blocks, rows = -(-total // 4), prod(lead)
    if not total or not rows:
        return lambda key, counter: t.full(extents(e.outputs[0]), uint32, 0)

    def body(key: Any, counter: Any) -> Any:
        grid = (rows, blocks)
        k0, k1, c0, c1 = (
            t.broadcast(
                t.cast(t.reshape(t.part(t.reshape(v, rows, 2), 1, i, i + 1), rows), uint64), grid, (0,)
            )
            for v in (key, counter)
            for i in (0, 1)
        )
        index = t.add(t.bitwise("or", c0, t.bitwise("shift_left", c1, 32)), t.iota(grid, uint64, 1))
        words = _philox(index, stream, k0, k1)
        joined = t.join([t.reshape(t.cast(w, uint32), *grid, 1) for w in words], 2)
        flat = t.part(t.reshape(joined, rows, 4 * blocks), 1, 0, total)
        return t.reshape(flat, *extents(e.outputs[0]))

    return body


def _philox(index: Any, stream: int, k0: Any, k1: Any) -> list[Any]:
    c = [
        t.bitwise("and", index, LOW),
        t.bitwise("shift_right", index, 32),
        t.like(index, 0),
        t.like(index, stream),
    ]
    m0, m1 = (int(m) for m in MULTIPLIERS)
    for _ in range(ROUNDS):
        p0, p1 = t.mul(c[0], m0), t.mul(c[2], m1)
        first = t.bitwise("xor", t.bitwise("xor", t.bitwise("shift_right", p1, 32), c[1]), k0)
        third = t.bitwise("xor", t.bitwise("xor", t.bitwise("shift_right", p0, 32), c[3]), k1)
        c = [first, t.bitwise("and", p1, LOW), third, t.bitwise("and", p0, LOW)]
        k0, k1 = (t.bitwise("and", t.add(k, int(w)), LOW) for k, w in zip((k0, k1), WEYL, strict=True))
    return c


RULES = {"random_bits": _bits}
