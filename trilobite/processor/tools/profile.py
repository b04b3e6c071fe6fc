"""A launch as a timeline for Perfetto, and its tables as JSON and CSV.

Enters: a `Run`. Leaves: text. Chrome's JSON trace format, one process per core, one track per queue, one
microsecond of the viewer per cycle.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.row import QUEUES
from trilobite.processor.sim.run import Run


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
                "bound by": op.bound,
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


def stalls_csv(run: Run) -> str:
    """The stall table, one line per core and queue."""
    out = io.StringIO()
    causes = list(run.stalls[0].cycles) if run.stalls else []
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["cluster", "core", "queue", *causes, "total"])
    for row in run.stalls:
        writer.writerow([row.cluster, row.core, row.queue, *row.cycles.values(), row.total])
    return out.getvalue()


def summary_json(run: Run) -> str:
    """Figures of the launch for other programs."""
    roof = run.roofline
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
            "lines": [
                {"line": line, "executions": count, "busy": busy, "waiting": waiting}
                for line, count, busy, waiting in run.lines()
            ],
        },
        indent=1,
    )
