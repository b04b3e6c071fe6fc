"""A profile of the CPU as a subject: kernels in time, rates, roofs, and every kernel down to its loops.

Enters: what `Profile` of the CPU target holds. Leaves: a `Subject`. Times are measured on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base.locations import Location
from trilobite.ir.graph import Equation, Graph
from trilobite.report.amounts import amount
from trilobite.report.graphs import label_of, stages_data
from trilobite.report.memory import alive
from trilobite.report.places import place_text, source_lines
from trilobite.report.subjects import Kernel, Labels, Lane, Roofs, Subject, Table

HEAVY = ("conv", "dot", "attention")  # primitives after which a fusion is called, if it has one
LONGEST_CODE = 400  # lines of a kernel that the page shows


def cpu_subject(profile: Any, name: str = "") -> Subject:
    """With the executable that the profile is of, also its graphs, kernels and memory."""
    labels = Labels()
    fused = profile.fused
    equations = {row.fusion: fused.equations[row.fusion] for row in profile.rows} if fused else {}
    return Subject(
        name=name or profile.name,
        target=profile.target,
        sentence=_sentence(profile),
        unit="ns",
        total=_end(profile),
        figures=_figures(profile),
        lanes=[_lane(profile, labels, equations)] if profile.events else [],
        labels=labels.texts,
        tables=[_table(profile, equations)],
        roofs=_roofs(profile, equations),
        memory=alive(fused) if fused else (),
        stages=stages_data(*profile.stages()) if fused else (),
        kernels=list(_kernels(profile, equations)) if fused else (),
        sources=source_lines(_locations(equations.values())),
        numbers={"time in µs": profile.call * 1e6, "in kernels in µs": profile.kernels * 1e6},
        seconds=profile.call,
    )


def main_equation(fusion: Equation) -> Equation:
    """What a fusion is mainly for: its heavy member, else the fusion itself."""
    region = fusion.attributes.get("region")
    inner = region.equations if isinstance(region, Graph) else ()
    return next((e for e in inner if e.primitive.name.startswith(HEAVY)), fusion)


def _locations(equations: Any) -> Iterator[Location]:
    for equation in equations:
        yield main_equation(equation).location
        yield from (e.location for e in _inside(equation))


def _inside(fusion: Equation) -> Sequence[Equation]:
    region = fusion.attributes.get("region")
    return region.equations if isinstance(region, Graph) else (fusion,)


def _sentence(p: Any) -> str:
    """Where it ran, how long it took, what bounds it: a sentence each."""
    floor = sum(row.floor for row in p.rows)
    share = floor / p.kernels if p.kernels else 0.0
    slowest = max(p.rows, key=lambda row: row.seconds, default=None)
    threads = f"{p.roofline.threads} thread{'s' if p.roofline.threads > 1 else ''}"
    lost = f" {_disturbed(p)}" if p.disturbed > p.call / 10 else ""
    said = (
        f"It ran on {threads} of this CPU. A call took {amount(p.call, 's')}.{lost} "
        f"Its kernels reach {share:.0%} of what arithmetic and memory of this machine allow."
    )
    if slowest is None or not p.kernels:
        return said
    spent = f"{slowest.seconds / p.kernels:.0%} of the kernels' time"
    return f"{said} The longest is {slowest.name}: {spent}, bound by {_bound(p, slowest)}."


def _disturbed(p: Any) -> str:
    return (
        f"In {amount(p.disturbed, 's')} of it kernels took longer than they did in other calls: "
        "something else ran on this machine."
    )


def _figures(p: Any) -> list[tuple[str, str]]:
    flops, moved = sum(row.flops for row in p.rows), sum(row.bytes for row in p.rows)
    found = [
        ("time", f"{amount(p.call, 's')}, least of {p.repeats}"),
        ("in kernels, each at its quickest", amount(p.kernels, "s")),
        ("outside kernels", amount(p.elsewhere, "s")),
        ("arithmetic", f"{amount(flops, 'FLOP')}, {amount(flops / max(p.kernels, 1e-12), 'FLOP/s')}"),
        ("read and written by kernels", amount(moved, "B")),
        ("threads", str(p.roofline.threads)),
    ]
    if p.disturbed > p.call / 10:
        found.insert(3, ("lost to other programs", amount(p.disturbed, "s")))
    if p.fused is not None:
        found.append(("memory between kernels", amount(p.arena, "B")))
    return found


def _end(p: Any) -> float:
    begin = min((e.begin for e in p.events), default=0)
    return float(max((e.end for e in p.events), default=0) - begin)


def _bound(p: Any, row: Any) -> str:
    """What the roofline says: arithmetic, or the memory that its bytes fit in."""
    roof = p.roofline
    memory = row.bytes / roof.bandwidth_of(row.bytes) if row.bytes else 0.0
    if row.flops / roof.flops["float32"] >= memory:
        return "arithmetic"
    at = next((n for n, size in enumerate(roof.sizes) if row.bytes <= size), len(roof.sizes) - 1)
    return "memory" if at == len(roof.sizes) - 1 else f"caches within {roof.sizes[at] >> 10:,} KiB"


def _lane(p: Any, labels: Labels, equations: Mapping[int, Equation]) -> Lane:
    begin = min(e.begin for e in p.events)
    events = sorted(p.events, key=lambda e: e.begin)
    starts = np.asarray([e.begin - begin for e in events], np.float64)
    lengths = np.asarray([e.end - e.begin for e in events], np.float64)
    numbers = [labels.number(_event_text(e.kernel, p.rows[e.row], equations)) for e in events]
    return Lane("kernels", "kernel", starts, lengths, np.asarray(numbers, np.uint32))


def _event_text(kernel: str, row: Any, equations: Mapping[int, Equation]) -> str:
    if row.fusion not in equations:
        return f"{kernel}\n{row.location}\n{row.kind}"
    location = main_equation(equations[row.fusion]).location
    return f"{kernel}\n{location.module} {place_text(location)}\n{row.kind}"


def _where(row: Any, equations: Mapping[int, Equation]) -> tuple[str, str]:
    """Module and line."""
    if row.fusion not in equations:
        return "", str(row.location)
    location = main_equation(equations[row.fusion]).location
    return location.module, place_text(location)


def _table(p: Any, equations: Mapping[int, Equation]) -> Table:
    head = "kernel,kind,runs,µs,share,GFLOP/s,GB/s,of roof,bound by,module,line".split(",")
    rows = [
        [row.name, row.kind, row.runs, row.seconds * 1e6, row.seconds / p.kernels if p.kernels else 0.0,
         row.gflops, row.gbytes, row.share, _bound(p, row), *_where(row, equations)]
        for row in sorted(p.rows, key=lambda row: -row.seconds)
    ]  # fmt: skip
    return Table("Kernels", head, rows, "A row is one fusion; its time is the least of all repeats.")


def _roofs(p: Any, equations: Mapping[int, Equation]) -> Roofs:
    roof = p.roofline
    bands = [(f"{size >> 10:,} KiB", rate) for size, rate in zip(roof.sizes, roof.bandwidth, strict=False)]
    points = [
        (f"{row.name}\n{' '.join(_where(row, equations))}", float(row.flops), float(row.bytes), row.seconds)
        for row in p.rows
    ]
    chosen = [("memory", bands[-1][1]), bands[0]] if len(bands) > 1 else bands
    return Roofs([("float32", float(roof.flops["float32"]))], chosen, points)


def _kernels(p: Any, equations: Mapping[int, Equation]) -> Iterator[Kernel]:
    listings = p.listings()
    for row in p.rows:
        module, place = _where(row, equations)
        notes = [
            ("kind", row.kind), ("runs", str(row.runs)), ("GFLOP/s", f"{row.gflops:,.1f}"),
            ("GB/s", f"{row.gbytes:,.1f}"), ("of its roof", f"{row.share:.0%}"),
        ]  # fmt: skip
        inside = [(label_of(e), place_text(e.location)) for e in _inside(equations[row.fusion])]
        code = [pair for name in dict.fromkeys(row.kernels) for pair in _code(listings.get(name))]
        share = row.seconds / p.kernels if p.kernels else 0.0
        yield Kernel(row.name, module, place, row.seconds * 1e9, share, _bound(p, row), notes, inside, code)


def _code(listing: Callable[[], list[tuple[str, str]]] | None) -> list[tuple[str, str]]:
    return [] if listing is None else [(title, first_lines(text)) for title, text in listing()]


def first_lines(text: str) -> str:
    """As many lines as a page can show, and how many are left out."""
    lines = text.splitlines()
    if len(lines) <= LONGEST_CODE:
        return text
    return "\n".join([*lines[:LONGEST_CODE], f"... and {len(lines) - LONGEST_CODE:,} more lines"])
