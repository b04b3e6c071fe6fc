"""Refuses what the optional parts of a machine cannot be: rates beyond the geometry, pools, rows, zeros.

Enters: a `Machine`, or its matrix unit. Leaves: nothing, or a `MachineError`.
"""

from __future__ import annotations

from trilobite.base.errors import MachineError
from trilobite.processor.machine.description import GATINGS, RATE_FORMATS, Machine, MatrixUnit


def check_rates(machine: str, mfu: MatrixUnit) -> None:
    """A rate follows from the geometry: so many multipliers, times the factor of the format."""
    for name, factor in mfu.factors.items():
        if name not in RATE_FORMATS or type(factor) not in (int, float) or not 0 < factor <= 64:
            raise MachineError(
                f"the factor of {name} is {factor!r}",
                where=f"{machine}: core.mfu.factors",
                expected="products of a format that one multiplier makes a cycle, above 0 and at most 64",
                remedy="write for example factors: {int4: 2}",
            )
    for name, rate in mfu.macs_per_cycle.items():
        most = mfu.rows * mfu.cols * mfu.count * mfu.factor(name)
        if rate > most:
            raise MachineError(
                f"{rate} products of {name} a cycle are more than {mfu.count} x {mfu.rows} x {mfu.cols} "
                f"multipliers make",
                where=f"{machine}: core.mfu.macs_per_cycle",
                expected=f"at most {int(most)}: rows x cols x count x {mfu.factor(name):g} for {name}",
                remedy="correct the rate or the geometry, or state core.mfu.factors for the format",
            )
    if (mfu.geometry == "row-stationary") != (mfu.register_bytes > 0):
        raise MachineError(
            f"a {mfu.geometry} array with register files of {mfu.register_bytes} bytes",
            where=f"{machine}: core.mfu.register_bytes",
            expected="bytes of an element's register file for a row-stationary array, and only there",
            remedy="give the inputs, filter words and partial sums that an element holds, in bytes",
        )
    if mfu.zero_gating not in GATINGS:
        raise MachineError(
            f"core.mfu.zero_gating is {mfu.zero_gating!r}",
            where=f"{machine}: core.mfu.zero_gating",
            expected="one of " + ", ".join(GATINGS),
            remedy="choose one of these",
        )


def check_options(machine: Machine) -> None:
    _check_pool(machine)
    _check_rows(machine)
    for name in ("zero_weights", "zero_activations"):
        share = getattr(machine.activity, name)
        if share > 1:
            raise MachineError(
                f"activity.{name} is {share}",
                where=f"{machine.name}: activity.{name}",
                expected="a share from 0 to 1",
                remedy="give the share of zeros",
            )


def _check_pool(machine: Machine) -> None:
    core = machine.core
    if core.pool_kib and max(core.nram.kib, core.wram.kib) > core.pool_kib:
        raise MachineError(
            f"a pool of {core.pool_kib} KiB cannot hold {core.nram.kib} KiB of NRAM "
            f"or {core.wram.kib} KiB of WRAM",
            where=f"{machine.name}: core.pool_kib",
            expected="a pool at least as large as each of the memories in it",
            remedy="each of them may be as large as the pool; together they share it",
        )


def _check_rows(machine: Machine) -> None:
    dram = machine.dram
    if dram.row_bytes and dram.row_bytes % dram.burst_bytes:
        raise MachineError(
            f"a row of {dram.row_bytes} bytes has no whole number of bursts of {dram.burst_bytes}",
            where=f"{machine.name}: dram.row_bytes",
            expected="a multiple of burst_bytes",
            remedy="give the bytes of a row of one channel",
        )
    if dram.refresh_ns and dram.refresh_ns >= dram.refresh_interval_ns:
        raise MachineError(
            f"DRAM is away for {dram.refresh_ns} of every {dram.refresh_interval_ns} ns",
            where=f"{machine.name}: dram.refresh_ns",
            expected="less than refresh_interval_ns",
            remedy="give both from the data sheet: tRFC and tREFI",
        )
