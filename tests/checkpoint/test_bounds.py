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


def test_trees_as_deep_as_they_may_be() -> None:
    """Level by level, whatever the levels are of."""
    from trilobite.framework.checkpoint.structure import MAX_DEPTH, _decode

    for wrap in (lambda tree: [tree], lambda tree: {"tuple": [tree]}, lambda tree: {"dict": {"a": tree}}):
        tree: object = 7
        for _ in range(MAX_DEPTH):
            tree = wrap(tree)
        found = _decode(tree, "here", 0)
        depth = 0
        while found != 7:
            found, depth = (found["a"] if isinstance(found, dict) else found[0]), depth + 1
        assert depth == MAX_DEPTH
        with pytest.raises(FileError, match="nested too deeply"):
            _decode(wrap(tree), "here", 0)


def test_the_largest_array_that_a_file_may_describe() -> None:
    from trilobite.framework.checkpoint.arrays import checked_bytes

    largest = (7, 7, 73, 127, 337, 92737, 649657)  # factors of 2**63 - 1
    assert checked_bytes(largest, 1, "here") == 2**63 - 1
    assert checked_bytes((*largest, 0), 1, "here") == 0
    for shape in ((*largest, 2), (2**62, 2), (0, 2**63)):
        with pytest.raises(FileError, match=r"less than 2\*\*63 bytes"):
            checked_bytes(shape, 1, "here")
