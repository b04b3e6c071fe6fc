"""The processor stands alone: it works where the other lobes cannot be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
ROOMS = ("base", "native", "processor")
SCRIPT = """
import sys
from trilobite.processor import Device
import numpy as np
device = Device("dlp-m")
x = device.array(np.ones(8, np.float32))
run = device.launch(device.load("LI $1, #nram(0)\\nSMOVE $2, #8\\nVLOAD $1, $2, $0, #0\\nSYNC\\n"
                                "VAV $1, $2, $1, $1\\nSYNC\\nVSTORE $1, $2, $0, #0"), [x])
assert x.numpy().tolist() == [2.0] * 8 and run.cycles > 0
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("trilobite.")}
assert rooms <= {"base", "native", "processor"}, rooms
heavy = {"torch", "jax", "typer", "rich", "PIL", "onnx"}
assert not heavy & set(sys.modules)
"""


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A copy of the project in which only the rooms of the processor are there."""
    package = tmp_path / "trilobite"
    package.mkdir()
    (tmp_path / "tests").mkdir()
    (package / "__init__.py").symlink_to(PROJECT / "trilobite" / "__init__.py")
    for room in ROOMS:
        (package / room).symlink_to(PROJECT / "trilobite" / room)
    for name in ("tests/processor", "tests/conftest.py", "docs", "examples", "pyproject.toml"):
        (tmp_path / name).symlink_to(PROJECT / name)
    return tmp_path


def run_there(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ.get(name, "") for name in ("PATH", "HOME")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=place,
        env={"PYTHONPATH": str(place)} | kept,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_launch_without_the_other_lobes(alone: Path) -> None:
    result = run_there(alone, "-c", SCRIPT)
    assert result.returncode == 0, result.stderr


@pytest.mark.long
@pytest.mark.timeout(900)
def test_all_tests_of_the_processor_without_the_other_lobes(alone: Path) -> None:
    result = run_there(alone, "-P", "-m", "pytest", "-q", "tests/processor", "-p", "no:cacheprovider")
    assert result.returncode == 0, result.stdout[-3000:]
    assert " passed" in result.stdout
