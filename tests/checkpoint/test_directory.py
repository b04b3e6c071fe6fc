"""One checkpoint: what comes back is what was saved, bit for bit, and what does not fit is said at once."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from checkpoint_trees import any_bits, assert_same, bits, training_state, trees
from hypothesis import given

from trilobite.base import pytree
from trilobite.base.errors import ArgumentError, DTypeError, FileError, StateError
from trilobite.framework import checkpoint
from trilobite.framework.checkpoint import directory, safetensors
from trilobite.framework.checkpoint.arrays import DTYPES


@given(trees)
def test_any_tree_comes_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, tree: Any) -> None:
    path = tmp_path_factory.mktemp("tree") / "here"
    checkpoint.save(path, tree)
    assert_same(checkpoint.load(path), tree)


@pytest.mark.parametrize("name", DTYPES)
def test_every_code_of_every_dtype_comes_back(tmp_path: Path, name: str) -> None:
    dtype = DTYPES[name]
    tree = {
        "many": any_bits(dtype, (3, 1001), 5),
        "one": any_bits(dtype, (), 6),
        "none": np.empty((3, 0, 2), dtype),
    }
    checkpoint.save(tmp_path / "c", tree)
    assert_same(checkpoint.load(tmp_path / "c"), tree)


def test_nan_payloads_and_signed_zeros_survive_in_arrays_and_scalars(tmp_path: Path) -> None:
    payload = np.array([0x7FF8000000000123, 0xFFF0000000000001, 0x8000000000000000], np.uint64).view(
        np.float64
    )
    tree = {"array": payload, "nan": float(payload[0]), "zero": -0.0, "tiny": 5e-324, "third": 1 / 3}
    checkpoint.save(tmp_path / "c", tree)
    found = checkpoint.load(tmp_path / "c")
    assert found["array"].view(np.uint64).tolist() == payload.view(np.uint64).tolist()
    assert all(bits(found[k]) == bits(tree[k]) for k in ("nan", "zero", "tiny", "third"))


def test_integers_beyond_the_limit_of_decimal_text_survive(tmp_path: Path) -> None:
    tree = {"huge": -(7**9000), "edge": [2**53, 2**53 + 1, -(2**53) - 1]}
    checkpoint.save(tmp_path / "c", tree)
    assert checkpoint.load(tmp_path / "c") == tree


def test_foreign_byte_order_becomes_native_and_keeps_its_values(tmp_path: Path) -> None:
    swapped = np.array([1.5, -2.25, np.inf], ">f4")
    checkpoint.save(tmp_path / "c", swapped)
    found = checkpoint.load(tmp_path / "c")
    assert found.dtype == np.dtype("float32") and found.dtype.isnative
    assert found.tolist() == [1.5, -2.25, np.inf]


class Handle:
    """Stands for a tensor: not an array, but convertible."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.value


def test_whatever_has_an_array_is_saved_as_one(tmp_path: Path) -> None:
    value = np.random.default_rng(0).normal(size=(4, 3))[:, ::2]
    checkpoint.save(tmp_path / "c", {"t": Handle(value), "scalar": np.float32(-1.25)})
    assert_same(checkpoint.load(tmp_path / "c"), {"t": value, "scalar": np.array(-1.25, np.float32)})
    fitting = checkpoint.load(tmp_path / "c", like={"t": Handle(np.zeros((4, 2))), "scalar": np.float32(0)})
    assert_same(fitting["t"], value)


def test_loaded_arrays_are_writable_and_apart(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", {"a": np.zeros(3), "b": np.zeros(3)})
    found = checkpoint.load(tmp_path / "c")
    found["a"][:] = 7
    assert found["b"].tolist() == [0, 0, 0]


def test_a_shared_array_is_stored_once_and_comes_back_shared(tmp_path: Path) -> None:
    tied = np.random.default_rng(1).normal(size=100_000)
    checkpoint.save(tmp_path / "c", {"embedding": tied, "head": tied})
    found = checkpoint.load(tmp_path / "c")
    assert found["embedding"] is found["head"]
    assert sum(f.stat().st_size for f in (tmp_path / "c").iterdir()) < 1.1 * tied.nbytes


def test_names_that_look_alike_are_kept_apart(tmp_path: Path) -> None:
    tree = {
        "a.b": np.array(1),
        "a": {"b": np.array(2)},
        "__metadata__": np.array(3),
        1: np.array(4),
        "1": np.array(5),
        "\ud800": np.array(6),
    }
    checkpoint.save(tmp_path / "c", tree)
    assert_same(checkpoint.load(tmp_path / "c"), tree)


def test_large_trees_are_split_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "SHARD_BYTES", 1000)
    tree = [np.random.default_rng(i).normal(size=50) for i in range(9)] + [np.arange(5000)]
    checkpoint.save(tmp_path / "c", tree)
    assert len(list((tmp_path / "c").glob("arrays-*.safetensors"))) == 6
    assert_same(checkpoint.load(tmp_path / "c"), tree)


def test_many_names_are_split_over_files_whose_headers_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors, "MAX_HEADER_BYTES", 2000)
    tree = {f"\u2603{i}" * 5: any_bits(DTYPES["complex128"], (1,) * (i % 5), i) for i in range(40)}
    checkpoint.save(tmp_path / "c", tree)
    assert len(list((tmp_path / "c").glob("arrays-*.safetensors"))) > 3
    assert_same(checkpoint.load(tmp_path / "c"), tree)


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        checkpoint.save(tmp_path / name, training_state(3))
    contents = [{f.name: f.read_bytes() for f in (tmp_path / n).iterdir()} for n in ("one", "two")]
    assert contents[0] == contents[1]


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    for step in (1, 2, 2, 3):
        checkpoint.save(tmp_path / "c", training_state(step))
        assert_same(checkpoint.load(tmp_path / "c"), training_state(step))
    assert [p.name for p in tmp_path.iterdir()] == ["c"]
    assert len(list((tmp_path / "c").iterdir())) == 2


def test_saving_over_a_corrupt_checkpoint_heals_it(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", training_state(1))
    data = next((tmp_path / "c").glob("arrays-*"))
    data.write_bytes(b"rubbish")
    checkpoint.save(tmp_path / "c", training_state(1))
    assert_same(checkpoint.load(tmp_path / "c"), training_state(1))


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    checkpoint.save(tmp_path / "link", {"x": 1})
    assert (tmp_path / "link").is_symlink() and checkpoint.load(tmp_path / "real") == {"x": 1}


def test_parents_are_made_and_relative_paths_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint.save("a/b/c", {"x": 1})
    assert checkpoint.load("a/b/c") == {"x": 1} and checkpoint.load(os.fsencode("a/b/c")) == {"x": 1}


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    checkpoint.save(tmp_path / "c", {"x": np.arange(3)})
    assert checkpoint.load(tmp_path / "c")["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_other_peoples_work_is_not_written_over(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "c"
    if kind == "file":
        target.write_text("thesis")
    else:
        target.mkdir()
        (target / "thesis.txt").write_text("thesis")
    with pytest.raises(StateError) as caught:
        checkpoint.save(target, {"x": 1})
    assert str(caught.value) == (
        "there is something else at the place of the checkpoint\n"
        f"  where: {target}\n"
        "  expected: nothing, an empty directory, or a checkpoint to replace\n"
        "  remedy: choose another path, or move away what is there"
    )
    assert (target if kind == "file" else target / "thesis.txt").read_text() == "thesis"


def test_metadata_come_back_without_the_arrays(tmp_path: Path) -> None:
    notes = {"loss": 0.25, "tags": ["a", ("b", None)], "host": "x"}
    checkpoint.save(tmp_path / "c", {"w": np.zeros(3)}, metadata=notes)
    next((tmp_path / "c").glob("arrays-*")).write_bytes(b"")
    assert_same(checkpoint.read_metadata(tmp_path / "c"), notes)


def test_metadata_hold_no_arrays(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"the metadata hold an array: metadata\.w"):
        checkpoint.save(tmp_path / "c", {}, metadata={"w": np.zeros(3)})
    assert not (tmp_path / "c").exists()


# ---- classes, and fitting ----


class Moments(NamedTuple):
    mean: Any
    square: Any


@dataclasses.dataclass
class Settings:
    rate: float
    moments: Any


class Ring:
    """A container of the user's own, known to pytrees."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items


pytree.register(Ring, lambda ring: (ring.items, "ring"), lambda _, items: Ring(list(items)))


def _classes(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    moments = Moments(rng.normal(size=3), [rng.normal(size=2)])
    return {
        "settings": Settings(0.5, moments),
        "ring": Ring([rng.normal(size=1), 3]),
        "od": OrderedDict(z=1, a=2),
    }


def test_classes_come_back_as_plain_nests_without_an_example(tmp_path: Path) -> None:
    tree = _classes(0)
    checkpoint.save(tmp_path / "c", tree)
    moments = tree["settings"].moments
    plain = {
        "settings": {"rate": 0.5, "moments": (moments.mean, moments.square)},
        "ring": tree["ring"].items,
        "od": OrderedDict(z=1, a=2),
    }
    assert_same(checkpoint.load(tmp_path / "c"), plain)


def test_classes_come_back_as_themselves_with_an_example(tmp_path: Path) -> None:
    tree = _classes(0)
    checkpoint.save(tmp_path / "c", tree)
    found = checkpoint.load(tmp_path / "c", like=_classes(1))
    assert type(found["settings"]) is Settings and type(found["settings"].moments) is Moments
    assert type(found["ring"]) is Ring and found["ring"].items[1] == 3
    assert_same(found["settings"].moments.mean, tree["settings"].moments.mean)
    assert_same(found["ring"].items[0], tree["ring"].items[0])


def test_an_example_of_other_key_order_gives_its_own_order(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", {"b": 1, "a": 2})
    assert list(checkpoint.load(tmp_path / "c", like={"a": 0, "b": 0}).items()) == [("a", 2), ("b", 1)]


def test_every_difference_is_reported_at_once_before_arrays_are_read(tmp_path: Path) -> None:
    saved = {
        "model": {"w": np.zeros((3, 4), np.float32), "b": np.zeros(4), "old": np.zeros(1)},
        "steps": [1, 2],
        "rate": 0.5,
        "pair": (1, 2),
        "n": None,
    }
    like = {
        "model": {"w": np.zeros((4, 3), np.float32), "b": np.zeros(4, np.float16), "new": np.zeros(2)},
        "steps": [1, 2, 3],
        "rate": 1,
        "pair": [1, 2],
        "n": {"x": 1},
    }
    checkpoint.save(tmp_path / "c", saved)
    next((tmp_path / "c").glob("arrays-*")).write_bytes(b"not even looked at")
    with pytest.raises(StateError) as caught:
        checkpoint.load(tmp_path / "c", like=like)
    assert str(caught.value) == (
        "the checkpoint does not fit what it is loaded into: 8 differences\n"
        "    model.w: float32 (3, 4) in the checkpoint, float32 (4, 3) expected\n"
        "    model.b: float64 (4,) in the checkpoint, float16 (4,) expected\n"
        "    model.new: not in the checkpoint, float64 (2,) expected\n"
        "    model.old: float64 (1,) in the checkpoint, nothing expected\n"
        "    steps.2: not in the checkpoint, int expected\n"
        "    rate: float in the checkpoint, int expected\n"
        "    pair: a tuple in the checkpoint, a list expected\n"
        "    n: None in the checkpoint, a dict of 1 expected\n"
        f"  where: {tmp_path / 'c'}\n"
        "  expected: the same names, shapes and dtypes\n"
        "  remedy: build the same model and optimiser, or load without like= and pick what you need"
    )


# ---- what cannot be saved is refused before the disk is touched ----


@pytest.mark.parametrize(
    ("tree", "error", "text"),
    [
        ({"f": print}, ArgumentError, "a builtins.builtin_function_or_method cannot be saved\n  where: f\n"),
        ({"a": {"s": {1, 2}}}, ArgumentError, "a builtins.set cannot be saved\n  where: a.s\n"),
        ({"d": defaultdict(int)}, ArgumentError, "a collections.defaultdict cannot be saved\n  where: d\n"),
        ({"o": np.array([print])}, DTypeError, "an array of dtype object cannot be saved\n  where: o\n"),
        ({"s": np.array(["x"])}, DTypeError, "an array of dtype <U1 cannot be saved\n  where: s\n"),
        (
            {"l": np.zeros(2, np.longdouble)},
            DTypeError,
            "an array of dtype float128 cannot be saved\n  where: l\n",
        ),
        ({"v": np.zeros(2, "f4,i4")}, DTypeError, "cannot be saved\n  where: v\n"),
        (
            {"b": np.array([2], np.uint8).view(bool)},
            ArgumentError,
            "the array holds bytes that are no bool\n  where: b\n",
        ),
        ({frozenset(): 1}, ArgumentError, "a builtins.frozenset cannot be saved\n  where: frozenset()\n"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path: Path, tree: Any, error: type, text: str) -> None:
    checkpoint.save(tmp_path / "c", {"x": 1})
    with pytest.raises(error) as caught:
        checkpoint.save(tmp_path / "c", tree)
    assert text in str(caught.value) and "expected: " in str(caught.value) and "remedy: " in str(caught.value)
    assert checkpoint.load(tmp_path / "c") == {"x": 1} and len(list(tmp_path.iterdir())) == 1


def test_a_tree_that_contains_itself_is_refused(tmp_path: Path) -> None:
    tree: dict[str, Any] = {}
    tree["self"] = tree
    with pytest.raises(ArgumentError, match="nested more than 100 deep"):
        checkpoint.save(tmp_path / "c", tree)


def test_the_deepest_tree_that_saves_also_loads(tmp_path: Path) -> None:
    tree: Any = np.arange(3)
    for level in range(100):
        tree = {"k": tree} if level % 2 else (tree,)
    checkpoint.save(tmp_path / "c", tree)
    assert_same(checkpoint.load(tmp_path / "c"), tree)


def test_nothing_there_is_also_a_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        checkpoint.load(tmp_path / "none")
    assert isinstance(caught.value, checkpoint.NotFoundError)
    assert str(caught.value) == (
        "the checkpoint could not be opened: No such file or directory\n"
        f"  where: {tmp_path / 'none'}\n"
        "  expected: a checkpoint directory\n"
        "  remedy: check the path and the disk, then try again"
    )


def test_a_directory_without_a_manifest_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(
        FileError, match=r"there is no manifest\n  where: .*manifest.json\n  expected: a checkpoint"
    ):
        checkpoint.load(tmp_path)


def test_importing_this_room_loads_nothing_heavy(tmp_path: Path) -> None:
    text = (
        "import sys, numpy, ml_dtypes, trilobite.framework; before = set(sys.modules);"
        "import trilobite.framework.checkpoint; print(*sorted(set(sys.modules) - before))"
    )
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent.parent.parent)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    run = subprocess.run(
        [sys.executable, "-c", text], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    heavy = {
        "zipfile",
        "safetensors",
        "pickle",
        "torch",
        "mmap",
        "tempfile",
        "subprocess",
        "shutil",
        "lzma",
        "secrets",
    }
    assert not heavy & set(run.stdout.split())
