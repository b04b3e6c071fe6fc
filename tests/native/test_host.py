"""What is said of machines."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from trilobite.native import host
from trilobite.native.host import AARCH64, SSE2, features, usable_cores


def test_this_machine_is_looked_at_once_and_makes_sense() -> None:
    here = features()
    assert here is features()
    assert here.vector_bytes in (16, 32) and here.registers in (16, 32)
    assert 8 << 10 <= here.l1 <= here.l2 <= here.l3
    assert here.lanes(4) * 4 == here.vector_bytes
    assert here.tile_bytes in (0, 64) and here.tile_lanes(4) * 4 == max(here.tile_bytes, here.vector_bytes)
    assert ("+fma" in here.features.split(",")) == here.fma or not here.triple.startswith("x86")


def test_a_name_stands_for_the_code_a_machine_runs_and_for_nothing_else() -> None:
    here = features()
    assert dataclasses.replace(here, cores=99, l3=1).name == here.name
    others = [
        dataclasses.replace(here, features="+sse2"),
        dataclasses.replace(here, cpu="generic"),
        SSE2,
        AARCH64,
    ]
    assert len({here.name, *(other.name for other in others)}) == 5


def _sysfs(place: Path, sizes: list[tuple[str, str, str]]) -> None:
    for i, facts in enumerate(sizes):
        (place / f"index{i}").mkdir(parents=True)
        for name, text in zip(("level", "type", "size"), facts, strict=True):
            (place / f"index{i}" / name).write_text(text + "\n")


def test_cache_sizes_are_read_where_the_system_tells_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _sysfs(
        tmp_path,
        [("1", "Instruction", "64K"), ("1", "Data", "48K"), ("2", "Unified", "2M"), ("3", "x", "1M")],
    )
    monkeypatch.setattr(host, "_SYSFS", tmp_path)
    assert [host._cache_bytes(level, 7) for level in (1, 2, 3)] == [48 << 10, 2 << 20, 7]
    monkeypatch.setattr(host, "_SYSFS", tmp_path / "absent")
    assert host._cache_bytes(1, 7) == 7


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 4),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("900000 100000", 4),
        ("", 4),
        ("junk", 4),
    ],
)
def test_a_quota_bounds_the_cores(
    quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(host, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert usable_cores() == cores
