"""The command line as a newcomer meets it: help for every word, one default machine, arguments checked."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import trilobite
from trilobite.base.errors import DeviceError, FileError, TrilobiteError
from trilobite.base.locations import Location
from trilobite.cli import COMMANDS, shown
from trilobite.cli.application import load
from trilobite.processor.machine.description import DEFAULT


@cache
def parameters(name: str) -> list[Any]:
    single = typer.Typer(add_completion=False)
    (row,) = (command for command in COMMANDS if command.name == name)
    single.command(name)(load(row))
    command: Any = typer.main.get_command(single)
    return list(command.params)


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_argument_and_option_has_help(name: str) -> None:
    assert [p.name for p in parameters(name) if not getattr(p, "help", None)] == []


@pytest.mark.parametrize("name", ["check", "debug", "demo", "kernel"])
def test_commands_without_a_machine_have_the_same_one(name: str) -> None:
    (machine,) = (p for p in parameters(name) if p.name == "machine")
    assert machine.default == DEFAULT


PROGRAM = """
    .entry scale
scale:
    LI    $10, #nram(0)
    VLOAD $10, $1, $0, #0
    SYNC.io
    VMS   $10, $1, $10, #2
    SYNC.vector
    VSTORE $10, $1, $0, #0
"""


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"dim": "many"}, "many"),
        ({"dim": "0"}, r"grid|tasks|extent"),
        ({"task": "onion4"}, "onion4"),
        ({"machine": "dlp-x"}, "there is no machine 'dlp-x'"),
        ({"entry": "scales"}, "scales"),
        ({"arg": ["random:f99:8"]}, "f99"),
        ({"limit": 0}, "limit|instructions"),
    ],
)
def test_check_refuses_before_it_says_no_errors(
    words: dict[str, Any], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from trilobite.cli.processor import check

    source = tmp_path / "scale.s"
    source.write_text(PROGRAM)
    check(str(source), arg=["random:f32:64", "64"])
    assert "no errors" in capsys.readouterr().out
    with pytest.raises(TrilobiteError, match=problem):
        check(str(source), **{"arg": ["random:f32:64", "64"], **words})
    assert "no errors" not in capsys.readouterr().out


def test_places_in_our_own_code_are_not_shown_at_a_shell() -> None:
    package = Path(trilobite.__file__).parent
    for file, told in (
        (package / "apps" / "x.py", False),
        (package / "zoo" / "x.py", True),
        ("net.py", True),
    ):
        error = DeviceError("what", where=Location(str(file), 3, "f"), expected="that")
        assert ("where:" in shown(error)) == told and "expected: that" in shown(error)
    assert "where: a.png" in shown(FileError("what", where="a.png"))
