"""docs/bang.md holds the table as it is, and every intrinsic that public sources use is in the table."""

from __future__ import annotations

from pathlib import Path

from trilobite.processor.lang.bang.manual import MARK, intrinsics_text


def test_the_page_holds_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "bang.md").read_text(encoding="utf-8")
    assert page[page.index(MARK) :] == intrinsics_text()
