"""A launch as one self-contained HTML page: figures, timeline, stalls, source lines, energy.

Enters: a `Run`. Leaves: HTML text with inline SVG; no scripts, nothing from elsewhere. Of a long timeline the
longest slices are drawn, and the page says how many are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.row import QUEUES
from trilobite.processor.sim.run import Run

MAX_SLICES = 4000
WIDTH, LANE = 1100, 14
COLOURS = {"io": "#4e79a7", "move": "#76b7b2", "matrix": "#e15759", "vector": "#59a14f", "control": "#bab0ac"}
STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:1200px}table{border-collapse:collapse;margin:1em 0}"
    "td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child"
    "{text-align:left}svg text{font:10px sans-serif}"
)


def html_page(run: Run) -> str:
    parts = [
        f"<h1>{escape(run.machine.name)}: {run.cycles} cycles</h1>",
        _figures(run),
        "<h2>Timeline</h2>",
        _timeline(run),
        "<h2>Where the cycles went</h2>",
        _stalls(run),
        "<h2>Source lines</h2>",
        _table(
            ["line", "executions", "busy cycles", "waiting cycles"],
            [list(map(str, row)) for row in run.lines()],
        ),
        "<h2>Energy</h2>",
        _table(["unit", "microjoules"], [[unit, f"{j * 1e6:.4g}"] for unit, j in run.energy.joules.items()]),
    ]
    head = f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(run.machine.name)}</title>'
    return f"{head}<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line("th", head) + "".join(line("td", row) for row in rows) + "</table>"


def _figures(run: Run) -> str:
    roof = run.roofline
    bound = "compute" if roof.compute_cycles >= roof.memory_cycles else "memory"
    rows = [
        ["time", f"{run.seconds * 1e6:.3f} us"],
        ["energy", f"{run.energy.total * 1e6:.4g} uJ"],
        ["instructions", str(run.instructions)],
        ["multiply-accumulates", str(roof.macs)],
        ["DRAM bytes", str(roof.dram_bytes)],
        ["roofline", f"{roof.cycles:.0f} cycles ({bound})"],
        ["of the roofline reached", f"{100 * roof.cycles / run.cycles:.1f}%" if run.cycles else "-"],
    ]
    return _table(["figure", "value"], rows)


def _stalls(run: Run) -> str:
    causes = [cause for cause, cycles in run.stalls_by_cause().items() if cycles]
    rows = [
        [f"{row.cluster}.{'m' if row.core == 0x80 else row.core} {row.queue}",
         *(str(row.cycles[cause]) for cause in causes), str(row.total)]
        for row in run.stalls
    ]  # fmt: skip
    return _table(["core and queue", *causes, "total"], rows)


def _timeline(run: Run) -> str:
    lanes: dict[tuple[int, str], int] = {}
    slices = []
    for core in run.timeline.cores:
        for op in core.operations:
            text = instruction_text(run.program.instructions[op.record.place])
            label = f"{text} ({run.program.where(op.record.place)}), bound by {op.bound}"
            slices.append((op.free - op.start, op.start, core.number, op.record.queue, label))
        for start, end, what in core.segments:
            slices.append((end - start, start, core.number, "control", what))
    drawn = sorted(slices, key=lambda item: -item[0])[:MAX_SLICES]
    for number, queue in sorted(
        {(item[2], item[3]) for item in drawn}, key=lambda k: (k[0], QUEUES.index(k[1]))
    ):
        lanes[number, queue] = len(lanes)
    scale = (WIDTH - 120) / max(run.cycles, 1)
    shapes = [_lane_name(run, number, queue, row) for (number, queue), row in lanes.items()]
    for length, start, number, queue, label in drawn:
        y = lanes[number, queue] * LANE
        width = max(length * scale, 0.3)
        shapes.append(
            f'<rect x="{120 + start * scale:.2f}" y="{y + 1}" width="{width:.2f}" height="{LANE - 2}" '
            f'fill="{COLOURS[queue]}"><title>{escape(label)}: {start} to {start + length}</title></rect>'
        )
    left = len(slices) - len(drawn)
    note = f"<p>{left} shorter slices are not drawn.</p>" if left else ""
    size = f'width="{WIDTH}" height="{max(len(lanes), 1) * LANE}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(shapes)}</svg>{note}'


def _lane_name(run: Run, number: int, queue: str, row: int) -> str:
    trace = run.timeline.cores[number].trace
    name = f"{trace.cluster}.{'m' if trace.core == 0x80 else trace.core} {queue}"
    return f'<text x="0" y="{row * LANE + 11}">{escape(name)}</text>'
