"""The wheel that people install holds the package, all of it, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

KEPT_OUT = {"__pycache__"}


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(directory.glob("*.whl")))


def test_the_wheel_holds_every_file_of_the_package(wheel: zipfile.ZipFile, root: Path) -> None:
    expected = {
        str(path.relative_to(root))
        for path in (root / "trilobite").rglob("*")
        if path.is_file() and not KEPT_OUT.intersection(path.parts)
    }
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == expected
    assert "trilobite/py.typed" in packed


def test_the_wheel_says_who_it_is(wheel: zipfile.ZipFile, root: Path) -> None:
    import trilobite

    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert trilobite.__version__ == project["version"]
    folder = f"trilobite-{project['version']}.dist-info"
    metadata = wheel.read(f"{folder}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: <3.14,>=3.11" in metadata
    assert wheel.read(f"{folder}/entry_points.txt").decode().split() == [
        "[console_scripts]", "trilobite", "=", "trilobite.cli:main",
        "[trilobite.reports]", "run", "=", "trilobite.report:write_run",
    ]  # fmt: skip
    assert f"{folder}/licenses/LICENSE" in wheel.namelist()
