"""Ten thousand attacks on what lies on disk: whatever is done to a file, what comes back is right or refused.

Each test takes a seed and works through some hundred random attacks (`file_attacks`). None may crash, hang
or give a value that was not put there.
"""

from __future__ import annotations

import signal
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_attacks import ATTACKS, Random, mended, opened

from trilobite.base.errors import TrilobiteError
from trilobite.framework import checkpoint
from trilobite.native.disk import LIMITS, Cache

pytestmark = pytest.mark.long
SEEDS = range(10)
SECONDS = 60  # for one read of a few hundred bytes: a read that waits for somebody would never end


@contextmanager
def no_hang() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError("a read hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# -- entries of caches: 6,500 attacks ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("seed", SEEDS)
def test_entries_of_a_cache(kind: str, seed: int, tmp_path: Path) -> None:
    r = np.random.default_rng((seed, *kind.encode()))
    cache = Cache(tmp_path / "cache", kind=kind)
    keys = [r.bytes(32).hex() for _ in range(6)]
    contents = {key: r.bytes(int(r.integers(1, 300))) for key in keys}
    for key, content in contents.items():
        cache.put(key, content)
    assert cache.place is not None
    for _ in range(130):
        key, beside = r.choice(keys, 2, replace=False)
        attack = ATTACKS[int(r.integers(len(ATTACKS)))]
        path, other = cache._path(cache.place, key), cache._path(cache.place, beside)
        attack(path, other, r)
        with no_hang(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader = Cache(tmp_path / "cache", kind=kind)  # as another process
            for k in (key, beside):
                found = reader.get(k)
                assert found is None or found == contents[k], (attack.__name__, k)
            reader.trim()
        if attack in (opened,):
            assert reader.get(key) is None
        for k, p in ((key, path), (beside, other)):
            mended(p)
            reader.put(k, contents[k])
            assert Cache(tmp_path / "cache", kind=kind).get(k) == contents[k]
            assert stat.S_IMODE(p.stat().st_mode) == 0o600


@pytest.mark.parametrize("seed", SEEDS)
def test_directories_of_a_cache(seed: int, tmp_path: Path) -> None:
    r = np.random.default_rng(seed)
    for i in range(30):
        root = tmp_path / str(i)
        key, content = r.bytes(32).hex(), r.bytes(20)
        Cache(root).put(key, content)
        level = [root, root / "objects"][int(r.integers(2))]
        level.chmod(int(r.choice([0o777, 0o770, 0o702, 0o720])))
        with no_hang(), pytest.warns(RuntimeWarning, match="others may write"):
            reader = Cache(root)
            assert reader.get(key) is None
            reader.put(key, b"not kept")
        level.chmod(0o700)
        assert Cache(root).get(key) == content


# -- files with tensors: 4,000 attacks -----------------------------------------------------------------------


def _tree(r: Random) -> dict[str, Any]:
    return {
        "w": r.standard_normal((3, 4)).astype(np.float32),
        "n": r.integers(0, 100, 5),
        "deep": {"b": r.standard_normal(2)},
    }


def _flat(tree: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    return {"w": tree["w"], "n": tree["n"], "b": tree["deep"]["b"]}


def _equal(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_equal(found[k], v) for k, v in expected.items())
    array = np.asarray(found)
    return array.dtype == expected.dtype and array.tobytes() == expected.tobytes()


def attacked(
    paths: list[Path], load: Callable[[], Any], judge: Callable[[Any], bool], r: Random, count: int
) -> int:
    """Attacks the files in turn and loads; how often that was refused."""
    whole = {p: p.read_bytes() for p in paths}
    refused = 0
    for _ in range(count):
        path, other = paths[int(r.integers(len(paths)))], paths[int(r.integers(len(paths)))]
        attack = ATTACKS[int(r.integers(len(ATTACKS)))]
        attack(path, other, r)
        try:
            with no_hang():
                found = load()
            assert judge(found), attack.__name__
        except (TrilobiteError, OSError) as error:
            assert str(error)
            refused += 1
        for p, data in whole.items():
            mended(p)
            p.write_bytes(data)
    return refused


@pytest.mark.parametrize("seed", SEEDS)
def test_checkpoints(seed: int, tmp_path: Path) -> None:
    """With checksums: what is loaded is what was saved."""
    r = np.random.default_rng(seed)
    tree = _tree(r)
    checkpoint.save(tmp_path / "c", tree)
    files = sorted(p for p in (tmp_path / "c").rglob("*") if p.is_file())
    assert attacked(files, lambda: checkpoint.load(tmp_path / "c"), lambda t: _equal(t, tree), r, 130) > 80


@pytest.mark.parametrize("seed", SEEDS)
def test_weight_files(seed: int, tmp_path: Path) -> None:
    """Without checksums a flipped bit may change a number, never a type, never another's memory."""
    r = np.random.default_rng(seed)
    arrays = _flat(_tree(r))
    one, two = tmp_path / "a.safetensors", tmp_path / "b.npz"
    checkpoint.save_safetensors(one, arrays)
    checkpoint.save_npz(two, arrays)

    def plausible(found: Any) -> bool:
        sizes = {np.asarray(v).nbytes for v in found.values()}
        return all(size < 4096 for size in sizes)

    for path, load in ((one, checkpoint.load_safetensors), (two, checkpoint.load_npz)):
        assert attacked([path], lambda p=path, f=load: f(p), plausible, r, 130) > 30
