"""Thousands of damaged files: each opens or is refused with a clear error; none crashes or hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.inference.hostile.seeds import FORMATS

pytest.importorskip("onnx")


def run(root: Path, format_: str, count: int, seed: int) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).with_name("child.py")), format_, str(count), str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1500, cwd=root)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (
        f"killed by {lines[-1] if lines else 'the first file'}\n{done.stderr[-3000:]}"
    )
    return lines


def check(lines: list[str], count: int) -> None:
    faults = [line for line in lines if "FAULT" in line]
    assert not faults, f"{len(faults)} of {len(lines)}:\n" + "\n".join(faults[:20])
    assert len(lines) >= count
    assert sum(": refused" in line for line in lines) >= count // 4, "the damage does not reach the readers"


@pytest.mark.parametrize("format_", list(FORMATS))
def test_a_sample_of_damaged_files(format_: str, root: Path) -> None:
    check(run(root, format_, 120, 1), 120)


@pytest.mark.long
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("format_", list(FORMATS))
def test_two_thousand_damaged_files(format_: str, root: Path) -> None:
    check(run(root, format_, 2000, 1000), 2000)
