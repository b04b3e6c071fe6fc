"""What the cache trusts: entries of their own key, regular files and directories of this user alone."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from trilobite.native import disk
from trilobite.native.disk import Cache

A, B = "aa" + "1" * 62, "bb" + "2" * 62


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    made = Cache(tmp_path / "cache")
    made.put(A, b"one")
    made.put(B, b"two")
    return made


def path_of(cache: Cache, key: str) -> Path:
    assert cache.place is not None
    return cache._path(cache.place, key)


def test_exchanged_entries_are_noticed(cache: Cache) -> None:
    first, second = path_of(cache, A), path_of(cache, B)
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    assert cache.get(A) is None and cache.get(B) is None
    cache.put(A, b"one")
    assert cache.get(A) == b"one"


def test_every_byte_of_an_entry_counts(cache: Cache) -> None:
    path = path_of(cache, A)
    whole = path.read_bytes()
    for place in range(len(whole)):
        broken = bytearray(whole)
        broken[place] ^= 1
        path.write_bytes(broken)
        assert cache.get(A) is None, place
        path.write_bytes(whole[:place])
        assert cache.get(A) is None, place
    path.write_bytes(whole)
    assert cache.get(A) == b"one"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_directories_and_entries_are_for_this_user_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        cache = Cache(tmp_path / "deep" / "cache")
        cache.put(A, b"one")
    finally:
        os.umask(before)
    place = path_of(cache, A)
    assert place.stat().st_mode & 0o777 == 0o600 & ~umask
    for level in (place.parent, place.parent.parent, tmp_path / "deep" / "cache", tmp_path / "deep"):
        assert level.stat().st_mode & 0o777 == 0o700, level
    assert cache.get(A) == b"one"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
@pytest.mark.parametrize("level", ["", "objects"])
def test_a_directory_that_others_may_write_is_not_used(cache: Cache, level: str, mode: int) -> None:
    assert cache.root is not None
    (cache.root / level).chmod(mode)
    disk._warned.clear()
    again = Cache(cache.root)
    with pytest.warns(RuntimeWarning, match="others may write") as said:
        assert again.get(A) is None
        again.put(A, b"other")
        assert again.get(A) is None
    assert len(said) == 1
    (cache.root / level).chmod(0o700)
    assert Cache(cache.root).get(A) == b"one"


def test_an_entry_that_others_may_write_is_not_read(cache: Cache) -> None:
    path_of(cache, A).chmod(0o622)
    assert cache.get(A) is None
    path_of(cache, B).chmod(0o644)
    assert cache.get(B) == b"two"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_somebody_else_is_not_read(cache: Cache) -> None:
    assert cache.root is not None
    os.chown(path_of(cache, A), 12345, -1)
    assert cache.get(A) is None
    os.chown(cache.root, 12345, -1)
    disk._warned.clear()
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert Cache(cache.root).get(B) is None


def test_only_regular_files_are_opened(cache: Cache, tmp_path: Path) -> None:
    path = path_of(cache, A)
    content = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    assert cache.get(A) is None  # and did not wait for a writer
    path.unlink()
    (tmp_path / "elsewhere").write_bytes(content)
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.get(A) is None
    path.unlink()
    path.mkdir()
    assert cache.get(A) is None


def test_thousands_of_random_attacks_never_give_another_entry(cache: Cache) -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    paths = [path_of(cache, key) for key in (A, B)]
    whole = [path.read_bytes() for path in paths]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(1500):
            entry = bytearray(whole[int(rng.integers(2))])
            for _ in range(int(rng.integers(0, 4))):
                entry[int(rng.integers(len(entry)))] = int(rng.integers(256))
            cut = int(rng.integers(len(entry) + 1)) if rng.random() < 0.3 else len(entry)
            paths[0].write_bytes(entry[:cut])
            assert cache.get(A) in (None, b"one")
