"""What instructions and programs cost on every machine, as it was kept: cycles, joules, stalls, roofs, areas.

Enters: rows of the instruction table with seeded operands, copies between all memories, programs. Leaves:
for each of them and each machine a digest of all figures. Other tests say by formulas what the figures must
be; this one says that none of them moves unseen. `python -m tests.processor.kept_figures` keeps
`kept_figures.txt` anew, and the commit says why.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.processor.conftest import random_operands
from tests.processor.test_ahead import long_program
from tools.odd_machines import description
from trilobite.base.errors import MachineError
from trilobite.processor.device import Device
from trilobite.processor.isa.address import address
from trilobite.processor.isa.formats import F16, F32, I8, Format
from trilobite.processor.isa.row import GDRAM, LDRAM, NRAM, SRAM, WRAM, Operands, Region
from trilobite.processor.isa.table import MNEMONICS, TABLE
from trilobite.processor.machine import Machine, load_machine
from trilobite.processor.machine.description import Activity, LastLevelCache
from trilobite.processor.machine.load import machine_from, preset_names
from trilobite.processor.sim.area import area_of
from trilobite.processor.sim.energy import energy_of, energy_table
from trilobite.processor.sim.prepared import queue_of
from trilobite.processor.sim.record import CoreTrace, TensorRecord, Trace
from trilobite.processor.sim.run import Run
from trilobite.processor.sim.timing.cost import capacity, cost_key, cost_of, scalar_latencies
from trilobite.processor.sim.timing.roofline import product_bounds, roofline

KEPT = Path(__file__).with_name("kept_figures.txt")
ODD = range(10)  # machines of `tools.odd_machines`
PROGRAMS = ("dlp-s", "dlp-m", "mlu370-x4", "mlu290", "tpu-v1")
COPY = MNEMONICS["COPY"][0]
_DOUBLE = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?|-?\d+e[-+]\d+")
Rows = list[tuple[str, TensorRecord]]


def machines() -> dict[str, Machine]:
    found = {name: load_machine(name) for name in preset_names()}
    for seed in ODD:
        for attempt in range(100):
            try:
                found[f"odd{seed}"] = machine_from(description(seed + 1000 * attempt), f"odd{seed}")
                break
            except MachineError:
                continue
    return found | dressed()


def dressed() -> dict[str, Machine]:
    """What no preset has: a last-level cache, banks that units share, rows of DRAM, zeros left out."""
    base = load_machine("dlp-m")
    core, dram = base.core, base.dram
    shared = {name: replace(getattr(core, name), contended=True) for name in ("nram", "wram", "acc")}
    small = {
        "nram": replace(core.nram, kib=32, banks=1, reserved_kib=0),
        "wram": replace(core.wram, kib=8, banks=1),
    }
    skips = replace(core.mfu, zero_gating="both", sparse=True)
    return {
        "cached": replace(base, llc=LastLevelCache(256, 128, 96, 31.0)),
        "shared": replace(base, core=replace(core, **shared)),
        "rows": replace(base, dram=replace(dram, row_bytes=1024, row_ns=30.0, banks=3, channels=3)),
        "small": replace(base, core=replace(core, **small)),
        "zeros": replace(base, core=replace(core, mfu=skips), activity=Activity(0.25, 0.375)),
    }


# -- single instructions -------------------------------------------------------------------------------------


def records() -> Rows:
    """Every row with a queue, in its first and its last formats; and copies."""
    found: Rows = []
    for row in TABLE:
        if row.writes is None:
            continue
        for formats in sorted({row.formats[0], row.formats[-1]}, key=str) if row.formats else [()]:
            rng = np.random.default_rng(zlib.crc32(f"{row.mnemonic} {formats}".encode()))
            name = ".".join([row.mnemonic, *(fmt.name for fmt in formats)])
            found.append((name, _record(row, random_operands(rng, row, formats), formats)))
    return [*found, *_vectors(), *copies()]


def _vectors() -> Iterator[tuple[str, TensorRecord]]:
    """Sizes around granules, lanes and powers of two, of each timing class that goes by sizes alone."""
    kinds = "vector vector-divide vector-function vector-reduce vector-permute vector-sort drain-function"
    for timing in kinds.split():
        for count in (0, 1, 2, 3, 15, 16, 17, 32, 33, 64, 65, 1000, 4096, 4097):
            for fmt in (F32, F16):
                read, written = (
                    Region(address(NRAM, at), fmt, (count,), (fmt.bits // 8,), "n") for at in (0, 1 << 16)
                )
                yield (
                    f"{timing} {fmt.name} {count}",
                    TensorRecord(0, "vector", timing, {}, (fmt,), (read,), (written,)),
                )


def _record(row: Any, operands: Operands, formats: tuple[Any, ...]) -> TensorRecord:
    reads, writes = tuple(row.reads(operands)) if row.reads else (), tuple(row.writes(operands))
    work = dict(row.work(operands)) if row.work else {}
    return TensorRecord(0, queue_of(row, reads, writes), row.timing, work, formats, reads, writes)


SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Format]] = {
    "line": ((4096,), (1,), F32), "odd": ((1001,), (1,), I8), "one": ((1,), (1,), F32),
    "none": ((0,), (1,), F16), "rows": ((32, 16), (64, 1), F32), "joined": ((8, 64), (64, 1), F16),
    "boxes": ((3, 5, 7), (1000, 200, 1), F32), "turns": ((64, 8), (2048, 1), I8),
    "far": ((4, 3, 2), (1 << 14, 1 << 10, 1), F32),
}  # fmt: skip
PLACES = {
    "G": address(GDRAM, 1 << 20), "G24": address(GDRAM, (1 << 20) + 24),
    "G1": address(GDRAM, (1 << 20) + 1500), "L": address(LDRAM, 4096),
    "N": address(NRAM, 256), "W": address(WRAM, 0), "S": address(SRAM, 64),
    "S0": address(SRAM, 0, 0),
}  # fmt: skip
WAYS = "G>N N>G L>W G>S S>G S>N N>S N>W G24>N N>G24 G1>S G>G24 L>L W>L S>S S0>S S0>N N>S0 G1>L".split()


def copies() -> Iterator[tuple[str, TensorRecord]]:
    """Each shape on either side, packed on the other; multicasts to one, two and three places."""
    for name, (shape, strides, fmt) in SHAPES.items():
        size = fmt.bits // 8
        spread = tuple(stride * size for stride in strides)
        packed = tuple(int(np.prod(shape[n + 1 :])) * size for n in range(len(shape)))
        for way in WAYS:
            source, target = (PLACES[place] for place in way.split(">"))
            for side, ends in (("read", (spread, packed)), ("written", (packed, spread))):
                read, written = (
                    Region(source, fmt, shape, ends[0], "ngw"),
                    Region(target, fmt, shape, ends[1], "ngw"),
                )
                queue = queue_of(COPY, (read,), (written,))
                yield f"{way} {name} {side}", TensorRecord(0, queue, "dma", {}, (fmt,), (read,), (written,))
        for count in (1, 2, 3):
            read = Region(PLACES["S"], fmt, shape, packed, "s")
            written = tuple(Region(address(NRAM, 64, 0, n), fmt, shape, packed, "n") for n in range(count))
            yield f"cast {count} {name}", TensorRecord(0, "move", "multicast", {}, (fmt,), (read,), written)


def figures_of_records(machine: Machine, rows: Rows) -> dict[str, str]:
    """By the record's name a digest of its costs, its energy and its roofs."""
    return {name: _digest(_of_record(machine, record)) for name, record in rows}


def _of_record(machine: Machine, record: TensorRecord) -> Iterator[object]:
    missing = (None, 0, 96) if machine.llc.kib and record.timing == "dma" else (None,)
    for cluster in sorted({0, machine.clusters - 1}):
        for each in missing:
            cost = cost_of(machine, record, cluster, machine.cores_per_cluster - 1, each)
            yield cost
            for part in cost.resources:
                yield capacity(machine, part[1] if part[0] == "share" else part)  # type: ignore[arg-type]
    yield cost_key(record, 4096)
    trace = Trace([CoreTrace(0, 0, 1, [record, record])], 1)
    energy = energy_of(machine, trace, 1e-6)
    roofs = roofline(machine, trace)
    yield from (
        energy.joules,
        energy.defaults,
        energy.total,
        roofs,
        roofs.part,
        roofs.cycles,
        roofs.intensity,
    )


# -- machines and programs -----------------------------------------------------------------------------------


def figures_of_machine(machine: Machine) -> Iterator[tuple[str, str]]:
    parts = (area_of(machine), area_of(machine).total, energy_table(machine), scalar_latencies(machine))
    yield "parts", _digest(iter(parts))
    sizes = np.array([1, 7, 64, 65, 1000])
    yield (
        "bounds",
        _digest(
            product_bounds(machine, rate, size, sizes, sizes[::-1], sizes + 3).tolist()
            for rate in machine.core.mfu.macs_per_cycle
            for size in (1, 4)
        ),
    )


def figures_of_programs(name: str) -> Iterator[tuple[str, str]]:
    """Random programs, each launched on its own device."""
    for seed in range(6):
        device = Device(load_machine(name))
        array = device.array(np.random.default_rng(seed).standard_normal(1024).astype(np.float32))
        dim = ((1, 1, 1), (2, 1, 1), (5, 1, 1))[seed % 3]
        run = device.launch(device.load(long_program(3, seed)), [array], dim=dim, checks=False)
        yield f"program {seed}", _digest(_of_run(run))


def _of_run(run: Run) -> Iterator[object]:
    yield from (run.cycles, run.seconds, run.instructions, run.bytes, run.energy.joules, run.roofline)
    yield from ([row.cycles for row in run.stalls], run.stalls_by_cause(), run.lines(), run.origins())
    yield from ((op.start, op.finish, op.record.place) for op in run.critical_path)


def _digest(values: Iterator[object]) -> str:
    return f"{zlib.crc32('|'.join(map(_plain, values)).encode()) & 0xFFFFF:05x}"


def _plain(value: object) -> str:
    """Doubles to ten places: the order of a sum is nobody's business."""
    return _DOUBLE.sub(lambda found: f"{float(found[0]):.9e}", repr(value))


# -- what is kept --------------------------------------------------------------------------------------------


def figures(name: str, machine: Machine, rows: Rows) -> dict[str, str]:
    found = figures_of_records(machine, rows) | dict(figures_of_machine(machine))
    return found | (dict(figures_of_programs(name)) if name in PROGRAMS else {})


def kept() -> dict[str, dict[str, str]]:
    """By machine."""
    lines = KEPT.read_text(encoding="utf-8").splitlines()
    names = lines[0].split("; ")
    return {
        machine: dict(zip(names, codes.split(), strict=False))
        for machine, codes in (line.split(": ") for line in lines[1:])
    }


def main() -> None:
    rows = records()
    tables = {name: figures(name, machine, rows) for name, machine in machines().items()}
    names = max(tables.values(), key=len).keys()
    lines = ["; ".join(names)]
    lines += [f"{machine}: {' '.join(table.values())}" for machine, table in tables.items()]
    KEPT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
