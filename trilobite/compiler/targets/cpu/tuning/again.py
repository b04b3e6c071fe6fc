"""Measuring in a process of its own: graphs of one fusion as text and parameters go in, seconds come back.

Why: about one process in thirty has a kernel that is slow from its start to its end, because of where its
code and data happen to lie. Two processes that agree are no accident. `main` is what the other one runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from trilobite.base.errors import StateError
from trilobite.compiler.targets.cpu.tuning.measure import Subject, timed
from trilobite.ir.graph import Graph
from trilobite.ir.text import parse, show

ROUNDS = 6


def measured_again(jobs: Sequence[tuple[Graph, dict[str, int]]]) -> list[tuple[float, float]]:
    """Per job the default's seconds and those of its parameters."""
    if not jobs:
        return []
    asked = json.dumps([{"graph": show(g), "parameters": p} for g, p in jobs])
    command = [sys.executable, "-m", "trilobite.compiler.targets.cpu.tuning.again"]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StateError("measuring in another process failed", where=done.stderr.strip()[-500:])
    return [(float(a), float(b)) for a, b in json.loads(done.stdout)]


def main() -> None:
    """Reads jobs from the standard input, writes pairs of seconds to the standard output."""
    print(json.dumps([_pair(job) for job in json.load(sys.stdin)]))


def _pair(job: dict[str, Any]) -> tuple[float, float]:
    """Both in turn, so that what else the machine does meets both."""
    (equation,) = parse(job["graph"]).equations
    subject = Subject(equation)
    runners = [subject.runner(None), subject.runner({str(k): int(v) for k, v in job["parameters"].items()})]
    rounds = [[timed(r, subject.values) for r in runners] for _ in range(ROUNDS)]
    default, tuned = (min(times) for times in zip(*rounds, strict=True))
    return default, tuned


if __name__ == "__main__":
    main()
