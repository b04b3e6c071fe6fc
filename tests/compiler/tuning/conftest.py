"""Every test has a database of its own, and leaves none behind in the process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trilobite.compiler.targets.cpu.tuning import database


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TRILOBITE_CACHE", str(tmp_path / "cache"))
    database.current.cache_clear()
    yield tmp_path / "cache"
    database.current.cache_clear()
