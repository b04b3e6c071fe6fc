"""A newcomer's hour: a script that goes through the pages, to a trained, resumed and profiled network."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "training" / "first_hour.py"


def run(words: list[str], directory: Path) -> str:
    """What a command prints, run as by a user whose own folder this is."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=directory, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_hour_runs_to_its_end(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the small digits come with scikit-learn")
    command = [sys.executable, "-W", "error", str(SCRIPT), "--out", "hour", "--epochs", "6"]
    said = run(command, tmp_path)
    right = re.search(r"read right: ([\d.]+)%", said)
    assert right is not None
    assert float(right[1]) > 85
    for claim in (
        "the same as in one go",
        "saved and loaded",
        "on the chip the same",
        "through ONNX the same",
    ):
        assert re.search(rf"{claim}[^:]*: True", said), said
    made = {path.name for path in (tmp_path / "hour").iterdir()}
    assert {"checkpoints", "log.csv", "reader.safetensors", "reader.onnx", "chip.html"} <= made

    next_command = shlex.split(said.splitlines()[-1])  # the script's own advice, as written
    assert next_command[0] == "trilobite"
    run([sys.executable, "-m", *next_command], tmp_path)
    assert "<html" in (tmp_path / "hour" / "profile.html").read_text(encoding="utf-8")[:200]


def test_the_hour_names_pages_that_are_there() -> None:
    named = set(re.findall(r"docs/[\w.]+\.md", SCRIPT.read_text(encoding="utf-8")))
    assert {"start", "training", "data", "saving", "chip", "inference"} <= {Path(name).stem for name in named}
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    """By links alone, over other pages; decisions are reached through their folder."""
    link = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s#]+)")
    seen, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        targets = [
            (page.parent / target).resolve() for target in link.findall(page.read_text(encoding="utf-8"))
        ]
        waiting += [there for there in targets if there.suffix == ".md" and there.is_file()]
    docs = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions"}
    assert {page.relative_to(ROOT) for page in docs - seen} == set()
