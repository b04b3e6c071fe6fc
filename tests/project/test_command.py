"""The command `trilobite`: lists its commands without importing them, and shows errors as sentences."""

from __future__ import annotations

import re
import subprocess
import sys
import types

import pytest
from typer.testing import CliRunner

from trilobite.base.errors import DataError
from trilobite.cli import COMMANDS, Command, main
from trilobite.cli.application import application, load
from trilobite.cli.info import facts
from trilobite.native.disk import directory


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "trilobite", *words]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module that exists only here, with two commands in it."""

    def greet(name: str, times: int = 1) -> None:
        """Greets somebody."""
        print(" ".join([f"hello {name}"] * times))

    def fail() -> None:
        raise DataError(
            "the digits are gone", where="digits.idx", expected="four files", remedy="run make data"
        )

    module = types.ModuleType("a_room_of_this_test")
    vars(module).update(greet=greet, fail=fail)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


TABLE = (
    Command("greet", "Say hello.", "a_room_of_this_test:greet"),
    Command("broken", "Cannot be imported.", "no.such.room:main"),
)


def test_help_lists_every_command_of_the_table() -> None:
    done = run("--help")
    assert done.returncode == 0, done.stderr
    for command in COMMANDS:
        assert re.search(rf"\b{command.name} +{re.escape(command.summary[:20])}", done.stdout)


def test_listing_imports_no_command(room: types.ModuleType) -> None:
    shown = CliRunner().invoke(application(TABLE), ["--help"])
    assert shown.exit_code == 0
    assert "Cannot be imported." in shown.output


def test_types_of_a_function_become_arguments_and_options(room: types.ModuleType) -> None:
    invoke = CliRunner().invoke
    app = application(TABLE)
    assert invoke(app, ["greet", "ada", "--times", "2"]).output == "hello ada hello ada\n"
    wrong = invoke(app, ["greet", "ada", "--times", "many"])
    assert wrong.exit_code == 2
    assert "--times" in wrong.output
    assert "Greets somebody." in invoke(app, ["greet", "--help"]).output


def test_an_unknown_command_is_refused_with_a_suggestion() -> None:
    done = run("inof")
    assert done.returncode == 2
    assert "No such command 'inof'" in done.stderr
    assert "'info'" in done.stderr


def test_errors_of_the_house_have_no_traceback(
    room: types.ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trilobite.cli.COMMANDS", (Command("fail", "Fail.", "a_room_of_this_test:fail"),) * 2)
    monkeypatch.setattr(sys, "argv", ["trilobite", "fail"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == (
        "trilobite: the digits are gone\n  where: digits.idx\n  expected: four files\n  remedy: run make data"
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_row_of_the_table_leads_to_a_function(command: Command) -> None:
    assert callable(load(command))


def test_info_prints_what_a_report_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRILOBITE_CACHE", "/somewhere/else")
    found = dict(facts())
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["trilobite"])
    assert found["python"].startswith(sys.version.split()[0])
    assert re.fullmatch(r"[1-9]\d* usable of [1-9]\d*", found["cores"])
    assert found["cache"] == "/somewhere/else (not there yet)"
    done = run("info")
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(found)


def test_the_cache_follows_the_desktop_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRILOBITE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert str(directory()) == "/caches/trilobite"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/ada")
    assert str(directory()) == "/home/ada/.cache/trilobite"


def test_version() -> None:
    import trilobite

    assert run("--version").stdout == f"trilobite {trilobite.__version__}\n"
