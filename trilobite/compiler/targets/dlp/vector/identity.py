"""Codes to numbers on the matrix unit: a chain's `cast` of int8 and `mul` by a known number as one product.

Enters: a chain. Leaves: which of its equations are products, and the instructions. The codes of a tile, taken
as rows of 64, times the identity matrix are themselves; the drain multiplies them with the scale and rounds
once, as float32 does: the product of a code and a float32 is exact before that. The vector unit would pass
over eight bytes of every element for it, and is what the join of a residual waits for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trilobite.base.dtypes import float32, int8
from trilobite.compiler.targets.dlp.writer import Int, Writer
from trilobite.ir.graph import Equation, Var
from trilobite.processor.isa.formats import F32, I8, U8
from trilobite.processor.lang.ir import Constant, Value
from trilobite.processor.lang.types import ANY
from trilobite.processor.machine import Machine
from trilobite.processor.sim.timing.arrays import product_cycles

SIDE = 64  # codes of a row, sides of the identity matrix
WRAM_BYTES = SIDE * SIDE
_SEED = 2 * SIDE  # bytes of NRAM that the matrix is copied from: zeros, then a one
_SCALE = 4 * SIDE  # bytes of one scale, once for each output
_ROWS = 256  # of a usual tile


@dataclass(frozen=True)
class Scaled:
    """The codes that a product reads, its scale, and the number of it."""

    codes: Var
    scale: float
    number: int


@dataclass(frozen=True)
class Places:
    """Of the identity matrix in WRAM, of seed and scales in NRAM; `whole`: every tile is rows of 64, also one
    whose size is known only to the run. `made`: where products were made before."""

    matrix: Value
    seed: Value
    whole: bool = False
    made: tuple[Value, ...] = ()

    def scale(self, w: Writer, number: int) -> Value:
        return w.at(self.seed, _SEED + number * _SCALE)


def pays(machine: Machine) -> bool:
    """Is the product faster than two passes of the vector unit?"""
    core = machine.core
    if "int8" not in core.mfu.macs_per_cycle:
        return False
    passes = 2 * _ROWS * SIDE * 4 / core.vfu.bytes_per_cycle
    beside = 1 if machine.interlock == "ranges" else 2  # the vector unit has more to do meanwhile
    return bool(2 * cycles(machine, _ROWS * SIDE) <= beside * passes)


def cycles(machine: Machine, count: Any) -> Any:
    """Of the matrix unit for the product of so many codes."""
    return product_cycles(machine.core.mfu, "int8", -(-count // SIDE), SIDE, SIDE)


def products_of(
    equations: Sequence[Equation], operands: Sequence[Var], results: Sequence[Var],
    numbers: Mapping[Var, int | float],
) -> tuple[dict[Var, Scaled | None], list[float]]:  # fmt: skip
    """Values that products make: of each multiplication its codes and scale, None for what a cast would make
    on the way; and the scales."""
    reads = Counter([v for e in equations for v in e.inputs] + list(results))
    made = {v: e for e in equations for v in e.outputs}
    found, scales = dict[Var, Scaled | None](), list[float]()
    for e in equations:
        if e.primitive.name != "mul" or e.outputs[0] in results or e.outputs[0].type.dtype != float32:
            continue
        for x, by in (e.inputs, e.inputs[::-1]):
            cast = made.get(x)
            if cast is None or by not in numbers or cast.primitive.name != "cast" or reads[x] != 1:
                continue
            if cast.inputs[0] in operands[1:] and cast.inputs[0].type.dtype == int8:
                scale = float(numbers[by])
                found[x], found[e.outputs[0]] = None, Scaled(cast.inputs[0], scale, len(scales))
                scales.append(scale)
    return found, scales


def nram_bytes(scales: Sequence[float]) -> int:
    return _SEED + _SCALE * len(scales) if scales else 0


def write_identity(w: Writer, places: Places, scales: Sequence[float]) -> None:
    """The matrix and the scales; once, before the first tile."""
    one = w.at(places.seed, SIDE)
    w.vector("VSET", U8, places.seed, SIDE, Constant(U8, 0))
    w.vector("VSET", U8, one, SIDE, Constant(U8, 1))
    for number, scale in enumerate(scales):
        w.vector("VSET", F32, places.scale(w, number), SIDE, Constant(F32, scale))
    w.copy2(places.matrix, places.seed, SIDE, SIDE, 0, SIDE)
    w.copy2(places.matrix, one, 1, SIDE + 1, 0, SIDE)


def write_product(
    w: Writer, places: Places, dst: Value, codes: Value, count: Int, scaled: Scaled, is_async: bool = False
) -> None:
    """`count` codes times their scale: whole rows on the matrix unit, the rest (all, if nothing is known of
    the count) on the vector unit, with the same bits. The caller orders what is asynchronous."""
    rows: Int = w.div(count, SIDE) if isinstance(count, int) or places.whole else 0
    done: Int = count if places.whole else w.mul(rows, SIDE)
    if not isinstance(rows, int) or rows:
        flags = ("", "", "scale", "", "", "", "")
        nothing, by = Constant(ANY, 0), places.scale(w, scaled.number)
        values = [dst, codes, places.matrix, *map(w.value, (rows, SIDE, SIDE)), nothing, by]
        w.b.tensor("MM", values, (F32, I8, I8), flags, is_async)
    if done is not count and done != count:
        to, left = w.at(dst, w.mul(done, 4)), w.sub(count, done)
        w.vector("VCVT", (F32, I8), to, left, w.at(codes, done), flags=("rn",))
        w.vector("VMS", F32, to, left, to, Constant(F32, scaled.scale))
