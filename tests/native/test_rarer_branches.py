"""What the machine, the disk and trees of arguments are told rarely: quotas, widths, limits to the byte."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from trilobite.base import pytree
from trilobite.base.errors import ArgumentError
from trilobite.native import host
from trilobite.native.disk import Cache

WIDE = host._WIDE


@pytest.mark.parametrize(
    ("text", "present", "found"),
    [
        ("", WIDE, 64),
        ("64", WIDE, 64),
        ("32", WIDE, 0),
        ("", set(), 0),
        ("32", set(), 0),
        ("64", set(), None),
        ("16", WIDE, None),
    ],
)
def test_widths_of_tiles(text: str, present: Any, found: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRILOBITE_TILE_BYTES", text)
    if found is None:
        with pytest.raises(ArgumentError, match=f"TRILOBITE_TILE_BYTES is '{text}'"):
            host._tile_bytes(present)
        return
    assert host._tile_bytes(present) == found
    for name in present if text != "64" else ():
        assert host._tile_bytes(set(present) - {name}) == 0


@pytest.mark.parametrize(
    ("quota", "cores", "found"),
    [("max 100000", 6, 6), ("", 6, 6), ("150000 100000", 6, 2), ("200000 100000", 6, 2),
     ("200001 100000", 6, 3), ("900000 100000", 6, 6), ("1000 100000", 6, 1), ("5 0", 6, 6), ("1 2 3", 6, 6)],
)  # fmt: skip
def test_cores_that_a_quota_pays_for(
    quota: str, cores: int, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_read", lambda path: quota)
    monkeypatch.setattr("trilobite.native.host.os.sched_getaffinity", lambda pid: set(range(cores)))
    assert host.usable_cores() == found


def test_where_no_affinity_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(pid: int) -> Any:
        raise AttributeError

    monkeypatch.setattr(host, "_read", lambda path: "")
    monkeypatch.setattr("trilobite.native.host.os.sched_getaffinity", missing)
    for told, found in ((5, 5), (None, 1), (0, 1)):
        monkeypatch.setattr("trilobite.native.host.os.cpu_count", lambda told=told: told)
        assert host.usable_cores() == found


def test_lanes_of_registers() -> None:
    assert host.SSE2.lanes(4) == 4 and host.SSE2.tile_lanes(4) == 4
    assert host.Host("x86_64-x", "c", "+f", 32, 16, True, True, tile_bytes=64).tile_lanes(4) == 16
    names = {
        host.Host("x86_64-x", "c", f, 32, 16, True, True, tile_bytes=t).name
        for f in "ab"
        for t in (0, 32, 64)
    }
    assert len(names) == 6
    a, b = (host.Host("x86_64-x", "c", "f", 32, 16, True, True, l2=n, cores=n) for n in (1, 2))
    assert a.name == b.name and a.name.startswith("x86_64-c-")


# -- the disk ------------------------------------------------------------------------------------------------


def made(folder: Path, limit: int) -> Cache:
    return Cache(folder, limit)


def kept(disk: Cache, keys: list[str]) -> list[str]:
    return [key for key in keys if disk.has(key)]


def filled(folder: Path, limit: int, count: int = 4, size: int = 1000) -> tuple[Cache, list[str], int]:
    """Entries, the oldest first, and how large each is on the disk."""
    disk = made(folder, limit)
    keys = [f"{n:02x}" * 8 for n in range(count)]
    for n, key in enumerate(keys):
        disk.put(key, bytes(size))
        path = disk._path(disk.place, key)
        os.utime(path, (1e9 + n, 1e9 + n))
    return disk, keys, path.stat().st_size


def test_the_oldest_go_when_a_limit_is_passed(tmp_path: Path) -> None:
    _, _, each = filled(tmp_path / "a", 1 << 30)
    for limit, left in ((4 * each, 4), (4 * each - 1, 3), (3 * each, 2), (1, 0)):
        disk, keys, _ = filled(tmp_path / str(limit), limit)
        made(tmp_path / str(limit), limit).trim()
        excess = 4 * each - limit
        gone = 0 if excess <= 0 else -(-(excess + limit // 8) // each)
        assert kept(disk, keys) == keys[gone:] and len(keys[gone:]) == left, limit


def test_trims_are_rare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, keys, _ = filled(tmp_path, 6400)
    disk.trim()
    looked: list[int] = []
    monkeypatch.setattr(disk, "_entries", lambda place: looked.append(1) or iter(()))
    disk.put(keys[0], bytes(99))
    disk.trim()
    assert not looked
    disk.put(keys[1], bytes(1))
    disk.trim()
    assert looked == [1]


def test_what_dead_writers_left_goes_after_an_hour(tmp_path: Path) -> None:
    disk, keys, _ = filled(tmp_path, 1 << 30)
    folder = disk._path(disk.place, keys[0]).parent
    now = time.time()
    for name, age in ((".new-a", 4000), (".new-b", 3000), ("plain", 9000)):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (now - age, now - age))
    made(tmp_path, 1 << 30).trim()
    assert sorted(p.name for p in folder.iterdir() if p.name in (".new-a", ".new-b", "plain")) == [
        ".new-b",
        "plain",
    ]


# -- trees ---------------------------------------------------------------------------------------------------


def test_prefixes_of_trees() -> None:
    value = ({"a": 1, "b": [2, 3]}, 4, ())
    assert pytree.broadcast_prefix(0, value) == [0] * 4 and pytree.broadcast_prefix(None, value) == [None] * 4
    assert pytree.broadcast_prefix((0, None, ()), value) == [0, 0, 0, None]
    assert pytree.broadcast_prefix(({"a": 5, "b": 6}, 7, ()), value) == [5, 6, 6, 7]
    assert pytree.broadcast_prefix(({"a": 5, "b": [6, 8]}, 7, ()), value) == [5, 6, 8, 7]
    leaf = (1, 2)
    assert pytree.broadcast_prefix(leaf, value, lambda x: x is leaf) == [leaf] * 4
    for wrong in (
        [0, 1, 2],
        (0, 1),
        (0, 1, (), 3),
        ({"a": 0}, 1, ()),
        ({"a": 0, "c": 1}, 1, ()),
        (0, [1], ()),
    ):
        with pytest.raises(ArgumentError, match="does not fit the structure of"):
            pytree.broadcast_prefix(wrong, value)


def test_every_step_of_an_exchange_has_a_number_of_its_own() -> None:
    from trilobite.native.exchange import _KINDS

    assert sorted(_KINDS.values()) == list(range(len(_KINDS)))
