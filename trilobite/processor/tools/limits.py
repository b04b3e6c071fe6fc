"""What a launch is bound by, found by asking: how long would it take if one part of the machine were twice
as fast?

Enters: a run. Leaves: a limit for each part of the machine, the one that saves most first, and a sentence. A
part that is busy all the time need not be a limit, and one that is hardly busy may be; the answer here is the
trace replayed in the time of the faster machine, so that the sentence is true of the model by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from trilobite.processor.machine import Machine
from trilobite.processor.machine.drawing import table
from trilobite.processor.sim.run import Run
from trilobite.processor.tools.critical import critical_parts
from trilobite.processor.tools.sweep import sweep

LEAST = 0.01  # a part that saves less of the time behind the launch is no limit


@dataclass(frozen=True)
class Limit:
    """`cycles` is the time with the part twice as fast, `saved` its share of the time as it is."""

    part: str
    cycles: int
    saved: float


def _changed(machine: Machine, part: str, **values: Callable[[Any], Any]) -> Machine:
    """The machine with fields of one of its parts changed; `core.x` is a part of the core."""
    if part.startswith("core."):
        name = part.removeprefix("core.")
        inner = _faster(getattr(machine.core, name), values)
        return replace(machine, core=replace(machine.core, **{name: inner}))
    return replace(machine, **{part: _faster(getattr(machine, part), values)})


def _faster(part: Any, values: Mapping[str, Callable[[Any], Any]]) -> Any:
    return replace(part, **{name: change(getattr(part, name)) for name, change in values.items()})


def _twice(value: Any) -> Any:
    return 2 * value


def _half(value: int) -> int:
    return value - value // 2


def _halved(value: float) -> float:
    return value / 2


def _in_flight(machine: Machine) -> Machine:
    more = _changed(machine, "core.io_dma", outstanding=_twice)
    return _changed(more, "core.move_dma", outstanding=_twice)


def _matrix_unit(machine: Machine) -> Machine:
    """Every rate; the stated factor as well, for it bounds them."""

    def rates(old: Mapping[str, int]) -> dict[str, int]:
        return {name: 2 * rate for name, rate in old.items()}

    def factors(_: object) -> dict[str, float]:
        return {name: 2 * machine.core.mfu.factor(name) for name in machine.core.mfu.macs_per_cycle}

    return _changed(machine, "core.mfu", macs_per_cycle=rates, factors=factors)


def _scalar(machine: Machine) -> Machine:
    """Half the latencies; DRAM's is another matter."""
    own = {f.name: _half for f in fields(machine.core.scalar) if f.name != "dram"}
    return _changed(machine, "core.scalar", **own)


def _latency(machine: Machine) -> Machine:
    """The wait for the first byte; what requests in flight can draw stays, for that is a part of its own."""
    nearer = _changed(machine, "dram", latency_ns=_halved)
    for engine in ("core.io_dma", "core.move_dma"):
        nearer = _changed(nearer, engine, outstanding=_halved)
    return _changed(nearer, "core.scalar", dram=_half)


# How each part is made twice as fast.
PARTS: dict[str, Callable[[Machine], Machine]] = {
    "the launch": lambda m: _changed(m, "launch", overhead_ns=_halved, round_ns=_halved),
    "DRAM bandwidth": lambda m: _changed(m, "dram", gb_per_s=_twice),
    "DRAM latency": _latency,
    "the NoC": lambda m: _changed(m, "noc", link_bytes_per_cycle=_twice),
    "SRAM": lambda m: _changed(m, "sram", bytes_per_cycle=_twice, bus_bytes_per_cycle=_twice),
    "the cache": lambda m: _changed(m, "llc", bytes_per_cycle=_twice, latency_ns=_halved),
    "the io DMA": lambda m: _changed(m, "core.io_dma", bytes_per_cycle=_twice, setup=_half),
    "the move DMA": lambda m: _changed(m, "core.move_dma", bytes_per_cycle=_twice, setup=_half),
    "DMA in flight": _in_flight,
    "queue depth": lambda m: _changed(m, "core.queues", depth=_twice),
    "barriers": lambda m: replace(m, barrier_cycles=_half(m.barrier_cycles)),
    "NRAM": lambda m: _changed(m, "core.nram", bytes_per_cycle=_twice),
    "WRAM": lambda m: _changed(m, "core.wram", bytes_per_cycle=_twice),
    "ACC": lambda m: _changed(m, "core.acc", bytes_per_cycle=_twice),
    "the matrix unit": _matrix_unit,
    "the vector unit": lambda m: _changed(m, "core.vfu", bytes_per_cycle=_twice, latency=_half),
    "the scalar unit": _scalar,
}


def limits(run: Run) -> list[Limit]:
    """One for each part, what saves most first; a launch that reads clocks cannot be replayed."""
    points = sweep(run, {part: faster(run.machine) for part, faster in PARTS.items()})
    found = [Limit(p.name, p.cycles, 1 - p.cycles / run.cycles) for p in points]
    return sorted(found, key=lambda limit: limit.cycles)


def sentence(run: Run) -> str:
    """What the launch is bound by, and what would bound it behind that."""
    if run.trace.timing_dependent:
        return "its course may depend on time, so that no part of the machine can be tried twice as fast"
    first = limits(run)[0]
    if first.saved < LEAST:
        return "no single part of the machine bounds it: none of them twice as fast saves 1%"
    said = f"bound by {first.part}: twice as fast it saves {first.saved:.0%}"
    behind = limits(run.replay(PARTS[first.part](run.machine)))[0]
    if behind.saved < LEAST or behind.part == first.part:
        return said
    return f"{said}; then {behind.part} bounds it, which saves {behind.saved:.0%} of the rest"


def views(run: Run) -> str:
    """What critical path and roofline say to it."""
    path = critical_parts(run)
    roof = run.roofline
    most = next(iter(path), "nothing")
    share = path.get(most, 0) / run.cycles if run.cycles else 0.0
    reached = roof.cycles / run.cycles if run.cycles else 0.0
    return f"critical path: {share:.0%} in {most}; roofline: {reached:.0%} of {roof.part}"


def limits_text(run: Run) -> str:
    """The sentence, and the table behind it."""
    if run.trace.timing_dependent:
        return sentence(run) + "\n"
    rows = [[limit.part, str(limit.cycles), f"{limit.saved:.1%}"] for limit in limits(run)]
    return (
        sentence(run) + "\n" + views(run) + "\n" + table([["twice as fast", "cycles", "saved"], *rows]) + "\n"
    )
