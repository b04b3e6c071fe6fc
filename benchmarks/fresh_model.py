"""A model file in a fresh process: seconds from the process's start to the first result, or memory.

Enters: what to measure (`first` or `memory`), a system, and a folder with `model.onnx` and `feeds.npz`
(arrays in the order of the model's inputs). Leaves: a number on standard output.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

RUNS = 3


def openvino_request(content: bytes | str, threads: int) -> Any:
    import openvino

    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": str(threads),
        # Else activations before weights of 8 bits are rounded to 8 bits in groups of 32, hint f32 or not.
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    }
    core = openvino.Core()
    return core.compile_model(core.read_model(content), "CPU", options).create_infer_request()


def runner(system: str, path: Path, arrays: list[Any]) -> Callable[[], object]:
    """The model, read by a system, and a call of it."""
    if system == "trilobite":
        import trilobite as tb

        ours = tb.inference.load(path)
        named = dict(zip((i.name for i in ours.inputs), arrays, strict=True))
        return lambda: ours.run(named)
    if system == "onnxruntime":
        from benchmarks.peers.on_onnxruntime import session

        theirs = session(path)
        given = dict(zip((i.name for i in theirs.get_inputs()), arrays, strict=True))
        return lambda: theirs.run(None, given)
    request = openvino_request(str(path), len(os.sched_getaffinity(0)))
    return lambda: request.infer(dict(enumerate(arrays)))


def main(what: str, system: str, folder: str) -> None:
    import numpy as np

    stored = np.load(Path(folder) / "feeds.npz")
    arrays = [stored[f"i{i}"] for i in range(len(stored.files))]
    if what == "first":
        runner(system, Path(folder) / "model.onnx", arrays)()
        print("done", flush=True)
        return
    from benchmarks import fresh

    imports = {"trilobite": "trilobite.nn", "onnxruntime": "onnxruntime", "openvino": "openvino"}
    __import__(imports[system])
    if system == "trilobite":
        fresh.load_compiler()
    fresh.settle()
    before = fresh.resident("VmRSS")
    run = runner(system, Path(folder) / "model.onnx", arrays)
    for _ in range(RUNS):
        run()
    print(float(fresh.resident("VmHWM") - before))


def measured(what: str, system: str, folder: Path, cache: Path) -> float:
    """The number; of `first` the seconds until the process says that the first result is there."""
    command = [sys.executable, "-m", "benchmarks.fresh_model", what, system, str(folder)]
    environment = {**os.environ, "TRILOBITE_CACHE": str(cache)}
    start = perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        seconds = perf_counter() - start
        told = process.stderr.read()
    if not line:
        raised = [text for text in told.splitlines() if text[:1].strip()]
        raise RuntimeError(raised[-1] if raised else f"the process ended with code {process.returncode}")
    return seconds if what == "first" else float(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
