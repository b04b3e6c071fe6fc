"""What runs on a simulated processor took, in numbers and in words.

Enters: the launches of one run (`session.last_runs`). Leaves: their sum, or nothing where nothing
was simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def figures(runs: Sequence[Any]) -> dict[str, Any]:
    """Cycles, seconds on the machine and joules of all launches."""
    if not runs:
        return {}
    return {
        "cycles": sum(int(run.cycles) for run in runs),
        "simulated_seconds": sum(float(run.seconds) for run in runs),
        "joules": sum(float(run.energy.total) for run in runs),
    }


def in_words(found: Mapping[str, Any]) -> str:
    """As "simulated: 1,234 cycles, 0.001 ms, 0.05 mJ"."""
    if not found:
        return ""
    seconds, joules = found["simulated_seconds"], found["joules"]
    return f"simulated: {found['cycles']:,} cycles, {seconds * 1e3:.3f} ms, {joules * 1e3:.4g} mJ"
