"""What is taken and never read is what is kept: else an argument, a part of a key or a step was lost."""

from __future__ import annotations

from pathlib import Path

from tools.unread import KEPT, kept, lines, names, parameters, unread


def test_nothing_new_is_taken_and_never_read() -> None:
    new = unread() - kept()
    assert not new, "\n".join(
        [
            *(f"{place}: nothing reads {name!r}" for place, name in sorted(new)),
            "if that is meant: python -m tools.unread",
        ]
    )


def test_parameters_that_no_body_names_are_found(tmp_path: Path) -> None:
    (tmp_path / "trilobite").mkdir()
    text = "def f(a, b):\n    return a\nclass A:\n    def g(self, c, *d, **e):\n        return lambda f: c\n"
    (tmp_path / "trilobite" / "a.py").write_text(text)
    found = parameters(tmp_path)
    assert sorted(found.elements()) == [("trilobite/a.py", name) for name in "bdef"]


def test_names_that_stand_only_where_they_are_made_are_found() -> None:
    first = "_LIMIT = 3\n_USED: int = 4\ndef _lost(a):\n    return a\nclass _Row:\n    _x = 1\n"
    second = "def f(self):\n    self.seen = 1\n    self.kept: int = _USED\n    return other.kept\n"
    third = "class B:\n    async def _called(self):\n        self.told = 0\n    def _never(self): ...\n"
    found = names({"a.py": first, "b.py": second, "c.py": third, "d.py": "'_called told'"})
    assert {name for _, name in found} == {"_LIMIT", "_lost", "_Row", "seen", "_never"}


def test_what_is_kept_is_what_the_tool_writes() -> None:
    assert lines(kept()) == KEPT.read_text(encoding="utf-8")
