"""Commands that pages name exist, with the options that they are given, and the labs' own run as written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from tools.snippets import blocks
from trilobite.apps.labs.catalogue import LABS, material
from trilobite.cli import COMMANDS
from trilobite.cli.application import load

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROWS = {command.name: command for command in COMMANDS}


@cache
def options_of(name: str) -> frozenset[str]:
    single = typer.Typer(add_completion=False)
    single.command(name)(load(ROWS[name]))
    command: Any = typer.main.get_command(single)
    given = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    return frozenset(given | {"--help"})


def commands_of(page: Path) -> list[str]:
    """Lines of shell blocks, and words in backticks, that begin with `trilobite`."""
    text = page.read_text(encoding="utf-8")
    inline = re.findall(r"(?<!`)`(trilobite [^`\n]+)`", text)
    lines = [line for b in blocks(page) if b.info[:1] in (("sh",), ("bash",)) for line in b.text.splitlines()]
    return inline + [line.split(" #")[0].strip() for line in lines if line.startswith("trilobite ")]


def wrong(command: str) -> str:
    """What is wrong with a command line, or nothing."""
    name, *words = shlex.split(command.replace("|", " "))[1:]
    if name not in ROWS:
        return f"there is no command {name}"
    if name == "launch":  # what stands behind the script is the script's own
        words = words[: next((k for k, word in enumerate(words) if word.endswith(".py")), len(words))]
    if name == "studio":  # it runs another command
        return wrong(f"trilobite {shlex.join(words)}") if words and words[0] in ROWS else ""
    unknown = [w.split("=")[0] for w in words if re.match(r"-{1,2}[a-zA-Z]", w)]
    unknown = [w for w in unknown if w not in options_of(name)]
    return f"{name} has no {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("page", [p for p in PAGES if commands_of(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_of_a_page_exist(page: Path) -> None:
    found = {command: wrong(command) for command in commands_of(page)}
    assert {command: problem for command, problem in found.items() if problem} == {}


def test_a_wrong_command_is_seen() -> None:
    assert wrong("trilobite paint x.jpg") == "there is no command paint"
    assert wrong("trilobite lab mlp --grade x.py") == "lab has no --grade"
    assert wrong("trilobite lab mlp --check x.py --seed 3") == ""


def run_as_written(name: str, directory: Path) -> None:
    """The commands of a lab's page as a newcomer types them; the check once more with the solution."""
    start, check = commands_of(ROOT / "docs" / "labs" / f"{name}.md")[-2:]
    results = []
    for line in (start, check, check):
        words = [sys.executable, "-m", *shlex.split(line)]
        done = subprocess.run(words, cwd=directory, capture_output=True, text=True, timeout=110)
        results.append((done.returncode, done.stdout, done.stderr))
        if line is check:
            (directory / "my_solution.py").write_text(material(name, "solution"), encoding="utf-8")
    assert results[0][0] == 0, results[0]
    assert results[1][0] == 1, results[1]
    assert "parts are right" in results[1][1]
    assert results[2][0] == 0, results[2]
    assert "wrong" not in results[2][1]


def test_a_lab_runs_as_its_page_says(tmp_path: Path) -> None:
    run_as_written("autodiff", tmp_path)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", LABS)
def test_every_lab_runs_as_its_page_says(name: str, tmp_path: Path) -> None:
    run_as_written(name, tmp_path)
