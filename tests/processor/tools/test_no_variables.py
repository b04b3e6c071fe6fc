"""A program in assembly has no variables of a kernel language: the debugger says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trilobite.base.errors import ArgumentError
from trilobite.processor.lang import inspection
from trilobite.processor.tools import session


@pytest.mark.parametrize(
    ("found", "words", "said"),
    [
        ({}, [], "no variable is set here"),
        ({"n": 3, "x": "a"}, [], "n = 3\nx = 'a'"),
        ({"n": 3, "x": 1}, ["x"], "x = 1"),
    ],
)
def test_variables_are_listed(
    found: dict[str, Any], words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "variables", lambda debugger: found)
    assert session._variables(SimpleNamespace(debugger=None), words) == said  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no variable 'other' is set here"):
        session._variables(SimpleNamespace(debugger=None), ["other"])  # type: ignore[arg-type]
