"""A launch of the processor as a subject: queues of every core in time, stalls, critical path, energy.

Enters: a `Run`. Leaves: a `Subject`, or with `write_run` a page. Figures are the run's own; nothing is
computed here but sums of them. `network.py` adds what is known of a compiled network.
"""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.row import QUEUES
from trilobite.processor.sim.run import Run
from trilobite.processor.sim.timing.timeline import CoreTimes, Operation
from trilobite.processor.tools.page import register
from trilobite.report.amounts import amount
from trilobite.report.page import write_page
from trilobite.report.places import short_path
from trilobite.report.subjects import Labels, Lane, Roofs, Subject, Table

WORKING = ("scalar", "dispatch")  # what control does when it does not wait
MEMORY_CORE = 0x80  # the number that traces give it
LONGEST_PATH = 400  # rows of the critical path that the page lists


class Where(NamedTuple):
    """What an instruction belongs to: a module or function, and a line of the source."""

    module: str
    line: str

    def __str__(self) -> str:
        return f"{self.module}  {self.line}" if self.module else self.line


Find = Callable[[int], Where]


def write_run(run: Run, path: str | Path) -> None:
    """The launch as one self-contained page: what `Run.report` calls."""
    subject = launch_subject(run, Path(path).parent)
    write_page(path, f"{subject.name} on {run.machine.name}", [subject])


def launch_subject(run: Run, beside: Path) -> Subject:
    """With the lines of its source, which may lie in this directory."""
    return replace(processor_subject(run), sources=_source_lines(run, beside))


def processor_subject(run: Run, name: str = "", where: Find | None = None) -> Subject:
    """`where` tells of an instruction what it belongs to; left out, function and line of its source."""
    find = where or function_and_line(run)
    labels = Labels()
    lanes = [lane for core in run.timeline.cores for lane in _lanes(run, core, labels, find)]
    return Subject(
        name=name or entry_name(run),
        target=f"dlp:{run.machine.name}",
        sentence=_sentence(run),
        unit="cycles",
        total=run.cycles,
        figures=_figures(run),
        lanes=lanes,
        labels=labels.texts,
        tables=list(_tables(run, find)),
        roofs=_roofs(run, find),
        sources=_source_lines(run) if where is None else {},
        numbers={
            "time in µs": run.seconds * 1e6,
            "cycles": float(run.cycles),
            "energy in µJ": run.energy.total * 1e6,
            "DRAM bytes": float(run.roofline.dram_bytes),
            "instructions": float(run.instructions),
        },
        seconds=run.seconds,
    )


def function_and_line(run: Run) -> Find:
    """By the program's symbols: the function that an instruction stands in."""
    starts = sorted((s.offset, name) for name, s in run.program.symbols.items() if s.section == "text")
    offsets = np.asarray([offset for offset, _ in starts])

    def find(place: int) -> Where:
        at = int(np.searchsorted(offsets, place, side="right")) - 1
        file, _, line = run.program.where(place).rpartition(":")
        return Where(starts[at][1] if at >= 0 else "", f"{short_path(file)}:{line}")

    return find


def _source_lines(run: Run, beside: Path | None = None) -> dict[str, str]:
    """The text of the kernel's own lines, by place. Programs may know the name of a file only: it is looked
    for where one works, and beside the page.
    """
    executed = {op.record.place for core in run.timeline.cores for op in core.operations}
    found = {}
    for place in sorted(executed):
        file, _, line = run.program.where(place).rpartition(":")
        text = linecache.getline(file, int(line)) or linecache.getline(
            str((beside or Path()) / file), int(line)
        )
        if text.strip():
            found[f"{short_path(file)}:{line}"] = text.strip()
    return found


def entry_name(run: Run) -> str:
    """The kernel that was launched: of several entries the one before the first instruction that ran."""
    entries = run.program.entries
    firsts = [core.operations[0].record.place for core in run.timeline.cores if core.operations]
    before = [(at, name) for name, at in entries.items() if firsts and at <= firsts[0]]
    return max(before)[1] if before else next(iter(entries), "a program")


def core_name(core: CoreTimes) -> str:
    return f"{core.trace.cluster}.{'m' if core.trace.core == MEMORY_CORE else core.trace.core}"


_WAITS = {
    "bandwidth": "the bandwidth of a memory",
    "operand": "operands that are not there yet",
    "scalar": "scalar instructions",
    "dispatch": "instructions to be dispatched",
    "fetch": "instructions to be fetched",
    "queue full": "room in a full queue",
    "sync": "other queues of their core",
    "barrier": "other cores at a barrier",
}


def _sentence(run: Run) -> str:
    """Where it ran, how long it took, what bounds it: a sentence each."""
    causes = run.stalls_by_cause()
    begun = max((row.cycles.get("launch", 0) for row in run.stalls), default=0)
    launch = f" Starting it takes {begun:,} of them." if begun > run.cycles / 10 else ""
    waits = {cause: cycles for cause, cycles in causes.items() if cause in _WAITS}
    roof = run.roofline
    worst = max(waits, key=lambda cause: waits[cause]) if any(waits.values()) else ""
    tail = f" Its queues wait longest for {_WAITS[worst]} ({worst})." if worst else ""
    reached = f", {roof.cycles / run.cycles:.0%} of them" if run.cycles else ""
    return (
        f"It ran on {_cores(run)} of {run.machine.name}. It took {run.cycles:,} cycles, "
        f"{amount(run.seconds, 's')} at {run.machine.clock_ghz:g} GHz, and {amount(run.energy.total, 'J')}."
        f"{launch} {_side(run).capitalize()} alone would need {roof.cycles:,.0f} cycles{reached}.{tail}"
    )


def _cores(run: Run) -> str:
    """`16 cores and 4 memory cores`: those that did anything."""
    memory = sum(core.trace.core == MEMORY_CORE for core in run.timeline.cores)
    counts = ((len(run.timeline.cores) - memory, "core"), (memory, "memory core"))
    return " and ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts if n) or "no core"


def _side(run: Run) -> str:
    roof = run.roofline
    return "arithmetic" if roof.compute_cycles >= roof.memory_cycles else "memory"


def _figures(run: Run) -> list[tuple[str, str]]:
    roof = run.roofline
    return [
        ("cycles", f"{run.cycles:,}"),
        ("time", f"{amount(run.seconds, 's')} at {run.machine.clock_ghz:g} GHz"),
        ("energy", amount(run.energy.total, "J")),
        ("instructions", f"{run.instructions:,}"),
        ("multiply-accumulates", f"{roof.macs:,}"),
        ("of DRAM, in and out", amount(roof.dram_bytes, "B")),
        ("roofline", f"{roof.cycles:,.0f} cycles, {_side(run)}"),
        ("of the roofline", f"{roof.cycles / run.cycles:.1%}" if run.cycles else "-"),
    ]


def _lanes(run: Run, core: CoreTimes, labels: Labels, find: Find) -> Iterator[Lane]:
    if core.segments:
        spans = np.asarray([(start, end - start) for start, end, _ in core.segments], np.float64)
        texts = [labels.number(what, "" if what in WORKING else "waiting") for _, _, what in core.segments]
        numbers = np.asarray(texts, np.uint32)
        yield Lane(f"{core_name(core)} control", "control", spans[:, 0], spans[:, 1], numbers)
    for queue in QUEUES[1:]:
        found = [op for op in core.operations if op.record.queue == queue]
        if found:
            spans = np.asarray([(op.start, op.free - op.start) for op in found], np.float64)
            texts = [labels.number(_label(run, op, find)) for op in found]
            numbers = np.asarray(texts, np.uint32)
            yield Lane(f"{core_name(core)} {queue}", queue, spans[:, 0], spans[:, 1], numbers)


def _label(run: Run, op: Operation, find: Find) -> str:
    text = instruction_text(run.program.instructions[op.record.place])
    return f"{text}\n{find(op.record.place)}\nbound by {op.bound}"


def _tables(run: Run, find: Find) -> Iterator[Table]:
    causes = [cause for cause, cycles in run.stalls_by_cause().items() if cycles]
    rows = [
        [
            f"{row.cluster}.{'m' if row.core == MEMORY_CORE else row.core} {row.queue}",
            *(row.cycles[c] for c in causes),
        ]
        for row in run.stalls
    ]
    yield Table("Stalls", ["core and queue", *causes], rows, "Every row sums to the launch's cycles.")
    spent = _by_place(run, find)
    yield Table("Where the cycles went, by module", ["module", *_SPENT], _by_module(spent), _SUMMED)
    lines = [[where.module, where.line, *entry] for where, entry in spent.items()]
    yield Table("Where the cycles went, by line", ["module", "line", *_SPENT], _largest(lines), _SUMMED)
    yield from _critical(run, find)
    energy = [[unit, joules * 1e6, joules / run.energy.total if run.energy.total else 0.0]
              for unit, joules in run.energy.joules.items()]  # fmt: skip
    yield Table("Energy", ["unit", "µJ", "share"], energy)
    yield Table("Bytes", ["memory", "bytes"], [[name, count] for name, count in run.bytes.items()])


_SPENT = ("executions", "busy", "waiting")
_SUMMED = (
    "Cycles of all queues of all cores: busy with an instruction, and waiting between dispatch and start."
)


def _largest(rows: list[list[object]]) -> list[list[object]]:
    return sorted(rows, key=lambda row: -row[-2])  # type: ignore[operator]


def _by_place(run: Run, find: Find) -> dict[Where, list[int]]:
    spent: dict[Where, list[int]] = {}
    for core in run.timeline.cores:
        for op in core.operations:
            entry = spent.setdefault(find(op.record.place), [0, 0, 0])
            entry[0] += 1
            entry[1] += op.free - op.start
            entry[2] += op.start - op.dispatch
    return spent


def _by_module(spent: dict[Where, list[int]]) -> list[list[object]]:
    sums: dict[str, list[int]] = {}
    for where, entry in spent.items():
        mine = sums.setdefault(where.module, [0, 0, 0])
        mine[:] = [a + b for a, b in zip(mine, entry, strict=True)]
    return _largest([[name or "(the network itself)", *entry] for name, entry in sums.items()])


def _critical(run: Run, find: Find) -> Iterator[Table]:
    """How many cycles of the chain that made the launch as long as it is, by module and by line."""
    spent: Counter[tuple[Where, str]] = Counter()
    path = run.critical_path
    for here, following in zip(path, [*path[1:], None], strict=True):
        end = following.start if following is not None else run.cycles
        spent[find(here.record.place), here.record.queue] += max(0, end - here.start)
    modules: Counter[str] = Counter()
    for (where, _), cycles in spent.items():
        modules[where.module or "(the network itself)"] += cycles
    note = f"{len(path):,} instructions on the chain that made the launch as long as it is."
    by_module = [[name, cycles] for name, cycles in modules.most_common()]
    yield Table("Critical path, by module", ["module", "cycles"], by_module, note)
    rows = [[w.module, w.line, queue, cycles] for (w, queue), cycles in spent.most_common(LONGEST_PATH)]
    yield Table("Critical path", ["module", "line", "queue", "cycles"], rows, note)


def _roofs(run: Run, find: Find) -> Roofs:
    from trilobite.processor.sim.timing.cost import useful_macs
    from trilobite.processor.sim.timing.roofline import dram_traffic

    machine, hertz = run.machine, run.machine.clock_ghz * 1e9
    work: dict[Where, list[float]] = {}
    for core in run.timeline.cores:
        for op in core.operations:
            entry = work.setdefault(find(op.record.place), [0.0, 0.0, np.inf, 0.0])
            entry[0] += 2 * useful_macs(op.record)
            entry[1] += dram_traffic(op.record)
            entry[2], entry[3] = min(entry[2], op.start), max(entry[3], op.finish)
    points = [(str(at), o, b, max(end - start, 1) / hertz) for at, (o, b, start, end) in work.items() if o]
    used = {fmt.rate for core in run.trace.cores for r in core.records for fmt in getattr(r, "formats", ())}
    rates = machine.core.mfu.macs_per_cycle
    peaks = [(name, 2 * rate * machine.cores * hertz) for name, rate in rates.items() if name in used]
    bandwidth = machine.dram_bytes_per_cycle * hertz
    return Roofs(peaks or [(n, 2 * r * machine.cores * hertz) for n, r in list(rates.items())[:1]],
                 [("DRAM", bandwidth)], points)  # fmt: skip


register(write_run)
