"""docs/bang.md holds the table as it is, and every intrinsic that public sources use is in the table."""

from __future__ import annotations

import re
from pathlib import Path

from trilobite.processor.lang.bang.headers import INCLUDE
from trilobite.processor.lang.bang.manual import MARK, intrinsics_text
from trilobite.processor.lang.bang.rewrite import SPACES
from trilobite.processor.lang.bang.table import FORMS


def test_the_page_holds_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "bang.md").read_text(encoding="utf-8")
    assert page[page.index(MARK) :] == intrinsics_text()


def test_public_names_exist() -> None:
    """Intrinsics and qualifiers that public headers and sources name, as far as their meaning is public."""
    header = "".join(path.read_text(encoding="utf-8") for path in sorted(INCLUDE.glob("*.h")))
    words = set(re.findall(r"\w+", header)) | set(FORMS) | set(SPACES)
    names = (Path(__file__).parent / "public_names.txt").read_text(encoding="utf-8").split()
    assert len(names) > 700
    assert [name for name in names if name not in words] == []
