"""Where the cycles of a run went, group by group.

Enters: a run of a program whose groups are functions of their own, and the calls behind them. Leaves: a
`Profile`: per group its cycles (they sum to the run's), what kept it busy, bytes from and to DRAM, use of the
matrix unit, joules, and what the mapping's model had predicted. As table, JSON, or a Perfetto trace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from trilobite.compiler.targets import profiles as targets
from trilobite.compiler.targets.dlp.parts import Called
from trilobite.compiler.targets.dlp.stages import SHARED, own_passes
from trilobite.processor.isa.address import split
from trilobite.processor.isa.row import GDRAM
from trilobite.processor.machine import Machine
from trilobite.processor.sim.energy import energy_of
from trilobite.processor.sim.record import CoreTrace, Record, TensorRecord, Trace
from trilobite.processor.sim.run import Run

if TYPE_CHECKING:
    from trilobite.compiler.targets.dlp.compiled import Compiled

UNITS = {"io": "DRAM", "move": "on-chip copies", "matrix": "matrix unit", "vector": "vector unit"}
_MORE = {
    "recorded": "what the program did",
    "weights apart": "what depends on weights alone is computed once, in a program of its own",
}
BETWEEN = -1  # what belongs to no group: calls, loops, barriers of the entry


@dataclass(frozen=True)
class Row:
    """One group."""

    number: int
    name: str
    operations: str
    where: str
    unit: str
    mapping: str
    cycles: int
    share: float
    bound: str
    dram_bytes: int
    utilisation: float  # of the matrix unit's peak, all cores
    joules: float
    predicted: int  # cycles by the mapping's model; 0 where there is none


@dataclass(frozen=True)
class Profile(targets.Profile):
    """Rows in the order of the program."""

    form: ClassVar[str] = targets.SIMULATED

    machine: str
    cycles: int
    seconds: float
    joules: float
    rows: tuple[Row, ...]
    run: Run
    compiled: Compiled | None = field(default=None, compare=False, repr=False)  # the program that ran
    whole: Compiled | None = field(default=None, compare=False, repr=False)  # with what it does to weights

    @property
    def arena(self) -> int:
        """Bytes that are planned for values between groups."""
        return 0 if self.compiled is None else self.compiled.network.arena

    def spans(self) -> list[tuple[int, int]]:
        """Where the instructions of each call begin and end."""
        return spans_of(self.run, self._functions())

    def owners(self) -> list[int | None]:
        """For every instruction the number of the call it belongs to; None between calls."""
        return [None if n == BETWEEN else n for n in owners(self.run, self._functions())]

    def _functions(self) -> list[str]:
        return [] if self.compiled is None else [c.group.function for c in self.compiled.network.calls]

    def stages(self) -> targets.Stages | None:
        """Of the whole graph, then what it does in every run, where what depends on weights is apart."""
        if self.compiled is None or self.whole is None:
            return None
        done, whole = self.compiled.compilation, self.whole.compilation
        graphs = {"recorded": whole.graph, **whole.stages}
        if whole is not done:
            graphs["weights apart"] = done.latest
        passes = (*SHARED, *own_passes(self.whole.machine))
        return targets.Stages(graphs, {**_MORE, **{p.name: p.doc for p in passes}})

    def timeline(self) -> targets.Timeline:
        from trilobite.processor.tools.perfetto import perfetto_trace

        return targets.Timeline(".perfetto-trace", perfetto_trace(self.run))

    def json(self) -> str:
        head = {
            "machine": self.machine,
            "cycles": self.cycles,
            "seconds": self.seconds,
            "joules": self.joules,
        }
        return json.dumps({**head, "groups": [asdict(row) for row in self.rows]}, indent=1)

    def perfetto(self, path: str | Path) -> None:
        """The run's timeline for ui.perfetto.dev."""
        Path(path).write_bytes(self.timeline().content)

    def write(self, directory: str | Path) -> list[Path]:
        """Table, JSON and timeline as files of a directory."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        table, data, trace = (folder / f"profile.{end}" for end in ("txt", "json", "perfetto-trace"))
        table.write_text(f"{self}\n", encoding="utf-8")
        data.write_text(self.json(), encoding="utf-8")
        self.perfetto(trace)
        return [table, data, trace]

    def by_line(self) -> Mapping[str, int]:
        """Cycles of every line of the user's source."""
        found: dict[str, int] = {}
        for row in self.rows:
            found[row.where] = found.get(row.where, 0) + row.cycles
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def __str__(self) -> str:
        head = (
            f"{self.machine}: {self.cycles} cycles, {self.seconds * 1e6:.1f} us, {self.joules * 1e6:.1f} uJ\n"
            f"{'group':<28} {'unit':<7} {'cycles':>10} {'share':>6} {'bound by':<14} {'DRAM bytes':>11}"
            f" {'MFU':>6} {'uJ':>9} {'predicted':>9}  line"
        )
        return "\n".join([head, *map(_text, self.rows)])


def _text(row: Row) -> str:
    predicted = str(row.predicted) if row.predicted else "-"
    return (
        f"{f'{row.number} {row.name}'[:28]:<28} {row.unit:<7} {row.cycles:>10} {row.share:>6.1%}"
        f" {row.bound:<14}"
        f" {row.dram_bytes:>11} {row.utilisation:>6.1%} {row.joules * 1e6:>9.2f} {predicted:>9}  {row.where}"
    )


# -- from a run ----------------------------------------------------------------------------------------------


def spans_of(run: Run, functions: Sequence[str]) -> list[tuple[int, int]]:
    """Where the instructions of each function begin and end."""
    symbols = run.program.symbols
    starts = sorted(s.offset for s in symbols.values() if s.section == "text")
    found = []
    for name in functions:
        start = symbols[name].offset
        later = [s for s in starts if s > start]
        found.append((start, later[0] if later else len(run.program.instructions)))
    return found


def owners(run: Run, functions: Sequence[str]) -> list[int]:
    """For every instruction the number of the function it belongs to, or BETWEEN."""
    found = [BETWEEN] * len(run.program.instructions)
    for number, (start, end) in enumerate(spans_of(run, functions)):
        found[start:end] = [number] * (end - start)
    return found


def cycles_by_function(run: Run, owner: Sequence[int], count: int) -> list[int]:
    """Cycles of the first core from the end of what ran before to the end of each function's last
    instruction; they sum to the run's. What is left is the entry's, in the last place.
    """
    cycles = [0] * (count + 1)
    now, done, reached = BETWEEN, 0, 0
    for op in run.timeline.cores[0].operations:
        here = owner[op.record.place]
        if here not in (now, BETWEEN):
            cycles[now] += max(reached - done, 0)
            now, done = here, max(done, reached)
        reached = max(reached, op.finish)
    cycles[now] += max(reached - done, 0)
    cycles[BETWEEN] += run.cycles - max(done, reached)
    return cycles


def profile_of(run: Run, calls: Sequence[Called], machine: Machine) -> Profile:
    """Of a run in which every call has a function of its own."""
    functions = [call.group.function for call in calls]
    owner = owners(run, functions)
    cycles = cycles_by_function(run, owner, len(calls))
    records = _records(run, owner, len(calls))
    rows = []
    for call, spent, mine in zip(calls, cycles, records, strict=False):
        rows.append(_row(call, spent, mine, run, machine))
    if cycles[BETWEEN]:
        rows.append(
            Row(len(rows), "launch and entry", "", "", "scalar", "", cycles[BETWEEN],
                cycles[BETWEEN] / max(run.cycles, 1), "control", 0, 0.0, 0.0, 0)
        )  # fmt: skip
    return Profile(machine.name, run.cycles, run.seconds, run.energy.total, tuple(rows), run)


def _records(run: Run, owner: Sequence[int], count: int) -> list[list[tuple[CoreTrace, list[Record]]]]:
    """Per function what each core did in it."""
    found: list[list[tuple[CoreTrace, list[Record]]]] = [[] for _ in range(count)]
    for core in run.trace.cores:
        parts: list[list[Record]] = [[] for _ in range(count)]
        for record in core.records:
            here = owner[record.place]
            if here != BETWEEN:
                parts[here].append(record)
        for place, part in enumerate(parts):
            found[place].append((core, part))
    return found


def _row(
    call: Called, cycles: int, parts: Sequence[tuple[CoreTrace, list[Record]]], run: Run, machine: Machine
) -> Row:
    tensors = [r for _, part in parts for r in part if isinstance(r, TensorRecord)]
    seconds = cycles / (machine.clock_ghz * 1e9)
    trace = Trace([CoreTrace(c.cluster, c.core, len(part), list(part)) for c, part in parts], 1)
    cost = call.group.cost
    return Row(
        call.number, call.name, " ".join(dict.fromkeys(call.primitives)), str(call.location), call.group.unit,
        call.group.mapping, cycles, cycles / max(run.cycles, 1), _bound(run, tensors), _dram_bytes(tensors),
        _utilisation(tensors, cycles, machine), energy_of(machine, trace, seconds).total,
        0 if cost is None else cost.cycles,
    )  # fmt: skip


def _bound(run: Run, tensors: Sequence[TensorRecord]) -> str:
    """The queue that was busy longest on the first core."""
    busy: dict[str, int] = {}
    mine = {id(record) for record in tensors}
    for op in run.timeline.cores[0].operations:
        if id(op.record) in mine:
            busy[op.record.queue] = busy.get(op.record.queue, 0) + op.free - op.start
    if not busy:
        return "scalar"
    return UNITS.get(max(busy, key=lambda q: busy[q]), "scalar")


def _dram_bytes(tensors: Sequence[TensorRecord]) -> int:
    return sum(r.bytes for t in tensors for r in (*t.reads, *t.writes) if split(r.address)[0] == GDRAM)


def _utilisation(tensors: Sequence[TensorRecord], cycles: int, machine: Machine) -> float:
    """Cycles that the multiplications would take at the formats' peak rates, of those that passed."""
    rates = machine.core.mfu.macs_per_cycle
    needed = 0.0
    for t in tensors:
        if t.timing == "matrix" and {"m", "n", "k"} <= t.work.keys():
            macs = t.work["m"] * t.work["n"] * t.work["k"] * t.work.get("taps", 1) / t.work.get("groups", 1)
            needed += macs / rates.get(t.formats[1].rate, float("inf"))
    return needed / (cycles * machine.cores) if cycles else 0.0
