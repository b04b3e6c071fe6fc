"""Object code on disk: whatever happens to the directory costs time, never a result."""

from __future__ import annotations

import os
import subprocess
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.native.kernels import AFFINE
from trilobite.native import cache as cache_module
from trilobite.native.cache import Cache, directory, kernels
from trilobite.native.driver import Call, Patch, Table

Script = Callable[..., subprocess.CompletedProcess[str]]


def _variant(i: int) -> tuple[str, int]:
    return AFFINE.replace("2.0", f"{i}.0"), 0


def _entries(place: Path) -> list[Path]:
    return sorted(path for path in (place / "objects").rglob("*") if path.is_file())


def _check(texts: list[tuple[str, int]], factors: list[int], cache: Cache) -> tuple[int, int]:
    """Runs the kernels; how many were compiled and how many came from disk."""
    made = kernels(texts, cache)
    x = np.array([-3.5, 0.25, 1e6], np.float32)
    for address, factor in zip(made.addresses, factors, strict=True):
        y = np.zeros_like(x)
        Table([Call(address, 0, 3)], [0, 0], [Patch(0, 0), Patch(1, 1)], arrays=2, alive=made).run((x, y))
        np.testing.assert_array_equal(y, np.float32(factor) * x + 1)
    return made.compiled, made.cached


def test_compiled_once_then_read(tmp_path: Path) -> None:
    texts, factors = [_variant(i) for i in (11, 12, 11)], [11, 12, 11]
    assert _check(texts, factors, Cache(tmp_path)) == (2, 0)
    assert len(_entries(tmp_path)) == 2
    assert _check(texts, factors, Cache(tmp_path)) == (0, 2)


def test_a_kernel_that_is_loaded_is_not_loaded_again(tmp_path: Path) -> None:
    first = kernels([_variant(21), _variant(22)], Cache(tmp_path))
    second = kernels([_variant(22), _variant(23)], Cache(tmp_path))
    assert second.addresses[0] == first.addresses[1]
    assert (second.compiled, second.cached) == (1, 0)
    del first  # the second keeps the code that it shares
    assert _check([_variant(22)], [22], Cache(tmp_path)) == (0, 0)


def test_what_is_loaded_does_not_wait_for_a_compilation(tmp_path: Path) -> None:
    first = kernels([_variant(24)], Cache(tmp_path))
    begun, end, ended = threading.Event(), threading.Event(), threading.Event()

    def compiling() -> None:
        with cache_module._loading:
            begun.set()
            end.wait(60)
            ended.set()

    other = threading.Thread(target=compiling)
    other.start()
    begun.wait()
    again = kernels([_variant(24)], Cache(tmp_path))
    assert not ended.is_set() and again.addresses == first.addresses
    end.set()
    other.join()


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: entry[:-1] + bytes([entry[-1] ^ 1]),
        lambda entry: entry[: len(entry) // 2],
        lambda entry: b"",
        lambda entry: b"x" + entry[1:],
        lambda entry: entry + b"more",
        lambda entry: os.urandom(len(entry)),
    ],
    ids=["bit", "truncated", "empty", "magic", "longer", "noise"],
)
def test_a_damaged_entry_is_compiled_anew_and_replaced(
    damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    assert _check([_variant(31)], [31], Cache(tmp_path)) == (1, 0)
    (entry,) = _entries(tmp_path)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert _check([_variant(31)], [31], Cache(tmp_path)) == (1, 0)
    assert entry.read_bytes() == whole
    assert _check([_variant(31)], [31], Cache(tmp_path)) == (0, 1)


def test_entries_of_other_versions_and_machines_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _check([_variant(41)], [41], Cache(tmp_path)) == (1, 0)
    now = cache_module._circumstances()
    for i in range(len(now)):
        other = (*now[:i], now[i] + "?", *now[i + 1 :])
        monkeypatch.setattr(cache_module, "_circumstances", lambda other=other: other)
        assert _check([_variant(41)], [41], Cache(tmp_path)) == (1, 0)
    assert len(_entries(tmp_path)) == 1 + len(now)


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=4000)
    keys = [f"{i:02d}" + "a" * 62 for i in range(6)]
    for age, key in enumerate(keys):
        cache.put(key, bytes(900))
        os.utime(cache._path(tmp_path / "objects", key), (1e9 + age, 1e9 + age))
    assert cache.get(keys[0]) == bytes(900)  # young again
    cache.trim()
    kept = [key for key in keys if cache.get(key) is not None]
    assert kept == [keys[0], keys[4], keys[5]]
    assert sum(path.stat().st_size for path in _entries(tmp_path)) <= 4000


def test_the_bound_holds_over_many_compilations(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=10_000)
    for i in range(200, 230):
        kernels([_variant(i)], cache)
    assert 0 < sum(path.stat().st_size for path in _entries(tmp_path)) <= 10_000


def test_what_a_dead_writer_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "objects" / "ab").mkdir(parents=True)
    left, fresh = (tmp_path / "objects" / "ab" / name for name in (".new-old", ".new-young"))
    left.write_bytes(b"half")
    os.utime(left, (1e9, 1e9))
    fresh.write_bytes(b"half")
    Cache(tmp_path).trim()
    assert not left.exists() and fresh.exists()


def test_a_directory_that_cannot_be_written_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    cache = Cache(tmp_path / "file")
    with pytest.warns(RuntimeWarning, match="compiled kernels cannot be kept in .*TRILOBITE_CACHE") as seen:
        assert _check([_variant(51), _variant(52)], [51, 52], cache) == (2, 0)
        assert _check([_variant(51)], [51], cache) == (1, 0)
    assert len(seen) == 1


def test_a_disk_that_fills_up_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second write fails as a full disk fails, half way."""
    cache, written = Cache(tmp_path), []
    whole = Cache._write

    def fill(path: Path, entry: bytes) -> None:
        if written:
            raise OSError(28, "No space left on device")
        written.append(path)
        whole(path, entry)

    monkeypatch.setattr(Cache, "_write", staticmethod(fill))
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        assert _check([_variant(i) for i in (61, 62, 63)], [61, 62, 63], cache) == (3, 0)
    assert _entries(tmp_path) == written
    assert _check([_variant(i) for i in (61, 62, 63)], [61, 62, 63], cache) == (2, 1)


def test_a_limit_on_files_leaves_nothing_half_written(script: Script, tmp_path: Path) -> None:
    place = tmp_path / "limited"
    done = script(
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "from trilobite.native.cache import kernels\n"
        "made = kernels([(AFFINE, 0)])\n"
        "print(made.compiled, made.addresses[0] > 0)\n",
        TRILOBITE_CACHE=str(place),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 True\n" and done.stderr.count("cannot be kept") == 1
    assert _entries(place) == []


def test_two_processes_that_compile_the_same(root: Path, tmp_path: Path) -> None:
    text = (
        "from tests.native.kernels import AFFINE\n"
        "from trilobite.native.cache import kernels\n"
        "made = kernels([(AFFINE.replace('2.0', f'{i}.0'), 0) for i in range(300, 330)])\n"
        "assert all(made.addresses)\n"
        "print(made.compiled + made.cached)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(root), "TRILOBITE_CACHE": str(tmp_path)}
    command = [os.sys.executable, "-W", "error", "-c", text]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in running:
        out, err = process.communicate(timeout=110)
        assert (process.returncode, out, err) == (0, "30\n", "")
    assert len(_entries(tmp_path)) == 30
    texts, factors = [_variant(i) for i in range(300, 330)], list(range(300, 330))
    assert _check(texts, factors, Cache(tmp_path)) == (0, 30)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRILOBITE_CACHE", str(tmp_path))
    assert directory() == tmp_path
    monkeypatch.delenv("TRILOBITE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert directory() == Path("/somewhere/trilobite")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert directory() is None


def test_without_a_home_everything_works_uncached() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _check([_variant(71)], [71], Cache(None)) == (1, 0)
        assert _check([_variant(71)], [71], Cache(None)) == (1, 0)
