"""The database: what is kept comes back, and whatever is wrong with the file is as if it were not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trilobite.base.errors import DataError
from trilobite.compiler.targets.cpu.tuning import database
from trilobite.compiler.targets.cpu.tuning.database import VERSION, Entry, current, keep, path_of, read
from trilobite.native.host import features

KEY = "loops f32[70001] of exp"
ENTRY = Entry({"block": 4096}, 1e-4, 2e-4, 12, "2026-11-16")


def file() -> Path:
    path = path_of(features().name)
    assert path is not None
    return path


def test_entries_come_back() -> None:
    assert not current()
    keep({KEY: ENTRY})
    assert current().entries == {KEY: ENTRY}
    assert read(features().name).parameters(KEY) == {"block": 4096}
    assert read("another-cpu").entries == {}


def test_later_entries_replace_earlier_ones_of_their_key() -> None:
    newer, other = Entry({"block": 512}, 1e-5, 2e-4, 3, "2026-11-17"), "loops f32[9] of exp"
    keep({KEY: ENTRY})
    keep({KEY: newer, other: ENTRY})
    assert current().entries == {KEY: newer, other: ENTRY}
    assert not [p for p in file().parent.iterdir() if p.name.startswith(".new-")]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '{"version": 1}', json.dumps({"version": VERSION, "cpu": "x", "entries": {}}),
     json.dumps({"version": VERSION, "cpu": "CPU", "entries": []})],
)  # fmt: skip
def test_a_damaged_file_counts_as_empty(text: str) -> None:
    keep({KEY: ENTRY})
    file().write_text(text.replace("CPU", features().name))
    current.cache_clear()
    assert not current()
    keep({KEY: ENTRY})
    assert current().entries == {KEY: ENTRY}


def test_another_version_is_not_read() -> None:
    keep({KEY: ENTRY})
    file().write_text(file().read_text().replace(f'"version": {VERSION}', f'"version": {VERSION + 1}'))
    assert not read(features().name)


@pytest.mark.parametrize(
    "row",
    [{}, 7, {"parameters": {"block": "wide"}}, {"parameters": {"block": 3}}, {"parameters": {"units": 4}},
     {"parameters": {"block": 10**9}}],
)  # fmt: skip
def test_an_entry_that_makes_no_sense_is_left_out(row: object) -> None:
    keep({KEY: ENTRY})
    found = json.loads(file().read_text())
    full = found["entries"][KEY]
    found["entries"]["loops broken"] = {**full, **row} if isinstance(row, dict) and row else row
    found["entries"]["unheard of"] = full
    file().write_text(json.dumps(found))
    assert read(features().name).entries == {KEY: ENTRY}


def test_a_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRILOBITE_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="what tuning found cannot be kept") as caught:
        keep({KEY: ENTRY})
    assert "remedy: make room there, or set TRILOBITE_CACHE" in str(caught.value)
    monkeypatch.setattr(database, "directory", lambda: None)
    with pytest.raises(DataError, match="tuning has nowhere to keep its results"):
        keep({KEY: ENTRY})


def test_a_full_disk_leaves_the_old_file(monkeypatch: pytest.MonkeyPatch) -> None:
    keep({KEY: ENTRY})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(database.os, "replace", full)
        with pytest.raises(DataError, match="No space left on device"):
            keep({"loops other": ENTRY})
    assert read(features().name).entries == {KEY: ENTRY}
    assert [p.name for p in file().parent.iterdir()] == [file().name]
