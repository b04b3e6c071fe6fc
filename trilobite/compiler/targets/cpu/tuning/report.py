"""What a search found, as a table for people."""

from __future__ import annotations

import io
from collections.abc import Sequence

from trilobite.compiler.targets.cpu.tuning.tuner import Outcome


def outcomes_table(outcomes: Sequence[Outcome]) -> str:
    """The kernels by the time that they take, and what all gains together are worth."""
    if not outcomes:
        return "no kernel of it has parameters"
    from rich import box
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD)
    for head in ("kernel", "problem", "runs", "trials", "default", "tuned", "gain", "parameters"):
        words = head in ("kernel", "problem", "parameters")
        shown.add_column(head, justify="left" if words else "right", no_wrap=True)
    for o in outcomes:
        found = " ".join(f"{k}={v}" for k, v in o.parameters.items()) if o.kept else "the default stays"
        shown.add_row(
            o.name[:24], o.problem[:40], str(o.count), str(o.trials), _time(o.default_seconds),
            _time(o.seconds) if o.kept else "", f"{o.gain:.2f}" if o.kept else "", found,
        )  # fmt: skip
    screen = io.StringIO()
    Console(width=170, file=screen).print(shown)
    before = sum(o.default_seconds * o.count for o in outcomes)
    after = sum((o.seconds if o.kept else o.default_seconds) * o.count for o in outcomes)
    lines = [line.rstrip() for line in screen.getvalue().rstrip().splitlines()]
    kept = sum(o.kept for o in outcomes)
    lines.append(
        f"{kept} of {len(outcomes)} kernels kept; together {_time(before)} before, {_time(after)} after"
    )
    return "\n".join(lines)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"
