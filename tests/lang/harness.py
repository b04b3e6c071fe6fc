"""One differential harness for kernels: interpreters and both levels on a machine must give the same bits."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from trilobite.processor import Device
from trilobite.processor.lang.interpreter import interpret
from trilobite.processor.lang.parse import read
from trilobite.processor.lang.text import write
from trilobite.processor.lang.verify import verify

EXAMPLES = Path(__file__).parents[2] / "examples" / "kernels"
MACHINES = ("dlp-s", "dlp-m", "mlu370-x4")


def run(
    kernel: Any,
    args: Sequence[Any],
    machine: str = "dlp-m",
    dim: tuple[int, int, int] = (4, 1, 1),
    task: str = "block",
    ways: Sequence[str] = (),
) -> list[np.ndarray]:
    """Arrays behind the launch, after every way of running it has given the same bits.

    On dlp-m the IR is interpreted as well, and level 2 is checked for races and memory errors.
    """
    ways = ways or (("host", "ir", "O0", "O2") if machine == "dlp-m" else ("host", "O0", "O2"))
    results = {way: _once(kernel, args, machine, dim, task, way) for way in ways}
    first = results[ways[0]]
    for way, arrays in results.items():
        for number, (a, b) in enumerate(zip(first, arrays, strict=True)):
            same = a.view(np.uint8) == b.view(np.uint8)
            assert same.all(), f"{kernel.name} on {machine}: {way} differs from {ways[0]} in array {number}"
    return first


def _once(
    kernel: Any, args: Sequence[Any], machine: str, dim: tuple[int, int, int], task: str, way: str
) -> list[np.ndarray]:
    dev = Device(machine)
    given = [dev.array(a) if isinstance(a, np.ndarray) else a for a in args]
    if way == "host":
        kernel.interpret(dev, given, dim=dim, task=task)
    elif way == "ir":
        module = kernel.module(dev.machine)
        verify(module)
        assert write(read(write(module))) == write(module)
        interpret(module, kernel.name, dev.machine, dev.memory, kernel.words(given), dim, task)
    else:
        # level 0 keeps variables in the frame, and following all of them takes the checkers seconds
        checks = way == "O2" and machine == "dlp-m"
        dev.launch(kernel.at_level(int(way[1])), given, dim=dim, task=task, checks=checks)
    return [a.numpy() for a in given if hasattr(a, "numpy")]


def example(name: str) -> ModuleType:
    """A module of examples/kernels."""
    full = f"examples_kernels_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, EXAMPLES / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]
