"""A launch as a timeline for Perfetto, and its tables as JSON and CSV.

Enters: a `Run`. Leaves: text. Chrome's JSON trace format, one process per core, one track per queue, one
microsecond of the viewer per cycle; Perfetto's own form is in `tools/perfetto.py`. The tables: stalls per
queue (`stalls_csv`) and per source line (`lines_csv`), the critical path, the roofline points.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.row import QUEUES
from trilobite.processor.sim.run import Run
from trilobite.processor.sim.timing.stalls import CAUSES
from trilobite.processor.tools.critical import bound_of, critical_path
from trilobite.processor.tools.line_stalls import line_stalls
from trilobite.processor.tools.roofs import roofline_points


def chrome_trace(run: Run) -> str:
    """The timeline as JSON that ui.perfetto.dev and chrome://tracing open."""
    events: list[dict[str, Any]] = []
    for core in run.timeline.cores:
        name = "memory core" if core.trace.core == 0x80 else f"core {core.trace.core}"
        process = {"ph": "M", "pid": core.number, "name": "process_name"}
        events.append({**process, "args": {"name": f"cluster {core.trace.cluster} {name}"}})
        for track, queue in enumerate(QUEUES):
            events.append(
                {"ph": "M", "pid": core.number, "tid": track, "name": "thread_name", "args": {"name": queue}}
            )
        for start, end, what in core.segments:
            piece = {"ph": "X", "pid": core.number, "tid": 0, "ts": start, "dur": end - start}
            events.append({**piece, "name": what})
        for op in core.operations:
            text = instruction_text(run.program.instructions[op.record.place])
            details = {
                "line": run.program.where(op.record.place),
                "bound by": bound_of(op),
                "result at": op.finish,
            }
            events.append(
                {
                    "ph": "X",
                    "pid": core.number,
                    "tid": QUEUES.index(op.record.queue),
                    "ts": op.start,
                    "dur": op.free - op.start,
                    "name": text,
                    "args": details,
                }
            )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()


def stalls_csv(run: Run) -> str:
    """The stall table, one line per core and queue."""
    rows = ([row.cluster, row.core, row.queue, *row.cycles.values(), row.total] for row in run.stalls)
    return _csv(["cluster", "core", "queue", *CAUSES, "total"], rows)


def lines_csv(run: Run) -> str:
    """The stall table by source line; the sums are those of `stalls_csv`."""
    rows = ([row.line, row.executions, *row.cycles.values(), row.total] for row in line_stalls(run))
    return _csv(["line", "executions", *CAUSES, "total"], rows)


def critical_csv(run: Run) -> str:
    """The critical path, one line per stretch; the cycles sum to the launch's."""
    head = ["start", "end", "cycles", "cluster", "core", "queue", "bound by", "what", "line"]
    rows = ([one.start, one.end, one.cycles, one.cluster, one.core, one.queue, one.bound, one.what, one.line]
            for one in critical_path(run))  # fmt: skip
    return _csv(head, rows)


def roofline_csv(run: Run) -> str:
    """The roofline points, the launch first."""
    head = ["point", "memory", "operations", "bytes", "seconds", "intensity", "reached", "roof"]
    rows = ([p.name, p.memory, p.operations, p.bytes, p.seconds, p.intensity, p.reached, p.roof]
            for p in roofline_points(run))  # fmt: skip
    return _csv(head, rows)


def summary_json(run: Run) -> str:
    """Figures of the launch for other programs."""
    roof = run.roofline
    points = [
        {"point": p.name, "memory": p.memory, "operations": p.operations, "bytes": p.bytes,
         "seconds": p.seconds, "reached": p.reached, "roof": p.roof if math.isfinite(p.roof) else None}
        for p in roofline_points(run)
    ]  # fmt: skip
    return json.dumps(
        {
            "machine": run.machine.name,
            "cycles": run.cycles,
            "seconds": run.seconds,
            "instructions": run.instructions,
            "joules": run.energy.joules,
            "bytes": run.bytes,
            "stalls": run.stalls_by_cause(),
            "roofline": {"macs": roof.macs, "dram_bytes": roof.dram_bytes, "cycles": roof.cycles},
            "points": points,
            "critical": _by_bound(run),
            "lines": [
                {"line": line, "executions": count, "busy": busy, "waiting": waiting}
                for line, count, busy, waiting in run.lines()
            ],
        },
        indent=1,
    )


def _by_bound(run: Run) -> dict[str, int]:
    """Cycles of the critical path by what bound them."""
    cycles: dict[str, int] = {}
    for stretch in critical_path(run):
        cycles[stretch.bound] = cycles.get(stretch.bound, 0) + stretch.cycles
    return cycles


def write_profile(run: Run, directory: str | Path) -> list[Path]:
    """Every form of the profile as a file of its own."""
    from trilobite.processor.tools.perfetto import perfetto_trace

    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, str | bytes] = {
        "trace.pftrace": perfetto_trace(run),
        "trace.json": chrome_trace(run),
        "stalls.csv": stalls_csv(run),
        "lines.csv": lines_csv(run),
        "critical.csv": critical_csv(run),
        "roofline.csv": roofline_csv(run),
        "summary.json": summary_json(run),
    }
    for name, content in made.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return [folder / name for name in made]
