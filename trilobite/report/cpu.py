"""A profile of the CPU as a subject: kernels in time, rates, roofs.

Enters: what `Profile` of the compiler's tools holds. Leaves: a `Subject`. Times are measured on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.report.subjects import Labels, Lane, Roofs, Subject, Table


def cpu_subject(profile: Any, stages: Sequence[dict[str, Any]] = ()) -> Subject:
    """`stages` are graphs that `report.graphs` laid out."""
    labels = Labels()
    return Subject(
        name=profile.name,
        target="cpu",
        sentence=_sentence(profile),
        unit="ns",
        total=_end(profile),
        figures=_figures(profile),
        lanes=[_lane(profile, labels)] if profile.events else [],
        labels=labels.texts,
        tables=[_table(profile)],
        roofs=_roofs(profile),
        stages=stages,
    )


def _sentence(p: Any) -> str:
    floor = sum(row.floor for row in p.rows)
    share = floor / p.kernels if p.kernels else 0.0
    slowest = max(p.rows, key=lambda row: row.seconds, default=None)
    tail = f"; {slowest.name} takes most of it" if slowest is not None else ""
    return f"{p.call * 1e3:.3f} ms a call on this CPU, kernels at {share:.0%} of their roofs{tail}."


def _figures(p: Any) -> list[tuple[str, str]]:
    flops, moved = sum(row.flops for row in p.rows), sum(row.bytes for row in p.rows)
    return [
        ("time", f"{p.call * 1e6:,.1f} µs, least of {p.repeats}"),
        ("in kernels", f"{p.kernels * 1e6:,.1f} µs"),
        ("outside kernels", f"{p.elsewhere * 1e6:,.1f} µs"),
        ("arithmetic", f"{flops / 1e9:,.3f} GFLOP, {flops / max(p.kernels, 1e-12) / 1e9:,.1f} GFLOP/s"),
        ("bytes of kernels", f"{moved:,}"),
        ("threads", str(p.roofline.threads)),
    ]


def _end(p: Any) -> float:
    begin = min((e.begin for e in p.events), default=0)
    return float(max((e.end for e in p.events), default=0) - begin)


def _lane(p: Any, labels: Labels) -> Lane:
    begin = min(e.begin for e in p.events)
    events = sorted(p.events, key=lambda e: e.begin)
    starts = np.asarray([e.begin - begin for e in events], np.float64)
    lengths = np.asarray([e.end - e.begin for e in events], np.float64)
    numbers = [labels.number(f"{e.kernel}\n{p.rows[e.row].location}\n{p.rows[e.row].kind}") for e in events]
    return Lane("kernels", "kernel", starts, lengths, np.asarray(numbers, np.uint32))


def _table(p: Any) -> Table:
    head = ("kernel", "kind", "runs", "µs", "share", "GFLOP/s", "GB/s", "of roof", "line")
    rows = [
        [row.name, row.kind, row.runs, row.seconds * 1e6, row.seconds / p.kernels if p.kernels else 0.0,
         row.gflops, row.gbytes, row.share, row.location]
        for row in sorted(p.rows, key=lambda row: -row.seconds)
    ]  # fmt: skip
    return Table("Kernels", head, rows, "A row is one fusion; its time is the least of all repeats.")


def _roofs(p: Any) -> Roofs:
    roof = p.roofline
    bands = [(f"{size >> 10:,} KiB", rate) for size, rate in zip(roof.sizes, roof.bandwidth, strict=False)]
    points = [(row.name, float(row.flops), float(row.bytes), row.seconds) for row in p.rows]
    return Roofs([("float32", float(roof.flops["float32"]))], bands[-1:], points)
