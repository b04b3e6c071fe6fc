"""What the labs with kernels share: a student's BANG C source on a machine, watched by the checkers."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from trilobite.apps.labs.catalogue import material
from trilobite.apps.labs.task import Array
from trilobite.base.errors import TrilobiteError
from trilobite.processor import Device, Run
from trilobite.processor.lang.bang.kernel import BangKernel

MACHINES = ("dlp-s", "dlp-m", "mlu370-x4")
_KERNELS: dict[tuple[str, str], BangKernel | TrilobiteError] = {}


def kernel_of(student: ModuleType, entry: str) -> BangKernel:
    """An entry of the module's SOURCE, which is text of BANG C."""
    source = getattr(student, "SOURCE", None)
    if not isinstance(source, str):
        raise TypeError("SOURCE is not there: the text of a BANG C file was expected")
    if not re.search(rf"\b{entry}\b", re.sub(r"//.*|/\*.*?\*/", "", source)):
        raise NotImplementedError(entry)
    return _compiled(source, entry)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where sources are written for clang; it is removed when this process ends."""
    return tempfile.TemporaryDirectory(prefix="trilobite-lab-")


def _compiled(source: str, entry: str) -> BangKernel:
    """A kernel, compiled once; a source with mistakes is refused with the same error each time."""
    known = _KERNELS.get((source, entry))
    if known is None:
        path = Path(_folder().name) / f"{len(_KERNELS)}" / "solution.mlu"
        path.parent.mkdir()
        path.write_text(source, encoding="utf-8")
        known = BangKernel(path, entry)
        try:
            known.program(Device("dlp-s").machine)
        except TrilobiteError as error:
            known = error
        _KERNELS[source, entry] = known
    if isinstance(known, TrilobiteError):
        raise known
    return known


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
