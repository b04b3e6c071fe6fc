"""What can be done to a file, at random: its content changed, exchanged, cut; the file turned into something
else, or opened to others.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np

Random = np.random.Generator


def flip(path: Path, other: Path, r: Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(int(r.integers(1, 4))):
        data[int(r.integers(len(data)))] ^= 1 << int(r.integers(8))
    path.write_bytes(data)


def cut(path: Path, other: Path, r: Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(r.integers(len(data)))])


def grow(path: Path, other: Path, r: Random) -> None:
    path.write_bytes(path.read_bytes() + r.bytes(int(r.integers(1, 40))))


def blank(path: Path, other: Path, r: Random) -> None:
    data = bytearray(path.read_bytes())
    start = int(r.integers(len(data)))
    data[start : start + 64] = bytes(len(data[start : start + 64]))
    path.write_bytes(data)


def exchange(path: Path, other: Path, r: Random) -> None:
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


def splice(path: Path, other: Path, r: Random) -> None:
    one, two = path.read_bytes(), other.read_bytes()
    at = int(r.integers(min(len(one), len(two))))
    path.write_bytes(one[:at] + two[at:])


def noise(path: Path, other: Path, r: Random) -> None:
    path.write_bytes(r.bytes(int(r.integers(0, 400))))


def link(path: Path, other: Path, r: Random) -> None:
    path.unlink()
    path.symlink_to(other if r.integers(2) else path)


def pipe(path: Path, other: Path, r: Random) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path, other: Path, r: Random) -> None:
    path.unlink()
    path.mkdir()


def listen(path: Path, other: Path, r: Random) -> None:
    path.unlink()
    here = os.getcwd()
    os.chdir(path.parent)  # the address of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path.name)
    finally:
        os.chdir(here)


def opened(path: Path, other: Path, r: Random) -> None:
    """Others may write it: what it holds may be theirs."""
    path.chmod(int(r.choice([0o622, 0o620, 0o602, 0o666])))


def gone(path: Path, other: Path, r: Random) -> None:
    path.unlink()


ATTACKS: tuple[Callable[[Path, Path, Random], None], ...] = (
    flip, cut, grow, blank, exchange, splice, noise, link, pipe, folder, listen, opened, gone,
)  # fmt: skip


def mended(path: Path) -> None:
    """Makes room for a file where something else stands."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()
