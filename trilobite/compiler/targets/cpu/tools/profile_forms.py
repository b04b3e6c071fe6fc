"""A profile as a table for the terminal, as a timeline for Perfetto, and as JSON for other programs.

Enters: a `Profile`. Leaves: text. The timeline is Chrome's JSON trace format, which ui.perfetto.dev opens:
one track of kernels, of the quickest call. `write_profile` puts all three into a directory.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trilobite.base.errors import DataError
from trilobite.compiler.targets.cpu.tools.profiling import Profile, Row

_LONGEST = 36  # letters of a name
_WIDTH = 150


def table(p: Profile, limit: int = 40) -> str:
    """The rows that took longest, and the sums."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, title=f"{p.name}: {_time(p.call)} a call, least of {p.repeats}")
    for head in ("kernel", "kind", "runs", "time", "of all", "GFLOP/s", "GB/s", "of roofline", "line"):
        shown.add_column(
            head, justify="left" if head in ("kernel", "kind", "line") else "right", no_wrap=True
        )
    ordered = sorted(p.rows, key=lambda r: -r.seconds)
    for r in ordered[:limit]:
        shown.add_row(*_cells(r, p))
    if len(ordered) > limit:
        rest = sum(r.seconds for r in ordered[limit:])
        shown.add_row(f"{len(ordered) - limit} more", "", "", _time(rest), f"{rest / p.kernels:.1%}")
    screen = io.StringIO()
    Console(width=_WIDTH, file=screen).print(shown)
    return "\n".join(line.rstrip() for line in [*screen.getvalue().rstrip().splitlines(), *_foot(p)])


def _cells(r: Row, p: Profile) -> list[str]:
    name = r.name if len(r.name) <= _LONGEST else r.name[: _LONGEST - 1] + "…"
    return [
        name, r.kind, str(r.runs), _time(r.seconds), f"{r.seconds / p.kernels:.1%}" if p.kernels else "",
        f"{r.gflops:.1f}", f"{r.gbytes:.1f}", f"{r.share:.0%}", r.location.rsplit("/", 1)[-1],
    ]  # fmt: skip


def _foot(p: Profile) -> list[str]:
    roof = p.roofline
    floor = sum(r.floor for r in p.rows)
    lines = [
        f"kernels {_time(p.kernels)}, of the roofline {floor / p.kernels if p.kernels else 0.0:.0%}; "
        f"outside kernels {_time(p.elsewhere)}",
        f"roofline on {roof.threads} thread(s): {roof.flops['float32'] / 1e9:.1f} GFLOP/s in float32, "
        f"{roof.bandwidth[0] / 1e9:.0f} GB/s within {roof.sizes[0] >> 10} KiB, "
        f"{roof.bandwidth[-1] / 1e9:.1f} GB/s at {roof.sizes[-1] >> 20} MiB",
    ]
    if p.host:
        lines.append(f"in NumPy between kernels: {', '.join(p.host)}")
    return lines


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


def chrome_trace(p: Profile) -> str:
    """The quickest call as JSON that ui.perfetto.dev and chrome://tracing open."""
    first = min((e.begin for e in p.events), default=0)
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": p.name}},
        {"ph": "M", "pid": 0, "tid": 0, "name": "thread_name", "args": {"name": "kernels"}},
    ]
    for e in p.events:
        r = p.rows[e.row]
        details = {"kind": r.kind, "line": r.location, "GFLOP/s": r.gflops, "GB/s": r.gbytes,
                   "of roofline": r.share}  # fmt: skip
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": 0,
                "name": e.kernel,
                "ts": (e.begin - first) / 1e3,
                "dur": (e.end - e.begin) / 1e3,
                "args": details,
            }
        )
    # What the clock showed at 0: timelines of several processes are laid beside each other by it.
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "clock_ns": first})


def as_json(p: Profile) -> str:
    """All figures; seconds, bytes and operations as they are."""
    rows = [
        {**asdict(r), "gflops": r.gflops, "gbytes": r.gbytes, "share_of_roofline": r.share} for r in p.rows
    ]
    return json.dumps(
        {
            "name": p.name,
            "repeats": p.repeats,
            "call_seconds": p.call,
            "kernel_seconds": p.kernels,
            "outside_kernels_seconds": p.elsewhere,
            "rows": rows,
            "host": p.host,
            "roofline": asdict(p.roofline),
        },
        indent=1,
    )


def write_profile(p: Profile, directory: str | Path) -> Sequence[Path]:
    """Every form as a file of its own."""
    folder = Path(directory)
    made = {
        "kernels.txt": table(p, limit=len(p.rows)) + "\n",
        "trace.json": chrome_trace(p),
        "kernels.json": as_json(p),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"the profile cannot be written: {error}",
            where=folder,
            expected="a directory to write to",
        ) from error
    return [folder / name for name in made]
