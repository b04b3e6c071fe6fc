"""The page of the processor is true: its snippets run one after the other, as a reader would type them."""

from __future__ import annotations

import re
from pathlib import Path

from trilobite.processor.isa.table import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "processor.md"


def test_the_pages_snippets_run(capsys) -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(snippets) >= 5
    names: dict[str, object] = {}
    for snippet in snippets:
        exec(compile(snippet, str(PAGE), "exec"), names)
    assert "total" in capsys.readouterr().out


def test_the_page_counts_the_rows() -> None:
    assert f"{len(TABLE)} rows" in PAGE.read_text()
