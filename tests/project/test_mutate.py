"""The mutation campaign: which changes it makes, that they parse, and how it counts."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = '''"""a < b"""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    x: int = 1 + 2
def f(a: int, b: "int | None" = None) -> "int | None":
    if a < 3:
        return None
    if not b:
        raise ValueError(f"{a + 1} is below {a < b}")
    return max(a + b, 2) if a == b and a else "é" + str(b)
'''


@pytest.fixture(scope="module")
def mutate(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate", root / "tools" / "mutate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module
    spec.loader.exec_module(module)
    return module


def changed(mutant: object, text: str) -> str:
    raw = text.encode()
    return (raw[: mutant.start] + mutant.new.encode() + raw[mutant.end :]).decode()  # type: ignore[attr-defined]


def test_changes_are_small_lawful_and_spare_messages(mutate: ModuleType) -> None:
    found = list(mutate.mutants_of("trilobite/base/a.py", SOURCE))
    made = {(m.line, m.kind, m.new) for m in found}
    assert made == {
        (6, "guard dropped", "False"), (6, "comparison", "(a <= 3)"), (6, "off by one", "4"),
        (8, "guard dropped", "False"), (8, "not dropped", "(b)"),
        (10, "min/max", "min(a + b, 2)"), (10, "arithmetic", "(a - b)"), (10, "off by one", "3"),
        (10, "and/or", "(a == b or a)"), (10, "comparison", "(a != b)"),
    }  # fmt: skip
    for mutant in found:
        text = changed(mutant, SOURCE)
        assert text != SOURCE
        ast.parse(text)


def test_every_file_of_the_package_has_a_room_and_parses_when_changed(mutate: ModuleType, root: Path) -> None:
    for path in sorted((root / "trilobite").rglob("*.py"))[::40]:
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        for mutant in list(mutate.mutants_of(name, text))[::7]:
            ast.parse(changed(mutant, text))
    assert mutate.room_of("trilobite/framework/ops/linear.py") == "trilobite/framework/ops"
    assert mutate.room_of("trilobite/processor/sim/core.py") == "trilobite/processor"


def test_shares_count_what_changes_results(
    mutate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tmp_path / "known.txt"
    known.write_text("b\n")
    monkeypatch.setattr(mutate, "KNOWN", known)
    rows = [
        {"name": name, "verdict": verdict, "path": "trilobite/ir/graph.py"}
        for name, verdict in (("a", "killed"), ("b", "survived"), ("c", "survived"), ("d", "timed out"))
    ]
    assert "| trilobite/ir | 2 | 1 | 1 | 67% |" in mutate.table(rows)


def test_a_fault_is_noticed_in_a_copy_and_the_tree_stays_as_it_was(
    mutate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, place = tmp_path / "tree", tmp_path / "copy"
    (tree / "trilobite" / "base").mkdir(parents=True)
    (tree / "tests" / "errors").mkdir(parents=True)
    source = "def f(a):\n    return a + 1\n"
    (tree / "trilobite" / "base" / "a.py").write_text(source)
    (tree / "tests" / "errors" / "test_a.py").write_text("def test_f():\n    pass\n")
    monkeypatch.setattr(mutate, "ROOT", tree)
    mutate.subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    place.mkdir()
    copy = mutate.Copy(place)
    monkeypatch.setattr(
        copy,
        "_run",
        lambda tests: "survived" if "a + 1" in (place / "trilobite/base/a.py").read_text() else "killed",
    )
    verdicts = {m.new: copy.judge(m) for m in mutate.mutants_of("trilobite/base/a.py", source)}
    assert verdicts == {"(a - 1)": "killed", "2": "killed"}
    assert (place / "trilobite/base/a.py").read_text() == source
