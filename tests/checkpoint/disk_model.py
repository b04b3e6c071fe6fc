"""A disk that loses power: what may be left of a directory after a crash between two calls.

`Recorder` stands in for `os`, lets the calls happen and notes them. `Disk` replays the notes by the rules
that POSIX gives: the content of a file is safe once it was fsynced; a name is safe once its directory was;
what was not may have reached the disk or not, each change for itself. A rename within one directory is one
change; one from a directory to another is a change of each, and the two are not tied together (many file
systems are kinder).
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

from fault_layer import Layer

Note = tuple[str, Any, Any]


class Recorder(Layer):
    """Lets everything happen, and notes each change with paths relative to `root`."""

    def __init__(self, root: Path) -> None:
        super().__init__(lambda *_: None)
        self.root, self.notes = root, []  # type: tuple[Path, list[Note]]
        self._paths: dict[int, str] = {}

    def note(self, kind: str, first: Any = None, second: Any = None) -> None:
        self.notes.append((kind, first, second))

    def _relative(self, path: Any) -> str:
        return os.path.relpath(path, self.root)

    def open(self, path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        fresh = bool(flags & os.O_CREAT) and not os.path.exists(path)
        fd = os.open(path, flags, *args, **kwargs)
        self._paths[fd] = self._relative(path)
        if fresh:
            self.note("create", self._paths[fd])
        return fd

    def close(self, fd: int) -> None:
        self._paths.pop(fd)
        os.close(fd)

    def write(self, fd: int, data: Any) -> int:
        count = os.write(fd, data)
        self.note("write", self._paths[fd], bytes(data[:count]))
        return count

    def fsync(self, fd: int) -> None:
        os.fsync(fd)
        self.note("fsync", self._paths[fd])

    def mkdir(self, path: Any, *args: Any) -> None:
        os.mkdir(path, *args)
        self.note("mkdir", self._relative(path))

    def rename(self, source: Any, target: Any) -> None:
        os.rename(source, target)
        self.note("rename", self._relative(source), self._relative(target))

    replace = rename

    def unlink(self, path: Any) -> None:
        os.unlink(path)
        self.note("remove", self._relative(path))

    def rmdir(self, path: Any) -> None:
        os.rmdir(path)
        self.note("remove", self._relative(path))


class File:
    def __init__(self) -> None:
        self.now, self.safe = b"", b""


class Folder:
    def __init__(self) -> None:
        self.now: dict[str, Any] = {}
        self.safe: dict[str, Any] = {}
        self.pending: list[dict[str, Any]] = []  # each change: name -> node, or None where it goes


class Disk:
    """What is in the caches and what is safe, after some of the noted changes."""

    def __init__(self) -> None:
        self.root = Folder()

    def _folder(self, path: str) -> tuple[Folder, str]:
        *parents, name = path.split("/")
        folder = self.root
        for parent in parents:
            folder = folder.now[parent]
        return folder, name

    def _find(self, path: str) -> Any:
        if path == ".":
            return self.root
        folder, name = self._folder(path)
        return folder.now[name]

    def _change(self, folder: Folder, change: dict[str, Any]) -> None:
        folder.pending.append(change)
        _apply(folder.now, change)

    def apply(self, note: Note) -> None:
        kind, first, second = note
        if kind == "write":
            self._find(first).now += second
        elif kind == "fsync":
            node = self._find(first)
            node.safe = dict(node.now) if isinstance(node, Folder) else node.now
            if isinstance(node, Folder):
                node.pending = []
        elif kind == "rename":
            self._rename(first, second)
        else:
            folder, name = self._folder(first)
            self._change(folder, {name: {"create": File, "mkdir": Folder, "remove": lambda: None}[kind]()})

    def _rename(self, source: str, target: str) -> None:
        (here, old), (there, new) = self._folder(source), self._folder(target)
        node = here.now[old]
        if here is there:
            self._change(here, {old: None, new: node})
        else:
            self._change(there, {new: node})
            self._change(here, {old: None})

    def after_crash(self, target: Path, rng: Random, chance: float) -> None:
        """Lay out what is found after a crash, where each unsafe change survived with the given chance."""
        _lay_out(self.root, target, rng, chance)


def _apply(entries: dict[str, Any], change: dict[str, Any]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def _lay_out(folder: Folder, target: Path, rng: Random, chance: float) -> None:
    target.mkdir(exist_ok=True)
    entries = dict(folder.safe)
    for change in folder.pending:
        if rng.random() < chance:
            _apply(entries, change)
    for name, node in entries.items():
        if isinstance(node, Folder):
            _lay_out(node, target / name, rng, chance)
        else:
            lost = node.now != node.safe and rng.random() >= chance
            (target / name).write_bytes(node.safe if lost else node.now)
