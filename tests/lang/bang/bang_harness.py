"""Runs BANG C in tests: a file or a text, on a machine, at a level, against NumPy."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.processor.device import Device, Module
from trilobite.processor.lang.bang.clang import find_clang
from trilobite.processor.lang.bang.source import Options, compile_file
from trilobite.processor.lang.codegen.compile import KernelProgram
from trilobite.processor.machine import load_machine

KERNELS = Path(__file__).parents[3] / "examples" / "kernels" / "bang"
needs_clang = pytest.mark.skipif(
    find_clang() is None, reason="neither the ziglang wheel nor a clang is installed"
)
LEVELS = (0, 2)


@lru_cache(maxsize=256)
def compiled(source: Path, kernel: str, machine: str = "mlu370-x4", level: int = 2) -> KernelProgram:
    return compile_file(source, load_machine(machine), Options(level=level, entry=kernel))


def written(text: str, folder: Path) -> Path:
    """The text as a file whose name does not change, so that clang's output is found again."""
    path = folder / f"k{hashlib.sha256(text.encode()).hexdigest()[:12]}.mlu"
    path.write_text(text, encoding="utf-8")
    return path


def run(
    source: Path,
    kernel: str,
    args: list[Any],
    dim: tuple[int, int, int] = (1, 1, 1),
    task: str = "block",
    machine: str = "mlu370-x4",
    level: int = 2,
    checks: bool = True,
) -> list[Any]:
    """Arrays are copied to the device; what they hold afterwards comes back, in order."""
    device = Device(machine)
    program = compiled(source, kernel, machine, level)
    given = [device.array(a) if isinstance(a, np.ndarray) else a for a in args]
    device.launch(Module(program)[kernel], given, dim, task, checks=checks, traced=False)
    return [g.numpy() for g, a in zip(given, args, strict=True) if isinstance(a, np.ndarray)]
