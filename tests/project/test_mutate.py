"""The mutation campaign: which changes it makes, that they parse, and how it counts."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import subprocess
import sys
from dataclasses import asdict
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
        (6, "guard dropped", "False"), (6, "bound", "(a <= 3)"), (6, "off by one", "4"),
        (6, "off by one", "2"),
        (8, "guard dropped", "False"), (8, "not dropped", "(b)"),
        (10, "min/max", "min(a + b, 2)"), (10, "arithmetic", "(a - b)"), (10, "term dropped", "(a)"),
        (10, "off by one", "3"), (10, "off by one", "1"),
        (10, "and/or", "(a == b or a)"), (10, "condition dropped", "(a == b)"),
        (10, "comparison", "(a != b)"),
    }  # fmt: skip
    numbers = {mutant.name: n for n, mutant in enumerate(found[::2])}
    texts = mutate.texts("trilobite/base/a.py", SOURCE, numbers)
    assert texts == {n: changed(mutant, SOURCE) for n, mutant in enumerate(found[::2])}
    for mutant in found:
        text = changed(mutant, SOURCE)
        assert text != SOURCE
        ast.parse(text)


KINDS = """
def g(a, b, log, *, whole=True, rate=0.5):
    log.append(a)
    x = -a / b - b
    return pow(a, b) if whole else abs(x, log) if isinstance(a, str) else rate
"""


def test_changes_of_calls_signs_truths_and_numbers(mutate: ModuleType) -> None:
    made = {(m.kind, m.new, m.at_import) for m in mutate.mutants_of("trilobite/base/a.py", KINDS)}
    assert made == {
        ("truth", "False", True), ("number", "0.625", True), ("call dropped", "None", False),
        ("arithmetic", "(-a * b)", False), ("term dropped", "(-a)", False),
        ("operands exchanged", "(b / -a)", False),
        ("arithmetic", "(-a / b + b)", False), ("term dropped", "(-a / b)", False),
        ("operands exchanged", "(b - -a / b)", False), ("sign dropped", "(a)", False),
        ("arguments exchanged", "pow(b, a)", False), ("arguments exchanged", "abs(log, x)", False),
    }  # fmt: skip


PLANTED = '''"""Words."""
LIMIT = 3 + 1
def f(a, b=2):
    """Words."""
    if a < LIMIT:
        return -a
    return max(a - b, b) * (a == b or b > 1)
'''


def test_what_is_planted_sleeps_until_it_is_called_and_then_is_the_changed_text(mutate: ModuleType) -> None:
    """All at once in one code: each awake computes what the text with that one change does."""
    found = list(mutate.mutants_of("trilobite/base/a.py", PLANTED))
    numbers = {mutant.name: n for n, mutant in enumerate(found)}
    code = mutate.planted("a.py", "trilobite/base/a.py", PLANTED, numbers, "asked", lambda scope: 99)

    def results(made: object, awake: int = -1) -> tuple[object, ...]:
        passed: set[int] = set()
        names = {"asked": lambda n: n == awake or passed.add(n)}
        exec(made, names)  # type: ignore[arg-type]
        assert awake < 0 or 99 not in passed  # no function was entered so far
        called = tuple(names["f"](a, *rest) for a in range(9) for rest in ((), (0,), (1,), (3,), (4,)))
        return (names["LIMIT"], names["f"].__doc__, names["f"].__code__.co_firstlineno, *called)

    assert results(code) == results(compile(PLANTED, "a.py", "exec"))
    for number, mutant in enumerate(found):
        text = compile(changed(mutant, PLANTED), "a.py", "exec")
        assert results(code, number) == results(text) != results(code), mutant.name
    assert len(found) > 12


def test_a_mutant_keeps_its_name_when_lines_move(mutate: ModuleType) -> None:
    inner = "class A:\n    def f(self, a):\n        return (a + 1) * (a + 1)\n    n = 2 - 1\n"
    names = [m.name for m in mutate.mutants_of("trilobite/base/a.py", inner)]
    assert "trilobite/base/a.py A.f: 'a + 1' -> '(a - 1)'" in names
    assert "trilobite/base/a.py A.f: 'a + 1' -> '(a - 1)' (1)" in names
    assert "trilobite/base/a.py A: '2 - 1' -> '(2 + 1)'" in names
    assert len(names) == len(set(names))
    moved = "import os\n\n\nx = 4\n" + inner
    assert set(names) < {m.name for m in mutate.mutants_of("trilobite/base/a.py", moved)}


WRITTEN = '''"""Words."""
count = 0
class A:
    def f(self, a, b):
        """Words."""
        global count
        if a is None:
            return b
        count += 1
        def g(c):
            return c - a
        return [g(b)]
'''
FAULTS = (
    ("        if a is None:\n            return b\n", ""),
    ("return [g(b)]", "return [g(b), (x := b)][::-1]"),
    ("c - a", "a - c"),
    ("        count += 1\n", "        for _ in (1, 2):\n            count += 1\n"),
)


def test_faults_that_are_written_down_are_planted_like_drawn_ones(mutate: ModuleType, tmp_path: Path) -> None:
    """Of several lines, in inner functions, beside global names: awake they are what the changed text is."""
    given = mutate.written
    rows = [{"path": "a.py", "old": old, "new": new} for old, new in FAULTS]
    (tmp_path / "a.py").write_text(WRITTEN)
    (tmp_path / "faults.json").write_text(json.dumps(rows))
    faults = dict(enumerate(given.read(tmp_path / "faults.json", tmp_path)))
    assert [(m.scope, m.line, m.last) for m in faults.values()] == [
        ("A.f", 7, 8), ("A.f", 12, 12), ("A.f.g", 11, 11), ("A.f", 9, 9),
    ]  # fmt: skip
    prepare = functools.partial(given.plant, WRITTEN, faults, "asked")
    code = mutate.planted("a.py", "a.py", WRITTEN, {}, "asked", lambda scope: 99, prepare)

    def results(made: object, awake: int = -1) -> tuple[object, ...]:
        names = {"asked": lambda n: n == awake}
        exec(made, names)  # type: ignore[arg-type]
        f = names["A"]().f  # type: ignore[operator]
        try:
            none = f(None, 2)
        except TypeError:
            none = "no number"
        return (none, f(1, 5), names["count"], f.__doc__)

    assert results(code) == results(compile(WRITTEN, "a.py", "exec")) == (2, [4], 1, "Words.")
    for number, (old, new) in enumerate(FAULTS):
        text = compile(WRITTEN.replace(old, new), "a.py", "exec")
        assert results(code, number) == results(text) != results(code), old
    assert given.texts(WRITTEN.replace("c - a", "c + a"), faults).keys() == {0, 1, 3}  # its place is gone


@pytest.mark.parametrize(
    ("old", "words"),
    [("count = 0", "the body of no function"), ("count", "3 times"), ("if b", "stands there 0 times")],
)
def test_a_fault_that_stands_nowhere_is_an_error(
    mutate: ModuleType, tmp_path: Path, old: str, words: str
) -> None:
    (tmp_path / "a.py").write_text(WRITTEN)
    (tmp_path / "faults.json").write_text(json.dumps([{"path": "a.py", "old": old, "new": "x"}]))
    with pytest.raises(ValueError, match=words):
        mutate.written.read(tmp_path / "faults.json", tmp_path)


def test_every_file_of_the_package_has_a_room_and_parses_when_changed(mutate: ModuleType, root: Path) -> None:
    for path in sorted((root / "trilobite").rglob("*.py"))[::120]:
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        for mutant in list(mutate.mutants_of(name, text))[::19]:
            ast.parse(changed(mutant, text))
    assert mutate.room_of("trilobite/framework/ops/linear.py") == "trilobite/framework/ops"
    assert mutate.room_of("trilobite/processor/sim/core.py") == "trilobite/processor/sim"
    package = [p.relative_to(root).as_posix() for p in (root / "trilobite").rglob("*.py")]
    alone = {"trilobite/__init__.py", "trilobite/__main__.py"}
    homeless = {name for name in package if not mutate.room_of(name)} - alone
    assert all(name.endswith("/__init__.py") for name in homeless), homeless
    for tests in mutate.ROOMS.values():
        assert all((root / folder).is_dir() for folder in tests)


def test_as_many_are_drawn_as_were_asked_for_and_small_rooms_are_made_up_for(
    mutate: ModuleType, tree: Path
) -> None:
    (tree / "trilobite" / "ir").mkdir()
    (tree / "trilobite" / "ir" / "b.py").write_text("\n".join(f"x{n} = {n} + y" for n in range(40)))
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    drawn = mutate.drawn(20, 3, [])
    rooms = [mutate.room_of(m.path) for m in drawn]
    assert (rooms.count("trilobite/base"), rooms.count("trilobite/ir")) == (3, 17)
    assert len({m.name for m in drawn}) == 20 and mutate.drawn(20, 3, []) == drawn
    kinds = [m.kind for m in drawn if "ir" in m.path]
    assert max(map(kinds.count, set(kinds))) - min(map(kinds.count, set(kinds))) <= 1  # kinds take turns
    assert len(mutate.drawn(1000, 3, [])) == 3 + 40 * 3 + 38  # all that there are; 0 and 1 have no less


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
    rows.append({"name": "e", "verdict": "not reached", "path": "trilobite/ir/graph.py"})
    assert "| trilobite/ir | 2 | 2 | 1 | 50% |" in mutate.table(rows)


def test_the_command_prints_the_table_and_writes_it_into_the_page(
    mutate: ModuleType, tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["add", "-A"], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    monkeypatch.setattr(mutate, "PLACE", tree / ".mutants")
    monkeypatch.setattr(mutate, "KNOWN", tree / "known.txt")
    folder = tree / ".mutants" / "7"
    folder.mkdir(parents=True)
    source = (tree / "trilobite/base/a.py").read_text()
    two = [asdict(mutant) for mutant in mutate.mutants_of("trilobite/base/a.py", source)][:2]
    (folder / "drawn.json").write_text(json.dumps(two))
    row = {"number": 0, "verdict": "survived", "file": "tests/errors/test_a.py", "witness": ""}
    (folder / "verdicts.jsonl").write_text(json.dumps(row) + "\n")
    looked = {"file": "tests/errors/test_a.py", "others": False, "met": []}
    (folder / "met.jsonl").write_text(json.dumps(looked) + "\n")
    (tree / "docs").mkdir()
    page = tree / "docs" / "testing.md"
    page.write_text(f"before\n{mutate.BEGIN}\nan old table\n{mutate.END}\nafter\n")
    monkeypatch.setattr(sys, "argv", ["mutate", "--seed", "7", "--report"])
    mutate.main()
    printed = capsys.readouterr().out
    assert "| trilobite/base | 0 | 2 | 0 | 0% |" in printed
    assert "survived (line 2) trilobite/base/a.py f: 'a + 1' -> '(a - 1)'" in printed
    assert "not reached (line 2) trilobite/base/a.py f: 'a + 1' -> '(a)'" in printed
    for _ in range(2):  # what is written again stays the same
        monkeypatch.setattr(sys, "argv", ["mutate", "--seed", "7", "--page"])
        mutate.main()
        told = page.read_text()
        assert told.startswith(f"before\n{mutate.BEGIN}\n2 mutants, seed 7, 20")
        assert ", 1 of 1 files of tests looked at:\n" in told
        assert told.endswith(f"| all | 0 | 2 | 0 | 0% |\n{mutate.END}\nafter\n")
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


PACKAGE = """STEP = 1
def noticed(a):
    return a + STEP
def called(a):
    return noticed(a) * 5
def seen_by_a_broken_test(a):
    return a - 7
def seen_by_a_slow_test(a):
    return a - 11
def seen_by_a_process(a):
    return a - 13
def never_ends(n):
    while n:
        n = 0
    return n
"""
COMPILED = "def compiled(a):\n    return a + 17\n"
TESTS = """import inspect, os, subprocess, sys, time
from pathlib import Path
import pytest
from trilobite.base import a, b
def test_looks():
    assert a.noticed(1) == 2
def test_does_not_look():
    a.called(1)
def test_is_broken():
    assert a.seen_by_a_broken_test(8) == 2
def test_is_slow():
    until = time.process_time() + 1.0
    while time.process_time() < until:
        pass
    assert a.seen_by_a_slow_test(12) == 1
def test_a_process():
    text = "from trilobite.base.a import seen_by_a_process as f; print(f(14))"
    here = {"PYTHONPATH": str(Path(a.__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", text], env=here, capture_output=True).stdout == b"1\\n"
NAMES = {}
def test_a_source():
    NAMES or exec(inspect.getsource(b), NAMES)
    assert NAMES["compiled"](3) == 20
def test_it_ends():
    assert a.never_ends(17) == 0
"""
CAMPAIGN = """
import sys
from dataclasses import replace
from pathlib import Path
import tools.mutate as mutate
mutate.ROOT = Path(sys.argv.pop(1))
mutate.PLACE = mutate.ROOT / ".mutants"
mutate.PATIENCE, mutate.QUICK = 0.2, replace(mutate.QUICK, test=0.3)
mutate.main()
"""


@pytest.mark.long
def test_a_campaign_tells_who_is_noticed_by_whom(mutate: ModuleType, tree: Path, root: Path) -> None:
    """The source stays as it is; what fails anyway or is slow is no witness; children have the fault, too."""
    (tree / "trilobite/base/a.py").write_text(PACKAGE)
    (tree / "trilobite/base/b.py").write_text(COMPILED)
    (tree / "tests/errors/test_a.py").write_text(TESTS)
    (tree / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    command = [sys.executable, "-c", CAMPAIGN, str(tree), "--seed", "7", "--workers", "1"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tree / "trilobite/base/a.py").read_text() == PACKAGE
    campaign = mutate.Campaign(tree / ".mutants" / "7")
    found = {(m.scope, m.new): verdict for m, verdict in zip(
        campaign.mutants, (row["verdict"] for row in campaign.rows()), strict=True
    )}  # fmt: skip
    assert found["noticed", "(a - STEP)"] == found["module", "2"] == "killed"
    assert found["called", "6"] == found["called", "(noticed(a) + 5)"] == "survived"
    assert found["seen_by_a_broken_test", "8"] == found["seen_by_a_slow_test", "12"] == "not reached"
    assert found["seen_by_a_process", "14"] == "killed"
    assert found["compiled", "18"] == found["compiled", "(a - 17)"] == "killed"
    assert found["never_ends", "1"] == "timed out"
    rows = [json.loads(line) for line in (campaign.folder / "verdicts.jsonl").read_text().splitlines()]
    assert {row["witness"].rpartition("::")[2] for row in rows if row["verdict"] == "killed"} == {
        "test_looks", "test_a_process", "test_a_source",
    }  # fmt: skip
    assert len({row["number"] for row in rows}) == len(rows)
    subprocess.run([*command, "--whole"], cwd=root, check=True, capture_output=True, timeout=200)
    more = [json.loads(line) for line in (campaign.folder / "verdicts.jsonl").read_text().splitlines()]
    assert more[: len(rows)] == rows
    assert {row["witness"].rpartition("::")[2] for row in more[len(rows) :]} == {"test_is_slow"}
