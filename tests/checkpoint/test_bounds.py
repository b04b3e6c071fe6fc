"""A manifest may be as large as its bound, and no larger."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, FileError
from trilobite.framework import checkpoint
from trilobite.framework.checkpoint import directory, manifest


def test_a_manifest_may_be_as_large_as_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(size: int) -> bytes:
        return manifest.render(manifest.Manifest(files={}, metadata={}, tree={"text": "x" * size}))

    whole = len(made(100))
    monkeypatch.setattr(manifest, "MAX_BYTES", whole)
    assert len(made(100)) == whole
    with pytest.raises(ArgumentError, match="keep large data in arrays"):
        made(101)


def test_a_manifest_is_read_up_to_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path / "c", {"w": np.arange(3.0), "text": "x" * 50})
    size = (tmp_path / "c" / manifest.NAME).stat().st_size
    monkeypatch.setattr(directory, "MAX_BYTES", size)
    assert checkpoint.load(tmp_path / "c")["text"] == "x" * 50
    checkpoint.verify(tmp_path / "c")
    monkeypatch.setattr(directory, "MAX_BYTES", size - 1)
    for read in (checkpoint.load, checkpoint.verify):
        with pytest.raises(FileError, match=rf"the manifest has {size} bytes") as error:
            read(tmp_path / "c")
        assert f"expected: at most {size - 1}" in str(error.value)
