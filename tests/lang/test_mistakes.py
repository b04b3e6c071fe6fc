"""Seeded mistakes in asynchronous kernels: the checkers name the lines, and accuse no correct kernel."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import ProcessorFault, TrilobiteError
from trilobite.processor import Device
from trilobite.processor.tools.checks import findings_of

SOURCE = Path(__file__).parent / "mistakes.py"
LINES = SOURCE.read_text(encoding="utf-8").splitlines()
UNIONS = ("through_sram", "neighbours", "ring", "whole_grid", "statistics_of_all", "handed_over")
SEVERAL = ("own_rows", "one_counter", "rows_apart")


def seeds() -> list[tuple[str, int, str]]:
    """Kernel, line number, and what stands there instead."""
    found, name = [], ""
    for number, line in enumerate(LINES, 1):
        if line.startswith("def "):
            name = line[4:].split("(")[0]
        indent = line[: len(line) - len(line.lstrip())]
        if line.endswith("# needed"):
            found.append((name, number, indent + "pass"))
        elif "# -> " in line:
            found.append((name, number, indent + line.split("# -> ")[1]))
    return found


def kernels() -> list[str]:
    return [line[4:].split("(")[0] for line in LINES if line.startswith("def ")]


def load(text: str, path: Path) -> ModuleType:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def findings(module: ModuleType, name: str) -> list[Any]:
    dev = Device("dlp-m")
    kernel = getattr(module, name)
    args = [dev.array(np.linspace(-3, 3, 320, dtype=np.float32)), dev.array(np.zeros(320, np.float32)), 64]
    if name == "double_buffer":
        args[2] = 256
    task = "union1" if name in UNIONS else "block"
    dim = (4, 1, 1) if name in (*UNIONS, *SEVERAL) else (1, 1, 1)
    return list(findings_of(dev, dev.load(kernel)[name], args, dim=dim, task=task))


@pytest.mark.parametrize("name", kernels())
def test_a_correct_kernel_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert findings(load("\n".join(LINES), tmp_path / "right.py"), name) == []


@pytest.mark.parametrize("name, number, instead", seeds(), ids=lambda value: str(value).strip()[:24])
def test_a_seeded_mistake_is_found(name: str, number: int, instead: str, tmp_path: Path) -> None:
    text = [*LINES[: number - 1], instead, *LINES[number:]]
    module = load("\n".join(text), tmp_path / "wrong.py")
    try:
        found = findings(module, name)
    except ProcessorFault as fault:
        assert "wrong.py:" in str(fault)
        return
    assert found, f"{name}: line {number} was not missed"
    assert "wrong.py:" in str(found[0])
    if "without order" in str(found[0]):
        assert str(found[0]).count("wrong.py:") == 2


def test_there_are_enough_of_them() -> None:
    assert len(kernels()) >= 30 and len(seeds()) >= 36 and issubclass(ProcessorFault, TrilobiteError)
