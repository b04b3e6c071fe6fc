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


def test_a_sample_of_damaged_files(root: Path) -> None:
    """Of all formats in one process."""
    lines = run(root, ",".join(FORMATS), 150, 1)
    for name in FORMATS:
        check([line for line in lines if line.startswith(f"{name} ")], 150)


@pytest.mark.long
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("format_", list(FORMATS))
def test_two_thousand_damaged_files(format_: str, root: Path) -> None:
    check(run(root, format_, 2000, 1000), 2000)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("format_", list(FORMATS))
def test_files_that_a_fuzzer_grows(format_: str, root: Path) -> None:
    """Guided by coverage, for a minute."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("fuzz.py")), format_, "60", "1"],
        env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=280, cwd=root,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    last = done.stdout.splitlines()[-1]
    assert last.endswith(" 0 faults"), done.stdout[-3000:]
    assert int(last.split(":")[1].split()[0]) > 100, last
