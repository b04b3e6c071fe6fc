"""A cache directory of the tests' own, and processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's cache is neither read nor written."""
    place = tmp_path_factory.mktemp("cache")
    before = os.environ.get("TRILOBITE_CACHE")
    os.environ["TRILOBITE_CACHE"] = str(place)
    yield place
    if before is None:
        del os.environ["TRILOBITE_CACHE"]
    else:
        os.environ["TRILOBITE_CACHE"] = before


@pytest.fixture
def script(root: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python text in a process of its own, with this package and these kernels to import."""

    def run(text: str, timeout: float = 100, **environment: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "script.py"
        path.write_text("from tests.native.kernels import *\n" + text)
        return subprocess.run(
            [sys.executable, str(path)],
            env={**os.environ, "PYTHONPATH": str(root), **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
