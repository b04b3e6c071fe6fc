"""The mutation campaign: which changes it makes, that they parse, and how it counts."""

from __future__ import annotations

import ast
import importlib
import json
import sqlite3
import subprocess
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
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root))
        return importlib.import_module("tools.mutate")


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


def test_a_mutant_keeps_its_name_when_lines_move(mutate: ModuleType) -> None:
    inner = "class A:\n    def f(self, a):\n        return (a + 1) * (a + 1)\n    n = 2 - 1\n"
    names = [m.name for m in mutate.mutants_of("trilobite/base/a.py", inner)]
    assert "trilobite/base/a.py A.f: 'a + 1' -> '(a - 1)'" in names
    assert "trilobite/base/a.py A.f: 'a + 1' -> '(a - 1)' (1)" in names
    assert "trilobite/base/a.py A: '2 - 1' -> '(2 + 1)'" in names
    assert len(names) == len(set(names))
    moved = "import os\n\n\nx = 4\n" + inner
    assert set(names) < {m.name for m in mutate.mutants_of("trilobite/base/a.py", moved)}


def test_every_file_of_the_package_has_a_room_and_parses_when_changed(mutate: ModuleType, root: Path) -> None:
    for path in sorted((root / "trilobite").rglob("*.py"))[::40]:
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        for mutant in list(mutate.mutants_of(name, text))[::7]:
            ast.parse(changed(mutant, text))
    assert mutate.room_of("trilobite/framework/ops/linear.py") == "trilobite/framework/ops"
    assert mutate.room_of("trilobite/processor/sim/core.py") == "trilobite/processor"


def test_as_many_are_drawn_as_were_asked_for_and_small_rooms_are_made_up_for(
    mutate: ModuleType, tree: Path
) -> None:
    (tree / "trilobite" / "ir").mkdir()
    (tree / "trilobite" / "ir" / "b.py").write_text("\n".join(f"x{n} = {n} + y" for n in range(40)))
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    drawn = mutate.drawn(20, 3, [])
    rooms = [mutate.room_of(m.path) for m in drawn]
    assert (rooms.count("trilobite/base"), rooms.count("trilobite/ir")) == (2, 18)
    assert len({m.name for m in drawn}) == 20 and mutate.drawn(20, 3, []) == drawn
    assert len(mutate.drawn(1000, 3, [])) == 82  # all that there are


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


def test_the_command_prints_the_table_and_writes_it_into_the_page(
    mutate: ModuleType, tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["add", "-A"], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    monkeypatch.setattr(mutate, "PLACE", tree / ".mutants")
    monkeypatch.setattr(mutate, "KNOWN", tree / "known.txt")
    (tree / ".mutants").mkdir()
    row = {"name": "a", "verdict": "survived", "path": "trilobite/base/a.py"}
    (tree / ".mutants" / "7.jsonl").write_text(json.dumps(row) + "\n")
    (tree / "docs").mkdir()
    page = tree / "docs" / "testing.md"
    page.write_text(f"before\n{mutate.BEGIN}\nan old table\n{mutate.END}\nafter\n")
    monkeypatch.setattr(sys, "argv", ["mutate", "--seed", "7", "--report"])
    mutate.main()
    printed = capsys.readouterr().out
    assert "| trilobite/base | 0 | 1 | 0 | 0% |" in printed and "survived a" in printed
    for _ in range(2):  # what is written again stays the same
        monkeypatch.setattr(sys, "argv", ["mutate", "--seed", "7", "--page"])
        mutate.main()
        told = page.read_text()
        assert told.startswith(f"before\n{mutate.BEGIN}\n1 mutants, seed 7, 20")
        assert told.endswith(f"| all | 0 | 1 | 0 | 0% |\n{mutate.END}\nafter\n")
        assert "an old table" not in told


@pytest.fixture
def tree(mutate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one function with two tests: one looks at it, one does not."""
    tree = tmp_path / "tree"
    (tree / "trilobite" / "base").mkdir(parents=True)
    (tree / "tests" / "errors").mkdir(parents=True)
    (tree / "trilobite" / "__init__.py").write_text("")
    (tree / "trilobite" / "base" / "__init__.py").write_text("")
    (tree / "trilobite" / "base" / "a.py").write_text("def f(a):\n    return a + 1\n")
    tests = """from trilobite.base.a import f
def test_looks():
    assert f(1) == 2
def test_does_not_look():
    f(1)
"""
    (tree / "tests" / "errors" / "test_a.py").write_text(tests)
    monkeypatch.setattr(mutate, "ROOT", tree)
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    return tree


class Given:
    """Stands for what a run of the suite has noted."""

    def __init__(self, *tests: str) -> None:
        self.tests = list(tests)
        self.seconds: dict[str, float] = dict.fromkeys(tests, 1.0)

    def tests_of(self, path: str, first: int, last: int) -> list[str]:
        return self.tests

    def ran(self, path: str, first: int, last: int) -> bool:
        return bool(self.tests)


LOOKS = "tests/errors/test_a.py::test_looks"
DOES_NOT = "tests/errors/test_a.py::test_does_not_look"


def test_a_fault_is_noticed_in_a_copy_and_the_tree_stays_as_it_was(
    mutate: ModuleType, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "copy").mkdir()
    copy = mutate.Copy(tmp_path / "copy", Given(DOES_NOT, LOOKS))
    file = "trilobite/base/a.py"
    source = (tree / file).read_text()
    first, second = mutate.mutants_of(file, source)
    assert (first.new, copy.judge(first)) == ("(a - 1)", ("killed", LOOKS))
    copy.lines = Given(DOES_NOT)
    assert copy.judge(second) == ("survived", "")
    assert (tree / file).read_text() == (copy.place / file).read_text() == source


def test_a_test_that_fails_anyway_is_no_witness(mutate: ModuleType, tree: Path, tmp_path: Path) -> None:
    with (tree / "tests" / "errors" / "test_a.py").open("a") as file:
        file.write("def test_broken():\n    assert f(1) == 3\n")
    (tmp_path / "copy").mkdir()
    copy = mutate.Copy(tmp_path / "copy", Given("tests/errors/test_a.py::test_broken"))
    mutant = next(mutate.mutants_of("trilobite/base/a.py", (tree / "trilobite/base/a.py").read_text()))
    assert copy.judge(mutant) == ("unsure", "tests/errors/test_a.py::test_broken")


def test_the_witness_is_named_whole(mutate: ModuleType) -> None:
    """Its name may have spaces, signs of the message behind it, or be the beginning of another's."""
    tests = ["tests/a.py::test_b[1]", "tests/a.py::test_b[(3, 4) - x]", "tests/a.py::test_b[(3, 4)"]
    for test in tests:
        assert mutate._named(f"FAILED {test} - assert 1 == 2", tests) == test
        assert mutate._named(f"FAILED {test}", tests) == test
    assert mutate._named("ERROR tests/c.py::test_d[a b] - ImportError: no - such", ["tests"]) == (
        "tests/c.py::test_d[a b]"
    )


def test_where_no_test_is_known_the_rooms_tests_judge(mutate: ModuleType, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    copy = mutate.Copy(tmp_path / "copy", Given())
    mutant = next(mutate.mutants_of("trilobite/base/a.py", (tree / "trilobite/base/a.py").read_text()))
    assert list(copy.rounds(mutant)) == [["tests/errors"]]
    copy.lines = Given(LOOKS)  # of the file, but not of the line
    copy.lines.ran = lambda *lines: False
    assert list(copy.rounds(mutant)) == [[LOOKS], ["tests/errors"]]


def test_tests_that_take_too_long_are_left_out_but_the_quickest_never(
    mutate: ModuleType, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = [f"tests/errors/test_a.py::test_{n}" for n in range(6)]
    lines = Given(*tests)
    lines.seconds = dict(zip(tests, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), strict=True))
    (tmp_path / "copy").mkdir()
    copy = mutate.Copy(tmp_path / "copy", lines)
    mutant = next(mutate.mutants_of("trilobite/base/a.py", (tree / "trilobite/base/a.py").read_text()))
    monkeypatch.setattr(mutate, "QUICKEST", 2)
    for most, behind in ((9.0, tests[2:3]), (10.0, tests[2:4]), (100.0, tests[2:])):
        monkeypatch.setattr(mutate, "MOST_SECONDS", most)
        assert list(copy.rounds(mutant)) == [tests[:2], behind]
    monkeypatch.setattr(mutate, "MOST_SECONDS", 0.5)
    assert list(copy.rounds(mutant)) == [tests[:2]]


def test_lines_know_the_tests_that_execute_them_the_quickest_first(
    mutate: ModuleType, root: Path, tmp_path: Path
) -> None:
    path = str(root / "trilobite" / "base" / "a.py")
    with sqlite3.connect(tmp_path / "1.sqlite") as made:
        made.executescript("""create table file (id, path); create table context (id, context);
                              create table line_bits (file_id, context_id, numbits)""")
        made.execute("insert into file values (1, ?)", (path,))
        made.executemany(
            "insert into context values (?, ?)", [(1, ""), (2, "slow"), (3, "quick"), (4, "other")]
        )
        # Lines 1 and 9 while nothing is tested, 9 and 10 in the first two, 2 in the last.
        rows = [(1, 1, b"\x02\x02"), (1, 2, b"\x00\x06"), (1, 3, b"\x00\x06"), (1, 4, b"\x04")]
        made.executemany("insert into line_bits values (?, ?, ?)", rows)
    made.close()
    (tmp_path / "1.json").write_text(json.dumps({"slow": 2.0, "quick": 1.0, "other": 0.5}))
    lines = mutate.Covering.read(tmp_path)
    file = "trilobite/base/a.py"
    assert lines.tests_of(file, 9, 9) == ["quick", "slow"]
    assert lines.tests_of(file, 2, 2) == ["other"]
    assert lines.tests_of(file, 2, 9) == ["other", "quick", "slow"]
    assert lines.tests_of(file, 1, 1) == ["other", "quick", "slow"]  # runs at import: all that use the file
    assert lines.tests_of("trilobite/base/b.py", 9, 9) == []
    assert [lines.ran(file, at, at) for at in (1, 2, 3, 9)] == [False, True, False, True]


def test_a_run_of_the_suite_notes_its_lines(mutate: ModuleType, root: Path, tmp_path: Path) -> None:
    pytest.importorskip("coverage")
    (tmp_path / "test_a.py").write_text(
        "import sys\nfrom trilobite.base.dtypes import is_float\n"
        "def test_that_takes_the_tracer():\n    sys.settrace(None)\n"
        "def test_it():\n    assert not is_float(None)\n"
    )
    program = f"""
import pytest, sys
from pathlib import Path
import tools.covering as covering
covering.PLACE = Path({str(tmp_path / "lines")!r})
test = {str(tmp_path / "test_a.py")!r}
options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(Path(test).parent)]
sys.exit(pytest.main([*options, test], plugins=[covering]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = mutate.Covering.read(tmp_path / "lines")
    assert list(lines.seconds) == ["test_a.py::test_that_takes_the_tracer", "test_a.py::test_it"]
    file = "trilobite/base/dtypes.py"
    body = 1 + (root / file).read_text().splitlines().index("def is_float(d: DType) -> bool:") + 1
    assert lines.tests_of(file, body, body) == ["test_a.py::test_it"]
