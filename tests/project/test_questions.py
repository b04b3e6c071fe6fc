"""Where is it? The places that CONTRIBUTING names are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from pathlib import Path, PurePath

import grimp
import pytest

from tools.questions import Answer, answers

PACKAGE = Path(__file__).parents[2] / "trilobite"
ROOMS = "base native ir framework compiler processor".split()


def folders() -> list[str]:
    """All folders of those rooms that hold more than one file, from the package's root."""
    found = (file.parent for room in ROOMS for file in (PACKAGE / room).rglob("__init__.py"))
    return sorted(str(f.relative_to(PACKAGE)) for f in found if len(list(f.glob("*.py"))) > 1)


def opening(folder: str) -> str:
    return " ".join(
        (ast.get_docstring(ast.parse((PACKAGE / folder / "__init__.py").read_text())) or "").split()
    )


@pytest.mark.parametrize("folder", folders())
def test_a_folder_says_what_it_is(folder: str) -> None:
    """What enters, what leaves, whom it may import, and a file to read first that is there."""
    text = opening(folder)
    assert "Enters: " in text and "Leaves: " in text and re.search(r"[Mm]ay import ", text)
    first = re.search(r"Read `([\w./]+)` first", text)
    assert first is not None and (PACKAGE / folder / first[1]).exists()


def allowed(folder: str, modules: Collection[str]) -> set[str]:
    """The modules that the sentence "may import ..." names: as they stand below the package, or below a
    folder around this one. "What `f` may" is the sentence of f; "below" are the rooms before this one.
    """
    sentence = re.split(r"[Mm]ay import ", opening(folder), maxsplit=1)[1]
    sentence = re.split(r"\.(?: |$)", sentence)[0]
    around = ["trilobite", *(f"trilobite.{'.'.join(p.parts)}" for p in PurePath(folder).parents if p.parts)]
    named = {f"{place}.{name}" for name in re.findall(r"`([\w.]+)`", sentence) for place in around}
    found = {folder_name(folder), "trilobite.base"} | (named & set(modules))
    if "below" in sentence:
        found |= {"trilobite.base", "trilobite.native", "trilobite.ir"}
        found |= {f"trilobite.{room}" for room in ROOMS[: ROOMS.index(PurePath(folder).parts[0]) + 1]}
        found |= {"trilobite.compiler"} if folder.startswith("framework") else set()
    if (other := re.search(r"what `(\w+)` may", sentence)) is not None:
        at = PurePath(folder)
        beside = [str(p / other[1]) for p in at.parents] + [str(p) for p in at.parents if p.name == other[1]]
        source = next(p for p in beside if (PACKAGE / p / "__init__.py").exists())
        found |= allowed(source, modules) | {folder_name(source)}
    return found


def folder_name(folder: str) -> str:
    return "trilobite." + ".".join(PurePath(folder).parts)


def within(module: str, folder: str) -> bool:
    return f"{module}.".startswith(f"{folder}.")


def test_folders_import_what_they_say() -> None:
    graph = grimp.build_graph("trilobite", exclude_type_checking_imports=True, cache_dir=None)
    wrong = []
    for folder in folders():
        may = allowed(folder, graph.modules)
        inside = [m for m in graph.modules if within(m, folder_name(folder))]
        does = {target for m in inside for target in graph.find_modules_directly_imported_by(m)}
        over = sorted(t for t in does if not any(within(t, name) or within(name, t) for name in may))
        wrong += [f"{folder}: {', '.join(over)}"] if over else []
    assert not wrong, "\n".join(wrong)


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
