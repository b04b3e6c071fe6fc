"""Start-up time.

Each sample is a fresh Python that imports one package and says how long that took; the start of Python
itself is not in it. Ours brings the framework in with the first name that is asked for, so that name is
asked for inside the measured time. Files are in the system's cache. NumPy is the floor, for the package
imports it. The command's time is that of the whole process.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from time import perf_counter

from benchmarks.row import Row, Work

TIMED = "from time import perf_counter as now; start = now(); import {}; {}; print(now() - start)"
FIRST_NAME = {"trilobite": "trilobite.tensor"}


def fresh_import(package: str) -> Work:
    """Seconds that a fresh Python needs to import a package."""
    command = [sys.executable, "-c", TIMED.format(package, FIRST_NAME.get(package, "pass"))]

    def work() -> float:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise ImportError(done.stderr.strip().rpartition("\n")[2])
        return float(done.stdout)

    return work


def fresh_command(*words: str) -> Work:
    """Seconds that a command line takes, from its start to its end."""

    def work() -> float:
        start = perf_counter()
        subprocess.run([sys.executable, "-m", *words], capture_output=True, check=True)
        return perf_counter() - start

    return work


ROWS = (
    Row(
        "import",
        {name: partial(fresh_import, name) for name in ("trilobite", "torch", "jax", "numpy")},
        unit="ms",
        threads=2,
        floor=("numpy",),
        aim=0.15,
        times_itself=True,
        quick=True,
    ),
    Row(
        "trilobite --help",
        {"trilobite": partial(fresh_command, "trilobite", "--help")},
        unit="ms",
        threads=2,
        aim=0.4,
        times_itself=True,
    ),
)
