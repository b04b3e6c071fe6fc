"""Profiles of all targets answer alike: what a page, the command line and a session ask of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.targets.contract import Executable, Target
from trilobite.compiler.targets.cpu import target as cpu_target
from trilobite.compiler.targets.cpu.tools import profiling
from trilobite.compiler.targets.dlp import profile as dlp_profile
from trilobite.compiler.targets.dlp import target as dlp_target
from trilobite.compiler.targets.profiles import FORMS, MEASURED, SIMULATED, Profile
from trilobite.compiler.targets.registry import find
from trilobite.report.network import subjects_of
from trilobite.report.page import write_traces


def profile_on(target: str) -> Profile:
    rng = np.random.default_rng(3)
    w, x = (tb.tensor(rng.standard_normal(shape).astype(np.float32)) for shape in ((7, 5), (3, 7)))
    jitted = tb.jit(lambda x: tb.relu(x @ w).sum(0), target=target)
    jitted(x)
    found: Profile = jitted.profile(x, repeats=2)
    return found


@pytest.mark.parametrize(("target", "form"), [("cpu", MEASURED), ("dlp:dlp-s", SIMULATED)])
def test_a_form_has_its_fields(target: str, form: str, tmp_path: Path) -> None:
    found = profile_on(target)
    assert isinstance(found, Profile) and found.form == form and list(found.each) == [found]
    assert not [name for name in FORMS[form] if not hasattr(found, name)]
    stages = found.stages()
    assert stages is not None and next(iter(stages.graphs)) == "recorded"
    assert not [name for name in stages.graphs if not stages.purposes.get(name)]
    named = {p.name for p in find(target).passes()}
    assert not set(stages.graphs) - named - {"recorded", "fuse", "weights apart"}
    (subject,) = subjects_of("net", found)
    assert subject.target == target and subject.stages
    (trace,) = write_traces(tmp_path / "page.html", target, found)
    timeline = found.timeline()
    assert timeline is not None and trace.name == f"page.{target.replace(':', '-')}{timeline.ending}"
    assert trace.read_bytes() == timeline.content


def test_a_model_of_several_programs_has_a_profile_for_each(tmp_path: Path) -> None:
    from trilobite.inference.session import Profile as Steps

    parts = [profile_on("cpu"), profile_on("dlp:dlp-s")]
    whole = Steps((("a", 1.0), ("b", 2.0)), tuple(enumerate(parts)))
    assert list(whole.each) == parts and [s.target for s in subjects_of("net", whole)] == ["cpu", "dlp:dlp-s"]
    assert len(write_traces(tmp_path / "page.html", "mixed", whole)) == 2
    written = whole.write(tmp_path / "kept")
    assert written[0].read_text() == f"{whole}\n"
    assert {p.parent.name for p in written[1:]} == {"step-0", "step-1"} and all(
        p.stat().st_size for p in written
    )


class Plain(Profile):
    """What a target from outside gives that says nothing to pages."""

    def write(self, directory: str | Path) -> list[Path]:
        return []


def test_a_profile_without_a_form_is_text_alone(tmp_path: Path) -> None:
    assert subjects_of("net", Plain()) == [] and write_traces(tmp_path / "a.html", "toy", Plain()) == []


# -- nobody above asks what kind of thing a target gave ------------------------------------------------------

ABOVE = "framework inference cluster report apps cli zoo compiler/tools".split()
TOLD = (
    Executable, Target, Profile,
    cpu_target.Executable, dlp_target.Processed, profiling.Profile, dlp_profile.Profile,
)  # fmt: skip
OTHERS = {"name", "graph", "parts", "write", "time"}  # names that many things have


def guesses(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="hasattr" | "getattr"), args=[_, ast.Constant(value=str(name)), *_]
            ):
                yield name


def test_guesses_are_found() -> None:
    assert list(guesses(ast.parse('a = hasattr(run, "division") and getattr(run, "weights", None)'))) == [
        "division", "weights",
    ]  # fmt: skip


def test_nobody_above_guesses_what_a_target_gave(root: Path) -> None:
    members = {
        name
        for kind in TOLD
        for name in {
            *dir(kind),
            *getattr(kind, "__annotations__", {}),
            "division",
            "weights",
            "roofline",
            "run",
        }
        if not name.startswith("_")
    } - OTHERS
    found = [
        f"{path.relative_to(root)}: {name}"
        for room in ABOVE
        for path in (root / "trilobite" / room).rglob("*.py")
        for name in guesses(ast.parse(path.read_text()))
        if name in members
    ]
    assert not found
