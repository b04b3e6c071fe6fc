"""One launch on many machines: replays where only time changes, launches again where structure does.

Enters: a run and machines by name. Leaves: a point per machine that says which of the two it was, with its
cycles, seconds and joules. Replays are spread over processes; results do not depend on how many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from multiprocessing import get_context
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.processor.machine import Machine
from trilobite.processor.machine.description import MatrixUnit
from trilobite.processor.machine.load import field_from
from trilobite.processor.sim.energy import energy_of
from trilobite.processor.sim.record import Trace
from trilobite.processor.sim.run import STRUCTURAL, Run
from trilobite.processor.sim.timing.native import replay


@dataclass(frozen=True)
class SweepPoint:
    """`kind` is "timing" (the trace was replayed) or "structural" (the program was launched again)."""

    name: str
    kind: str
    cycles: int
    seconds: float
    joules: float


def grid(base: Machine, axes: Mapping[str, Sequence[object]]) -> dict[str, Machine]:
    """Every combination of values for dotted fields, such as {"dram.gb_per_s": [25.6, 51.2]}."""
    machines = {}
    for values in product(*axes.values()):
        machine = base
        for path, value in zip(axes, values, strict=True):
            machine = _with(machine, path, path.split("."), value)
        name = ", ".join(f"{path}={value}" for path, value in zip(axes, values, strict=True))
        machines[name] = machine
    return machines


def _with(part: Any, path: str, way: Sequence[str], value: object) -> Any:
    known = [item.name for item in fields(part)] if is_dataclass(part) else []
    if way[0] not in known:
        raise ArgumentError(
            f"a machine has no field {path!r}",
            expected="one of " + ", ".join(known) if known else "a shorter path",
            remedy="name fields as in the YAML file, joined by dots",
        )
    if isinstance(part, MatrixUnit) and way[0] in ("rows", "cols", "count"):
        return _with_geometry(part, way[0], value)
    is_last = len(way) == 1
    inner = (
        field_from(type(part), way[0], value, path)
        if is_last
        else _with(getattr(part, way[0]), path, way[1:], value)
    )
    return replace(part, **{way[0]: inner})


def _with_geometry(mfu: MatrixUnit, name: str, value: object) -> MatrixUnit:
    """Rates follow the multipliers, and with them the area."""
    if not mfu.geometry_published:
        raise ArgumentError(
            f"core.mfu.{name} cannot be swept: the geometry of this part is not published",
            expected="a part whose makers say how its matrix unit is built",
            remedy="sweep over dlp-s, tpu-v1 or a machine of your own, or over another field",
        )
    if type(value) is not int or value < 1:
        raise ArgumentError(
            f"core.mfu.{name} is {value!r}", expected="a whole number of at least 1", remedy="correct it"
        )
    old = getattr(mfu, name)
    rates = {fmt: max(1, rate * value // old) for fmt, rate in mfu.macs_per_cycle.items()}
    return replace(mfu, **{name: value, "macs_per_cycle": rates})  # type: ignore[arg-type]


def sweep(
    run: Run,
    machines: Mapping[str, Machine],
    relaunch: Callable[[Machine], Run] | None = None,
    workers: int = 1,
    progress: bool = False,
) -> list[SweepPoint]:
    """A point for every machine, in the order given; `relaunch` serves the structural ones."""
    structural = {name for name, machine in machines.items() if _differs(run.machine, machine)}
    if structural and relaunch is None:
        raise ArgumentError(
            f"{sorted(structural)[0]!r} changes the structure of the machine",
            expected="timing parameters only, or a function that launches the program again",
            remedy="pass relaunch=",
        )
    if run.trace.timing_dependent and set(machines) - structural:
        raise ArgumentError(
            "the launch reads clocks or atomics, so it cannot be replayed",
            expected="a launch without them",
            remedy="launch it on every machine",
        )
    timed = {name: machine for name, machine in machines.items() if name not in structural}
    points = {}
    with _bar(len(machines), progress) as advance:
        for name, point in _replays(run.trace, timed, workers):
            points[name] = point
            advance()
        for name in structural:
            assert relaunch is not None
            again = relaunch(machines[name])
            points[name] = SweepPoint(name, "structural", again.cycles, again.seconds, again.energy.total)
            advance()
    return [points[name] for name in machines]


def _differs(base: Machine, other: Machine) -> bool:
    sizes = ("nram", "wram", "acc")
    return any(getattr(base, name) != getattr(other, name) for name in STRUCTURAL) or any(
        getattr(base.core, name).kib != getattr(other.core, name).kib for name in sizes
    )


_TRACE: list[Trace] = []  # the trace of a worker process, sent once


def _receive(trace: Trace) -> None:
    _TRACE[:] = [trace]


def _replay(name: str, machine: Machine) -> SweepPoint:
    (trace,) = _TRACE
    cycles = replay(machine, trace).cycles
    seconds = cycles / (machine.clock_ghz * 1e9)
    return SweepPoint(name, "timing", cycles, seconds, energy_of(machine, trace, seconds).total)


def _replays(trace: Trace, machines: Mapping[str, Machine], workers: int) -> Iterator[tuple[str, SweepPoint]]:
    if workers <= 1 or len(machines) <= 1:
        _receive(trace)
        for name, machine in machines.items():
            yield name, _replay(name, machine)
        _TRACE.clear()
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, context, _receive, (trace,)) as pool:
        yield from zip(machines, pool.map(_replay, machines, machines.values()), strict=True)


@contextmanager
def _bar(total: int, shown: bool) -> Iterator[Callable[[], None]]:
    if not shown:
        yield lambda: None
        return
    from rich.progress import Progress

    with Progress() as bar:
        task = bar.add_task("machines", total=total)
        yield lambda: bar.advance(task)
