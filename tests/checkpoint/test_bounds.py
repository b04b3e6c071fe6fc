"""A manifest may be as large as its bound, and no larger."""

from __future__ import annotations

import pytest

from trilobite.base.errors import ArgumentError
from trilobite.framework.checkpoint import manifest


def test_a_manifest_may_be_as_large_as_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(size: int) -> bytes:
        return manifest.render(manifest.Manifest(files={}, metadata={}, tree={"text": "x" * size}))

    whole = len(made(100))
    monkeypatch.setattr(manifest, "MAX_BYTES", whole)
    assert len(made(100)) == whole
    with pytest.raises(ArgumentError, match="keep large data in arrays"):
        made(101)
