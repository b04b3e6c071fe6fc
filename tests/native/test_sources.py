"""The digest of the package's own files: it changes when they do, and is not read out of them every time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from trilobite.native import sources


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRILOBITE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "room" / "inner").mkdir(parents=True)
    (tmp_path / "room" / "a.py").write_text("x = 1\n")
    (tmp_path / "room" / "inner" / "b.ll").write_text("; b\n")
    return tmp_path


def digest(package: Path) -> str | None:
    sources.digest.cache_clear()
    return sources.digest(("room",), package)


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes lie far enough behind for their times to be trusted."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 60)


def test_any_change_is_another_digest(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch)
    a, b = package / "room" / "a.py", package / "room" / "inner" / "b.ll"
    found = [digest(package)]
    assert digest(package) == found[0]
    times = a.stat()
    a.write_text("x = 2\n")  # as long as before, and said to be as old
    os.utime(a, ns=(times.st_atime_ns, times.st_mtime_ns))
    found.append(digest(package))
    b.rename(b.with_name("c.ll"))
    found.append(digest(package))
    (package / "room" / "new.py").write_text("")
    found.append(digest(package))
    (package / "room" / "notes.txt").write_text("decides nothing")
    assert digest(package) == found[-1]
    assert None not in found and len(set(found)) == len(found)


def test_files_are_read_once(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch)
    first = digest(package)
    monkeypatch.setattr(sources, "_read", lambda *_: pytest.fail("read again"))
    assert digest(package) == first


def test_what_changed_a_moment_ago_is_read_every_time(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert digest(package) is not None
    monkeypatch.setattr(sources, "_read", lambda *_: "read again")
    assert digest(package) == "read again"


def test_a_package_that_is_in_no_directory_has_none(package: Path) -> None:
    assert digest(package / "room" / "a.py") is None


def test_the_same_files_elsewhere_have_the_same_digest(package: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "room" / "inner").mkdir(parents=True)
    for name in ("room/a.py", "room/inner/b.ll"):
        (other / name).write_bytes((package / name).read_bytes())
    assert digest(other) == digest(package)
