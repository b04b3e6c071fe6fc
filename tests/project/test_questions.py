"""Where is it? The places that CONTRIBUTING names are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tools.questions import Answer, answers

PACKAGE = Path(__file__).parents[2] / "trilobite"
FOLDERS = (
    "base native ir ir/transforms framework framework/ops compiler compiler/graph compiler/program "
    "compiler/targets compiler/targets/cpu compiler/targets/cpu/emit compiler/targets/cpu/loops "
    "compiler/tools processor processor/isa processor/machine processor/sim processor/sim/timing "
    "processor/tools processor/lang/codegen"
).split()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_says_what_it_is(folder: str) -> None:
    """What enters, what leaves, whom it may import, and a file to read first that is there."""
    place = PACKAGE / folder
    text = " ".join((ast.get_docstring(ast.parse((place / "__init__.py").read_text())) or "").split())
    assert "Enters: " in text and "Leaves: " in text and re.search(r"[Mm]ay import ", text)
    first = re.search(r"Read `([\w./]+)` first", text)
    assert first is not None and (place / first[1]).exists()


def test_there_are_twenty_questions_and_every_place_exists() -> None:
    found = answers()
    assert len(found) >= 20
    assert len({a.question for a in found}) == len(found)
    gone = [f"{a.file.name}: {a.name}" for a in found if a.line == 0]
    assert not gone, f"CONTRIBUTING sends readers to {gone}"


def test_a_place_that_is_gone_is_seen() -> None:
    place = answers()[0]
    assert Answer("?", place.file, "nobody").line == 0
    assert Answer("?", place.file.with_name("nowhere.py"), place.name).line == 0
