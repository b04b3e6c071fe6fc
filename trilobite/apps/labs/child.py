"""The process in which a student's file runs: `python -m ...labs.child LAB FILE SEED CASES SECONDS FD`.

Its processor time is limited before anything of the student's is read. It writes JSON, one
object a line, to the given file descriptor: what it is about to do, then the verdicts.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
from dataclasses import asdict
from pathlib import Path

from trilobite.apps.labs.catalogue import load
from trilobite.apps.labs.grading import grade, read
from trilobite.apps.labs.task import Sizes
from trilobite.base.errors import TrilobiteError


def limit(seconds: float) -> None:
    """Processor time of this process; the parent watches the clock and how much memory is used."""
    most = math.ceil(seconds) * (os.cpu_count() or 1) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(name: str, file: str, seed: int, cases: int, seconds: float, descriptor: int) -> None:
    lab = load(name)
    limit(seconds)
    sys.path.insert(0, str(Path(file).parent))  # files beside the student's own can be imported
    with os.fdopen(descriptor, "w", encoding="utf-8") as report:

        def write(line: dict[str, object]) -> None:
            report.write(json.dumps(line) + "\n")
            report.flush()

        def tell(part: str, sizes: Sizes, found: tuple[str, ...]) -> None:
            write({"doing": part, "sizes": sizes, "found": found})

        try:
            tell("reading the file", {}, ())
            student = read(Path(file))
            verdicts = grade(lab, student, seed, cases or None, tell)
        except TrilobiteError as error:
            write({"error": str(error)})
            return
        write({"verdicts": [asdict(verdict) for verdict in verdicts]})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6]))
