"""Files of a checkpoint are cut at their bounds and nowhere else; views of storages end with them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_trees import assert_same
from torch_files import Call, Global, Persistent, pickled, storage, stream_file, tensor

from trilobite.base.errors import FileError
from trilobite.framework import checkpoint
from trilobite.framework.checkpoint import directory, load_pth, manifest, safetensors


def shards(sizes: list[int], most: int, headers: list[int], longest: int) -> list[list[int]]:
    """By hand: an array goes into the open file unless it or its header does not fit there."""
    files: list[list[int]] = [[]]
    for i, (size, header) in enumerate(zip(sizes, headers, strict=True)):
        here = files[-1]
        too_large = sum(sizes[k] for k in here) + size > most
        too_long = sum(headers[k] for k in here) + header > longest
        if here and (too_large or too_long):
            files.append([])
        files[-1].append(i)
    return files


@pytest.mark.parametrize("most", [79, 80, 81, 159, 160, 161, 10_000])
@pytest.mark.parametrize("longest", [2, 3, 5, 10_000])
def test_arrays_are_put_together_up_to_both_bounds(
    most: int, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [40, 40, 80, 8, 72, 8, 160, 80, 80, 40, 40, 40, 40]
    arrays = {f"{n:03}": np.zeros(size, np.uint8) for n, size in enumerate(sizes)}
    one = safetensors.header_bytes("000", arrays["000"])
    headers = [safetensors.header_bytes(name, array) for name, array in arrays.items()]
    monkeypatch.setattr(directory, "SHARD_BYTES", most)
    monkeypatch.setattr(safetensors, "MAX_HEADER_BYTES", longest * one)
    found = [[int(name) for name in shard] for shard in directory._shards(arrays)]
    assert found == shards(sizes, most, headers, longest * one)


def test_two_arrays_of_exactly_the_bound_are_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = {"a": np.arange(10.0), "b": np.arange(5.0), "c": np.arange(15.0)}
    for most, files in ((120, 2), (119, 3), (240, 1), (239, 2)):
        monkeypatch.setattr(directory, "SHARD_BYTES", most)
        path = tmp_path / str(most)
        checkpoint.save(path, tree)
        assert len(list(path.glob("arrays-*.safetensors"))) == files
        assert_same(checkpoint.load(path), tree)


@pytest.mark.parametrize("members", [
    {"files": [], "tree": None}, {"files": None}, {"files": "x"}, {"format": "other"}, {"more": 1},
    {"version": True}, {"version": "1"},
])  # fmt: skip
def test_members_of_a_manifest_have_their_types(members: dict[str, Any]) -> None:
    whole = {
        "format": manifest.FORMAT, "version": manifest.VERSION, "files": {}, "metadata": {}, "tree": {},
        "sha256": "",
    }  # fmt: skip
    manifest._check_members(whole, "here")
    with pytest.raises(FileError, match="manifest"):
        manifest._check_members(whole | members, "here")


@pytest.mark.parametrize(("start", "length"), [(0, 10), (9, 1), (10, 0), (4, 6), (0, 0), (3, 2)])
def test_a_view_may_reach_the_end_of_its_storage(tmp_path: Path, start: int, length: int) -> None:
    flat = np.arange(10, dtype=np.float32)
    value = tensor(storage("0", "float32", 10, ("v", start, length)), 0, (length,), (1,))
    path = tmp_path / "x.pth"
    path.write_bytes(stream_file(pickled(value), {"0": (10, flat.tobytes())}))
    assert load_pth(path).tolist() == flat[start : start + length].tolist()


@pytest.mark.parametrize(("start", "length"), [(0, 11), (1, 10), (9, 2), (10, 1), (11, 0), (2**40, 1)])
def test_and_no_further(tmp_path: Path, start: int, length: int) -> None:
    value = tensor(storage("0", "float32", 10, ("v", start, length)), 0, (0,), (1,))
    path = tmp_path / "x.pth"
    path.write_bytes(stream_file(pickled(value), {"0": (10, bytes(40))}))
    with pytest.raises(FileError, match="a view reaches beyond the storage '0'"):
        load_pth(path)


@pytest.mark.parametrize(
    "view", [("v", 1), ["v", 0, 1], ("v", -1, 2), ("v", 0, -1), ("v", 0.0, 1), ("v", 0, True)]
)
def test_a_view_is_a_name_and_two_sizes(tmp_path: Path, view: Any) -> None:
    value = tensor(storage("0", "float32", 10, view), 0, (1,), (1,))
    (tmp_path / "x.pth").write_bytes(stream_file(pickled(value), {"0": (10, bytes(40))}))
    with pytest.raises(FileError, match="view of a storage is malformed"):
        load_pth(tmp_path / "x.pth")


@pytest.mark.parametrize("module", ["torch", "torch.cuda"])
def test_storages_of_a_gpu_are_storages(tmp_path: Path, module: str) -> None:
    flat = np.arange(4, dtype=np.float32)
    where = Persistent(("storage", Global(module, "FloatStorage"), "0", "cuda:0", 4, None))
    (tmp_path / "x.pth").write_bytes(
        stream_file(pickled(tensor(where, 0, (4,), (1,))), {"0": (4, flat.tobytes())})
    )
    assert load_pth(tmp_path / "x.pth").tolist() == [0, 1, 2, 3]


REBUILD, FROM_TYPE = (
    Global("torch._utils", "_rebuild_tensor_v2"),
    Global("torch._tensor", "_rebuild_from_type_v2"),
)
INNER = tensor(storage("0", "float32", 4, None), 0, (4,), (1,)).arguments
PARAMETER = Global("torch.nn.parameter", "Parameter")


@pytest.mark.parametrize("broken", list(itertools.product((False, True), repeat=3)))
def test_each_part_of_a_tensor_with_attributes_is_looked_at(
    tmp_path: Path, broken: tuple[bool, bool, bool]
) -> None:
    function, kind, inner = (
        bad if is_bad else good
        for is_bad, good, bad in zip(
            broken, (REBUILD, PARAMETER, INNER), ("text", "Parameter", list(INNER)), strict=True
        )
    )
    value = Call(FROM_TYPE, (function, kind, inner, {}))
    (tmp_path / "x.pth").write_bytes(
        stream_file(pickled(value), {"0": (4, np.arange(4, dtype=np.float32).tobytes())})
    )
    if not any(broken):
        assert load_pth(tmp_path / "x.pth").tolist() == [0, 1, 2, 3]
        return
    with pytest.raises(FileError, match="the description of a tensor is malformed"):
        load_pth(tmp_path / "x.pth")
