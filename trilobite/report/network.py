"""A compiled network on a processor as a subject: the launch, and every group down to its instructions.

Enters: the DLP target's `Profile`. Leaves: a `Subject` with layers, mappings (predicted beside simulated),
graphs after each pass and memory. `subjects_of` takes the profile of any target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from trilobite.base.locations import Location
from trilobite.compiler.targets.profiles import MEASURED, SIMULATED, Profile
from trilobite.ir.graph import Equation, Graph
from trilobite.processor.isa.disassembler import instruction_text
from trilobite.report.amounts import amount
from trilobite.report.cpu import cpu_subject, first_lines, main_equation
from trilobite.report.graphs import label_of, stages_data
from trilobite.report.memory import alive
from trilobite.report.places import place_text, source_lines
from trilobite.report.processor import Find, Where, function_and_line, processor_subject
from trilobite.report.subjects import Kernel, Subject, Table


def subjects_of(name: str, profile: Profile) -> list[Subject]:
    """Of a target's profile, or a session's with one for each compiled step; others say nothing here."""
    return [_DRAWN[part.form](part, name) for part in profile.each if part.form in _DRAWN]


def network_subject(profile: Any, name: str = "") -> Subject:
    """The launch of a whole network."""
    compiled = profile.compiled
    if compiled is None:
        found = processor_subject(profile.run, name)
        return replace(found, tables=[layers_table(profile), *found.tables])
    find = _by_group(profile)
    found = processor_subject(profile.run, name, find)
    done, graphs = compiled.compilation, profile.stages()
    return replace(
        found,
        sentence=_sentence(found.sentence, profile),
        figures=[*found.figures, ("memory between layers", amount(profile.arena, "B"))],
        tables=[layers_table(profile), *found.tables],
        stages=stages_data(*graphs),
        memory=alive(done.latest),
        kernels=list(_kernels(profile)),
        sources=source_lines(
            e.location for g in (graphs.graphs["recorded"], done.latest) for e in _equations(g)
        ),
    )


def layers_table(profile: Any) -> Table:
    """Groups of a compiled network: cycles, what bounds them, predicted beside simulated, the mapping."""
    head = "group,operations,cycles,share,bound by,unit,MFU,DRAM bytes,µJ,predicted,mapping,line".split(",")
    rows = [
        [f"{r.number} {r.name}", r.operations, r.cycles, r.share, r.bound, r.unit, r.utilisation or None,
         r.dram_bytes, r.joules * 1e6, r.predicted or None, r.mapping, r.where]
        for r in profile.rows
    ]  # fmt: skip
    note = "MFU: how full the matrix unit is. Predicted cycles come from the model that chose the mapping."
    return Table("Layers", head, rows, note)


def _sentence(launch: str, profile: Any) -> str:
    slowest = max(profile.rows, key=lambda row: row.cycles, default=None)
    if slowest is None:
        return launch
    where = f"{slowest.number} {slowest.name}"
    return (
        f"{launch} The longest layer is {where}: {slowest.share:.0%} of the cycles, bound by {slowest.bound}."
    )


def _equations(graph: Graph) -> Iterator[Equation]:
    for e in graph.equations:
        yield e
        region = e.attributes.get("region")
        if isinstance(region, Graph):
            yield from region.equations


def _by_group(profile: Any) -> Find:
    calls = profile.compiled.network.calls
    owner = profile.owners()
    plain = function_and_line(profile.run)
    places = [_location(call, e) for call, e in zip(calls, _fusions(profile.compiled), strict=True)]
    found = [Where(at.module or call.name, place_text(at)) for call, at in zip(calls, places, strict=True)]
    return lambda place: plain(place) if owner[place] is None else found[owner[place]]


def _fusions(compiled: Any) -> list[Equation | None]:
    """Of every call the fusion it was made of, by place and primitives; none for copies in between."""
    left: dict[Any, list[Equation]] = {}
    for e in compiled.compilation.latest.equations:
        region = e.attributes.get("region")
        if isinstance(region, Graph):
            key = (e.location, tuple(i.primitive.name for i in region.equations))
            left.setdefault(key, []).append(e)
    found: list[Equation | None] = []
    for call in compiled.network.calls:
        same = left.get((call.location, call.primitives), [])
        found.append(same.pop(0) if len(same) > 1 else same[0] if same else None)
    return found


def _location(call: Any, fusion: Equation | None) -> Location:
    found: Location = call.location if fusion is None else main_equation(fusion).location
    return found


def _kernels(profile: Any) -> Iterator[Kernel]:
    calls = profile.compiled.network.calls
    spans = profile.spans()
    busy = _busy(profile.run)
    for row, call, span, fusion in zip(profile.rows, calls, spans, _fusions(profile.compiled), strict=False):
        notes = [
            ("unit", row.unit), ("mapping", row.mapping), ("matrix unit used", f"{row.utilisation:.1%}"),
            ("DRAM bytes", f"{row.dram_bytes:,}"), ("energy", f"{row.joules * 1e6:,.4g} µJ"),
        ]  # fmt: skip
        at = _location(call, fusion)
        yield Kernel(
            f"{row.number} {row.name}", at.module, place_text(at), row.cycles, row.share, row.bound, notes,
            _inside(call, fusion), _code(profile, call, span, busy), row.predicted, row.joules,
        )  # fmt: skip


def _inside(call: Any, fusion: Equation | None) -> list[tuple[str, str]]:
    if fusion is None:
        return [(name, place_text(call.location)) for name in call.primitives]
    return [(label_of(e), place_text(e.location)) for e in fusion.attributes["region"].equations]


def _busy(run: Any) -> dict[int, tuple[int, int]]:
    """Of every instruction how often it ran and how long it kept its queue, on all cores."""
    found: dict[int, tuple[int, int]] = {}
    for core in run.timeline.cores:
        for op in core.operations:
            count, cycles = found.get(op.record.place, (0, 0))
            found[op.record.place] = (count + 1, cycles + op.free - op.start)
    return found


def _code(
    profile: Any, call: Any, span: tuple[int, int], busy: dict[int, tuple[int, int]]
) -> list[tuple[str, str]]:
    from trilobite.processor.lang.text import write_function

    function = profile.compiled.network.module.functions.get(call.group.function)
    levels = [("kernel IR", first_lines(write_function(function)))] if function is not None else []
    lines = [f"{'cycles':>10} {'runs':>7}  instruction"]
    for place in range(*span):
        count, cycles = busy.get(place, (0, 0))
        spent = f"{cycles:>10,} {count:>7,}" if count else " " * 18
        lines.append(f"{spent}  {instruction_text(profile.run.program.instructions[place])}")
    return [*levels, ("instructions", first_lines("\n".join(lines)))]


_DRAWN: dict[str, Callable[[Any, str], Subject]] = {MEASURED: cpu_subject, SIMULATED: network_subject}
