"""The generated pages are what the tables say now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.reference import pages


@pytest.mark.parametrize("path", sorted(pages()), ids=lambda p: p.name)
def test_page_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == pages()[path], "run: python -m tools.reference"
