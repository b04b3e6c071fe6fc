"""One work in a fresh process: how much its memory grows, or how much longer its first call takes.

Enters: what to measure (`memory` or `first`), a system, a row module and a row's key. Leaves: a number on
standard output. Imports of the system come before everything that is measured.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import random
from time import perf_counter

from benchmarks.row import US, Job, Row, Work, section

IMPORTS = {
    "trilobite": "trilobite.nn",
    "torch": "benchmarks.peers.on_torch",
    "torch channels last": "benchmarks.peers.on_torch",
    "torch.compile": "benchmarks.peers.on_torch",
    "onnxruntime": "benchmarks.peers.on_onnxruntime",
    "jax": "benchmarks.peers.on_jax",
}
CALLS = 3
MODEL_FILE = "TRILOBITE_BENCH_MODEL_FILE"


def resident(field: str) -> int:
    """A field of this process's status in bytes: VmRSS is now, VmHWM is the highest so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(f"the system does not tell {field}")


def settle() -> None:
    """Give back what is free, and begin to look for the highest anew."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def memory(row: Row, system: str) -> float:
    """Bytes by which three calls, and all that they need, raise the resident memory."""
    if system == US:
        load_compiler()
    settle()
    before = resident("VmRSS")
    made = row.systems[system]()
    work = made.work if isinstance(made, Job) else made
    settle()
    for _ in range(CALLS):
        work()
    return float(resident("VmHWM") - before)


def load_compiler() -> None:
    """Ours comes in with the first compilation; the peers' came with their import. The number is drawn anew,
    so that no cache knows the function and all of the compiler is needed.
    """
    import trilobite as tb
    from benchmarks import ours

    drawn = random()
    ours.compiled(lambda x: x + drawn)(tb.zeros((4,)))


def first(row: Row, system: str) -> float:
    """Seconds that the first call takes longer than a later one. ONNX Runtime compiles when it reads a model,
    so reading counts there.
    """
    start = perf_counter()
    made = row.systems[system]()
    work = made.work if isinstance(made, Job) else made
    if system != "onnxruntime":
        start = perf_counter()
    work()
    until = perf_counter() - start
    return until - min(_seconds(work) for _ in range(CALLS - 1))


def _seconds(work: Work) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def from_model_file(what: str, module: str, key: str) -> float:
    """ONNX Runtime: a first process writes the model, the second reads it and is measured."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {MODEL_FILE: str(Path(folder) / "model.onnx")}
        measured(what, "onnxruntime", module, key, environment)
        return measured(what, "onnxruntime", module, key, environment)


def measured(what: str, system: str, module: str, key: str, environment: Mapping[str, str]) -> float:
    """The number, from a fresh process."""
    command = [sys.executable, "-m", "benchmarks.fresh", what, system, module, key]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode != 0:
        raised = [line for line in done.stderr.splitlines() if line[:1].strip()]
        raise RuntimeError(raised[-1] if raised else f"the process ended with code {done.returncode}")
    return float(done.stdout.split()[-1])


def main(what: str, system: str, module: str, key: str) -> None:
    rows = {row.key: row for row in section(module).rows}
    importlib.import_module(IMPORTS[system])
    print({"memory": memory, "first": first}[what](rows[key], system))


if __name__ == "__main__":
    main(*sys.argv[1:])
