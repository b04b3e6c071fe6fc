"""Loads the package with mutants planted in it, in this process and in those that it starts.

Enters: a folder with `index.json` (path of a source -> file with its code) and the number of the mutant that
is awake, or none. Leaves: modules in which that one change holds, and `seen`: the numbers of those that were
passed asleep. A process that was started by another writes what it has seen into a file of the folder.
Whoever compiles a module from its source (`typed_python`) is given the text with the change in it.
It imports nothing of this project: a test's child process finds it by its path alone.
"""

from __future__ import annotations

import builtins
import inspect
import json
import marshal
import os
import subprocess
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

CALL = "__mutant__"
FOLDER, AWAKE, OWNER = "MUTANTS_FOLDER", "MUTANT_AWAKE", "MUTANTS_OWNER"  # environment
NONE = -1
seen: set[int] = set()
_compiled: set[int] = set()  # stand in a source that was read: machine code made of it tells nothing
_state = [NONE, NONE]  # the one that is awake; the process that reads `seen`


def start(folder: Path, awake: int = NONE) -> None:
    """From now on, in this process and its children. Before anything of the package is imported."""
    os.environ[FOLDER] = str(folder)
    wake(awake)
    install()


def wake(number: int) -> None:
    """This one, in this process and its children."""
    os.environ.update({AWAKE: str(number), OWNER: str(os.getpid())})
    _state[:] = number, os.getpid()


def forget() -> None:
    """Another test begins. What was compiled may run in it unseen."""
    seen.clear()
    seen.update(_compiled)


def install() -> None:
    folder = Path(os.environ[FOLDER])
    index: dict[str, str] = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    _state[:] = int(os.environ[AWAKE]), int(os.environ[OWNER])
    setattr(builtins, CALL, _asked(folder))
    plain = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        kept = index.get(str(self.path))
        return marshal.loads((folder / kept).read_bytes()) if kept else plain(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    inspect.getsource = _sources(folder)  # type: ignore[assignment]
    _lead_children(folder)


def _sources(folder: Path) -> Callable[[Any], str]:
    """A module's source as the mutant that is awake changes it."""
    plain: Callable[[Any], str] = inspect.getsource
    texts: dict[str, dict[str, str]] = json.loads((folder / "texts.json").read_text(encoding="utf-8"))

    def getsource(thing: Any) -> str:
        changed = texts.get(str(thing.__file__), {}) if isinstance(thing, ModuleType) else {}
        asked: Callable[[int], bool] = getattr(builtins, CALL)
        _compiled.update(map(int, changed))
        awake = [text for number, text in changed.items() if asked(int(number))]
        return awake[0] if awake else plain(thing)

    return getsource


def _asked(folder: Path) -> Callable[[int], bool]:
    """What stands before each planted change."""

    def asked(number: int) -> bool:
        if number == _state[0]:
            return True
        if number not in seen:
            seen.add(number)
            if os.getpid() != _state[1]:
                with (folder / f"seen-{_state[1]}").open("a", encoding="utf-8") as file:
                    file.write(f"{number}\n")
        return False

    return asked


def _lead_children(folder: Path) -> None:
    """Whatever environment a test gives to a process: it finds the `sitecustomize` that installs this."""
    plain: Callable[..., None] = subprocess.Popen.__init__

    def begin(self: subprocess.Popen[Any], *given: Any, env: Any = None, **named: Any) -> None:
        env = dict(os.environ if env is None else env)
        before = env.get("PYTHONPATH", "")
        if str(folder) not in before.split(os.pathsep):
            env["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [before])])
        for name in (FOLDER, AWAKE, OWNER):
            env.setdefault(name, os.environ[name])
        plain(self, *given, env=env, **named)

    subprocess.Popen.__init__ = begin  # type: ignore[method-assign]


SITE = f"""import importlib.util
spec = importlib.util.spec_from_file_location("planted", {__file__!r})
planted = importlib.util.module_from_spec(spec)
spec.loader.exec_module(planted)
planted.install()
"""
