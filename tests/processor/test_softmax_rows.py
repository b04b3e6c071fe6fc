"""MMTOP and VSOFT: scores with their largest, weights with their sums, and which units they keep busy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trilobite.processor.isa.address import address
from trilobite.processor.isa.formats import BF16, F16, F32, Format
from trilobite.processor.isa.row import NRAM, WRAM, Operands
from trilobite.processor.isa.table import MNEMONICS
from trilobite.processor.machine import load_machine
from trilobite.processor.sim.energy import energy_of, energy_table
from trilobite.processor.sim.record import CoreTrace, TensorRecord, Trace
from trilobite.processor.sim.timing.cost import DRAIN_FUNCTIONS, VECTOR_UNIT, cost_of, free_functions

(MM,), (MMTOP,), (VSOFT,) = (MNEMONICS[name] for name in ("MM", "MMTOP", "VSOFT"))
NO_FLAGS = dict.fromkeys(("acc", "bias", "scale", "activation", "ta", "tb", "lanes"), "")


def product(m: int, n: int, k: int, **values: Any) -> Operands:
    return Operands({"f0": F32, "f1": F16, "f2": F16, "m": m, "n": n, "k": k, "reach": 1 << 40, **NO_FLAGS,
                     **values})  # fmt: skip


def run(row: Any, o: Operands, *arrays: Any) -> Any:
    assert row.meaning is not None
    with np.errstate(all="ignore"):
        return row.meaning(o, *arrays)


def test_scores_are_products_and_top_their_largest(rng: np.random.Generator) -> None:
    a, b = (rng.normal(size=shape).astype(np.float16) for shape in ((5, 9), (9, 7)))
    scale, before = rng.normal(size=7).astype(np.float32), rng.normal(size=7).astype(np.float32)
    scores, top = run(MMTOP, product(5, 7, 9, scale="scale"), a, b, scale, before)
    (plain,) = run(MM, product(5, 7, 9, scale="scale"), a, b, scale)
    assert np.array_equal(scores, plain)
    assert np.array_equal(top, np.maximum(before, plain.max(0)))


@pytest.mark.parametrize("reach", [-9, -3, 0, 2, 9])
def test_what_a_column_does_not_reach(rng: np.random.Generator, reach: int) -> None:
    a, b = (rng.normal(size=shape).astype(np.float16) for shape in ((6, 4), (4, 5)))
    lowest = np.full(5, np.finfo(np.float32).min)
    scores, top = run(MMTOP, product(6, 5, 4, reach=reach), a, b, lowest)
    hidden = np.arange(6)[:, None] > np.arange(5) + reach
    (plain,) = run(MM, product(6, 5, 4), a, b)
    assert np.array_equal(scores, np.where(hidden, -np.inf, plain))
    assert np.array_equal(top, np.maximum(lowest, scores.max(0)))


def test_no_top_is_a_number_that_is_none() -> None:
    a, b = np.array([[np.nan], [1.0]], np.float16), np.ones((1, 1), np.float16)
    scores, top = run(MMTOP, product(2, 1, 1), a, b, np.zeros(1, np.float32))
    assert np.isnan(scores[0, 0])
    assert top[0] == 1


@pytest.mark.parametrize("fmt", [F32, F16, BF16])
def test_weights_and_the_sum_of_what_they_were_rounded_to(rng: np.random.Generator, fmt: Format) -> None:
    scores = (rng.normal(size=(11, 6)) * rng.choice([0.1, 5.0, 60.0], 6)).astype(np.float32)
    scores[3, 2], top, before = -np.inf, scores.max(0), rng.random(6).astype(np.float32)
    o = Operands({"f0": fmt, "f1": F32, "m": 11, "n": 6})
    weights, total = run(VSOFT, o, scores, top, before)
    exact = np.exp((scores - top).astype(np.float64))
    assert np.array_equal(weights, exact.astype(np.float32).astype(fmt.dtype))
    assert weights[3, 2] == 0
    for row in weights:
        before = before + row.astype(np.float32)
    assert np.array_equal(total, before)


def record(fmt: Format, m: int, n: int) -> TensorRecord:
    o = Operands({"f0": fmt, "f1": F32, "m": m, "n": n, "dst": address(WRAM, 0), "a": address(NRAM, 0),
                  "top_at": address(NRAM, 1 << 17), "total_at": address(NRAM, 1 << 18)})  # fmt: skip
    assert VSOFT.reads is not None
    assert VSOFT.writes is not None
    assert VSOFT.work is not None
    reads, writes = tuple(VSOFT.reads(o)), tuple(VSOFT.writes(o))
    return TensorRecord(0, "vector", VSOFT.timing, dict(VSOFT.work(o)), (fmt, F32), reads, writes)


def test_functions_take_what_no_sum_needs() -> None:
    """Of 64 columns 8 have a sum in a cycle in float32, 32 in float16, all in int8."""
    machine = load_machine("dlp-s")
    assert [free_functions(machine.core.mfu, rate) for rate in ("fp32", "fp16", "int8")] == [56, 32, 0]
    for fmt, free in ((F32, 56), (F16, 32), (BF16, 32)):
        cost = cost_of(machine, record(fmt, 70, 64))
        assert (cost.interval, cost.part) == (-(-70 * 64 // free), DRAIN_FUNCTIONS)


def test_the_vector_unit_takes_them_where_it_is_faster() -> None:
    """Where sums do not leave by columns, where a format fills every column, where the array lacks it."""
    machine = load_machine("dlp-s")
    mfu, passes = machine.core.mfu, machine.core.vfu.transcendental_passes
    full = replace(mfu, rows=16, cols=16, macs_per_cycle={"fp16": 256})
    for other in (
        replace(mfu, geometry="row-stationary", register_bytes=512),
        full,
        replace(mfu, macs_per_cycle={"int8": 4096}),
    ):
        cost = cost_of(replace(machine, core=replace(machine.core, mfu=other)), record(F16, 70, 64))
        assert (cost.interval, cost.part) == (70 * 64 * 4 // 128 * passes, VECTOR_UNIT)


def test_a_weight_costs_three_steps_of_energy() -> None:
    """A difference, a function and a sum, beside the bytes that are read and written."""
    machine = load_machine("dlp-s")

    def vector_joules(m: int) -> float:
        core = CoreTrace(0, 0)
        core.tail.append(record(F16, m, 64))
        return energy_of(machine, Trace([core], 1), 0.0).joules["vector"]

    assert vector_joules(20) == pytest.approx(2 * vector_joules(10))
    table = {name: picojoules for name, picojoules, _ in energy_table(machine)}
    assert vector_joules(10) == pytest.approx(3 * 4 * 640 * table["vector byte"] * 1e-12)
