"""What the labs with kernels share: a student's BANG C source on a machine, watched by the checkers."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from trilobite.apps.labs.catalogue import material
from trilobite.apps.labs.task import Array
from trilobite.processor import Device, Run
from trilobite.processor.lang.bang.kernel import BangKernel

MACHINES = ("dlp-s", "dlp-m", "mlu370-x4")
_KERNELS: dict[tuple[str, str], BangKernel] = {}


def kernel_of(student: ModuleType, entry: str) -> BangKernel:
    """An entry of the module's SOURCE, which is text of BANG C."""
    source = getattr(student, "SOURCE", None)
    if not isinstance(source, str):
        raise TypeError("SOURCE is not there: the text of a BANG C file was expected")
    if not re.search(rf"\b{entry}\b", re.sub(r"//.*|/\*.*?\*/", "", source)):
        raise NotImplementedError(entry)
    if (source, entry) not in _KERNELS:
        folder = Path(tempfile.mkdtemp(prefix="trilobite-lab-"))
        try:
            (folder / "solution.mlu").write_text(source, encoding="utf-8")
            kernel = BangKernel(folder / "solution.mlu", entry)
            kernel.program(Device("dlp-s").machine)  # a source with mistakes is refused here
            _KERNELS[source, entry] = kernel
        except Exception:
            _remove(folder)
            raise
    return _KERNELS[source, entry]


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def reference(lab: str) -> ModuleType:
    """The lab's own solution as a module: what cycles are compared with."""
    module = ModuleType("reference")
    exec(compile(material(lab, "solution"), "solution.py", "exec"), module.__dict__)
    return module


def launched(
    machine: str, kernel: Any, args: Sequence[Any], tasks: int = 1, checks: bool = True, task: str = "block"
) -> tuple[Run, list[Array]]:
    """A launch on arrays and numbers, and the arrays behind it."""
    dev = Device(machine)
    given = [dev.array(a) if isinstance(a, np.ndarray) else a for a in args]
    run = dev.launch(kernel, given, (tasks, 1, 1), task, checks=checks, traced=not checks)
    return run, [
        np.asarray(a.numpy()) for a, old in zip(given, args, strict=True) if isinstance(old, np.ndarray)
    ]
