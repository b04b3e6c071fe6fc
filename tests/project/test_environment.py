"""The environment is pinned, by version and hash, and what is pinned is what pyproject.toml asks for."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools import set_up
from trilobite.apps import demo

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+) \\\n(?P<hashes>(?: +--hash=\S+(?: \\)?\n)+)", re.MULTILINE
)


def pins(name: str) -> dict[str, Version]:
    text = (ROOT / "requirements" / name).read_text()
    found = {canonicalize_name(pin["name"]): Version(pin["version"]) for pin in PIN.finditer(text)}
    assert len(found) == len(re.findall(r"^\S+==", text, re.MULTILINE)), "a pin without hashes"
    return found


def asked(*groups: list[str]) -> Iterator[Requirement]:
    return (Requirement(text) for group in groups for text in group)


def unmet(requirements: Iterator[Requirement], locked: dict[str, Version]) -> list[str]:
    missing = Version("0")
    return [
        str(wanted)
        for wanted in requirements
        if not wanted.specifier.contains(locked.get(canonicalize_name(wanted.name), missing))
        or canonicalize_name(wanted.name) not in locked
    ]


def test_the_lock_holds_what_the_project_asks_for() -> None:
    assert unmet(asked(PROJECT["dependencies"]), pins("runtime.txt")) == []
    extras = PROJECT["optional-dependencies"].values()
    assert unmet(asked(PROJECT["dependencies"], *extras), pins("dev.txt")) == []


def test_an_unmet_requirement_is_seen() -> None:
    locked = {"numpy": Version("2.4.6")}
    assert unmet(asked(["numpy>=2", "numpy>=3", "absent"]), locked) == ["numpy>=3", "absent"]


def test_both_locks_agree() -> None:
    developer = pins("dev.txt")
    assert {name: developer.get(name) for name in pins("runtime.txt")} == pins("runtime.txt")


@pytest.mark.parametrize("name", ["runtime.txt", "dev.txt"])
def test_the_locks_name_no_source_and_only_sha256(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    assert not re.search(r"https?:/|file:/|^-(?!-hash)", text, re.MULTILINE)
    hashes = re.findall(r"--hash=(\S+)", text)
    assert hashes
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes)


def test_this_run_uses_the_locked_packages() -> None:
    from importlib.metadata import version

    locked = pins("dev.txt")
    names = ("numpy", "ml-dtypes", "hypothesis", "pytest", "mypy", "ruff")
    assert {name: Version(version(name)) for name in names} == {name: locked[name] for name in names}


def test_extras_and_interpreter_are_as_documented() -> None:
    assert set(PROJECT["optional-dependencies"]) == {"onnx", "bang", "cluster", "polyhedral", "demo", "dev"}
    oldest, (major, minor) = ".".join(map(str, set_up.OLDEST)), set_up.NEWEST
    assert PROJECT["requires-python"] == f">={oldest},<{major}.{minor + 1}"
    assert PROJECT["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_an_old_python_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(SystemExit) as caught:
        set_up.check_version()
    message = str(caught.value.code)
    assert message.startswith("Trilobite needs Python 3.11 or newer; this is Python 3.10.13.\n  where: ")
    assert "remedy: install a newer Python and name it: make PYTHON=" in message


def test_the_setup_script_is_readable_by_old_pythons() -> None:
    import ast

    ast.parse((ROOT / "tools" / "set_up.py").read_text(), feature_version=(3, 7))


def test_an_environment_that_does_not_run_is_not_usable(tmp_path: Path) -> None:
    assert set_up.is_usable(sys.executable)
    assert not set_up.is_usable(str(tmp_path / "bin" / "python"))
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert not set_up.is_usable(str(broken))


def test_ci_runs_make_test_and_passes_its_failure_on(tmp_path: Path) -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "make $@ in $PWD"\nexit 7\n')
    make.chmod(0o755)
    environment = dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}")
    done = subprocess.run(
        ["bash", str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == (f"make test in {ROOT}\n", 7)


def test_what_the_demo_lacks_is_said_once_and_the_extra_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [re.split(r"[<>=]", word)[0] for word in PROJECT["optional-dependencies"]["demo"]]
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    monkeypatch.setattr(demo.shutil, "which", lambda name: None)
    assert demo.lacking() == asked
    monkeypatch.setattr(demo.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert demo.lacking() == asked[:2]
    monkeypatch.setattr(demo, "find_spec", lambda name: name)
    assert demo.lacking() == []
