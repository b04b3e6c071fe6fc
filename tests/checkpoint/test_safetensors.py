"""The safetensors format: ours is everybody's, and a hostile header never reaches memory."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_trees import any_bits, arrays, assert_same
from hypothesis import given
from hypothesis import strategies as st

from trilobite.base.errors import ArgumentError, FileError
from trilobite.framework.checkpoint import (
    StorageError,
    load_safetensors,
    read_safetensors_metadata,
    safetensors,
    save_safetensors,
)
from trilobite.framework.checkpoint.arrays import DTYPES


@given(tensors=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), arrays(), max_size=5))
def test_any_arrays_come_back(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, np.ndarray]
) -> None:
    tensors.pop("__metadata__", None)
    path = tmp_path_factory.mktemp("st") / "x.safetensors"
    save_safetensors(path, tensors)
    assert_same(load_safetensors(path), tensors)
    assert_same(load_safetensors(path, mmap=True), tensors)


@pytest.mark.parametrize("name", sorted(set(safetensors.CODES.values())))
def test_the_library_reads_what_we_write(tmp_path: Path, name: str) -> None:
    library = pytest.importorskip("safetensors")
    path = tmp_path / "x.safetensors"
    tensors = {
        "b": any_bits(DTYPES[name], (3, 5), 1),
        "a": any_bits(DTYPES[name], (), 2),
        "e": np.empty((0, 2), DTYPES[name]),
    }
    save_safetensors(path, tensors, metadata={"who": "us"})
    found = dict(library.deserialize(path.read_bytes()))
    assert set(found) == set(tensors)
    for key, entry in found.items():
        assert (entry["dtype"], tuple(entry["shape"])) == (_code(name), tensors[key].shape)
        assert bytes(entry["data"]) == tensors[key].tobytes()
    with library.safe_open(path, "numpy") as file:
        assert file.metadata() == {"who": "us"} == read_safetensors_metadata(path)


def _code(name: str) -> str:
    return next(code for code, dtype in safetensors.CODES.items() if dtype == name)


def test_we_read_what_the_library_writes(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    names = [
        "bool",
        "int8",
        "int16",
        "int64",
        "uint8",
        "uint32",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
    ]
    tensors = {name: any_bits(DTYPES[name], (2, 3), 3) for name in names}
    library.save_file(tensors, tmp_path / "x.safetensors", {"by": "library"})
    found = load_safetensors(tmp_path / "x.safetensors")
    assert_same({name: found[name] for name in names}, tensors)
    assert read_safetensors_metadata(tmp_path / "x.safetensors") == {"by": "library"}


def test_mapped_arrays_are_aligned_and_read_only(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    tensors = {"odd": np.arange(3, dtype=np.uint8), "wide": np.arange(4) * 1j, "double": np.arange(5.0)}
    save_safetensors(path, tensors)
    mapped = load_safetensors(path, mmap=True)
    for array in mapped.values():
        assert array.flags.aligned and not array.flags.writeable
    save_safetensors(path, {"other": np.zeros(9)})
    assert_same(mapped, tensors)  # the file it maps is the old one, which lives as long as it is mapped


def test_unaligned_files_from_elsewhere_are_mapped_rightly(tmp_path: Path) -> None:
    data = np.arange(3.0)
    header = json.dumps({"x": {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]}}).encode()
    header += b" " * (3 - len(header) % 8 if len(header) % 8 < 3 else 11 - len(header) % 8)
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + data.tobytes())
    for mmap in (False, True):
        found = load_safetensors(path, mmap=mmap)["x"]
        assert found.flags.aligned and found.tolist() == [0, 1, 2]


def test_the_order_of_names_is_kept(tmp_path: Path) -> None:
    tensors = {"z": np.zeros(1, np.int8), "a": np.zeros(1), "m": np.zeros(1, np.int16)}
    save_safetensors(tmp_path / "x", tensors)
    assert list(load_safetensors(tmp_path / "x")) == ["z", "a", "m"]


@pytest.mark.parametrize("name", ["__metadata__", 3, "\udc80"])
def test_bad_names_are_refused_when_saved(tmp_path: Path, name: Any) -> None:
    with pytest.raises(ArgumentError, match=r"cannot name an array\n  expected: .*\n  remedy: rename it"):
        save_safetensors(tmp_path / "x", {name: np.zeros(1)})


@pytest.mark.parametrize("notes", [{"a": 1}, {1: "a"}, {"trilobite.dtype:x": "int4"}, {"a": "\udc80"}])
def test_bad_metadata_are_refused_when_saved(tmp_path: Path, notes: Any) -> None:
    with pytest.raises(ArgumentError, match="the metadata"):
        save_safetensors(tmp_path / "x", {}, metadata=notes)


# ---- hostile files ----


def _file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def _x(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8), **more: Any) -> dict[str, Any]:
    return {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}}


def _pair(first: tuple[int, int], second: tuple[int, int]) -> dict[str, Any]:
    return {
        n: {"dtype": "U8", "shape": [b - a], "data_offsets": [a, b]}
        for n, (a, b) in (("a", first), ("b", second))
    }


EIGHT = bytes(8)
NOTE = "trilobite.dtype:x"
HOSTILE = {
    "empty": (b"", "the file has 0 bytes"),
    "no header": (EIGHT, "the file has 8 bytes"),
    "header beyond the file": (_file(_x(), EIGHT, 10**6), "the header claims 1000000 bytes"),
    "header beyond reason": (_file(b"{}", EIGHT, 2**64 - 1), f"the header claims {2**64 - 1} bytes"),
    "header of nothing": (_file(b"{}", EIGHT, 0), "the header claims 0 bytes"),
    "header is a list": (_file(b"[1]"), "the header does not begin with a brace"),
    "header begins with a space": (_file(b' {"a":1}'), "the header does not begin with a brace"),
    "not JSON": (_file(b"{rubbish}"), "the JSON cannot be read"),
    "not UTF-8": (_file(b'{"\xff":1}'), "the JSON cannot be read"),
    "two values": (_file(b"{}{}"), "the JSON cannot be read"),
    "nested": (_file(b'{"x":' + b"[" * 100_000), "the JSON is nested too deeply"),
    "name twice": (
        _file(
            b'{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
            b'"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
            b"a",
        ),
        "the key 'x' stands there twice",
    ),
    "field twice": (
        _file(b'{"x":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}', b"a"),
        "stands there twice",
    ),
    "NaN size": (
        _file(b'{"x":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}}', b"a"),
        "NaN is no JSON number",
    ),
    "infinite size": (
        _file(b'{"x":{"dtype":"U8","shape":[1e400],"data_offsets":[0,1]}}', b"a"),
        "is out of range",
    ),
    "no offsets": (_file({"x": {"dtype": "U8", "shape": [1]}}, b"a"), "the description is malformed"),
    "more fields": (_file(_x(extra=1), EIGHT), "the description is malformed"),
    "description is a list": (_file({"x": []}), "the description is malformed"),
    "unknown dtype": (_file(_x("F7"), EIGHT), "the dtype 'F7' is not known"),
    "dtype is a list": (_file(_x([1]), EIGHT), "the dtype '[1]' is not known"),
    "negative extent": (_file(_x(shape=(-2,)), EIGHT), "the shape [-2] has an extent that is no size"),
    "two negative extents": (_file(_x(shape=(-1, -2)), EIGHT), "has an extent that is no size"),
    "fractional extent": (_file(_x(shape=(2.0,)), EIGHT), "has an extent that is no size"),
    "boolean extent": (_file(_x("U8", (True,), (0, 1)), b"a"), "has an extent that is no size"),
    "shape is a number": (
        _file({"x": {"dtype": "U8", "shape": 1, "data_offsets": [0, 1]}}, b"a"),
        "are malformed",
    ),
    "shape overflows": (_file(_x(shape=(2**32, 2**32, 2**3)), EIGHT), "is larger than any memory"),
    "shape wraps to 8 bytes": (_file(_x(shape=(2**62 + 2,)), EIGHT), "is larger than any memory"),
    "empty but vast": (_file(_x(shape=(0, 2**40, 2**40), offsets=(0, 0))), "is larger than any memory"),
    "too many axes": (_file(_x("U8", [1] * 65, (0, 1)), b"a"), "the shape has 65 axes"),
    "vast array": (_file(_x(shape=(2**38,)), EIGHT), "the data take 8 bytes"),
    "vast array and range": (_file(_x(shape=(2**38,), offsets=(0, 2**40)), EIGHT), "the file is truncated"),
    "negative offset": (_file(_x(offsets=(-8, 0)), EIGHT), "are malformed"),
    "reversed offsets": (_file(_x(offsets=(8, 0)), EIGHT), "are malformed"),
    "fractional offset": (_file(_x(offsets=(0.0, 8)), EIGHT), "are malformed"),
    "three offsets": (_file(_x(offsets=(0, 8, 8)), EIGHT), "are malformed"),
    "offset beyond 63 bits": (_file(_x(offsets=(2**64, 2**64 + 8)), EIGHT), "are malformed"),
    "range too short": (_file(_x(offsets=(0, 7)), bytes(7)), "the data take 7 bytes"),
    "range too long": (_file(_x(offsets=(0, 9)), bytes(9)), "the data take 9 bytes"),
    "overlap": (_file(_pair((0, 4), (3, 8)), EIGHT), "the array 'b' overlaps the one before it"),
    "same range": (_file(_pair((0, 4), (0, 4)), bytes(4)), "overlaps the one before it"),
    "gap": (_file(_pair((0, 4), (5, 8)), EIGHT), "the array 'b' leaves a gap before it"),
    "gap at the start": (_file(_x("U8", (4,), (4, 8)), EIGHT), "the array 'x' leaves a gap before it"),
    "truncated": (_file(_x(), bytes(7)), "the file is truncated"),
    "extra bytes": (_file(_x(), bytes(9)), "the file has extra bytes at its end"),
    "only extra bytes": (_file(b"{}", b"a"), "the file has extra bytes at its end"),
    "metadata is a list": (_file({"__metadata__": []}), "the metadata are not strings"),
    "metadata hold numbers": (_file({"__metadata__": {"a": 1}}), "the metadata are not strings"),
    "bool of 2": (_file(_x("BOOL", (1,), (0, 1)), b"\2"), "there are bytes that are no bool"),
    "dtype of nobody": (
        _file({"__metadata__": {NOTE: "int4"}}),
        "the metadata give a dtype to 'x', which is not there",
    ),
    "int4 of 16": (_file({"__metadata__": {NOTE: "int4"}, **_x("U8", (1,), (0, 1))}, b"\x10"), "are no int4"),
    "mark of an object": (
        _file({"__metadata__": {NOTE: "object"}, **_x("U8")}, EIGHT),
        "the data take 8 bytes",
    ),
    "mark of unknown": (
        _file({"__metadata__": {NOTE: "object"}, **_x("U8", (8,))}, EIGHT),
        "are said to be 'object'",
    ),
    "mark of a plain dtype": (
        _file({"__metadata__": {NOTE: "float32"}, **_x("U8", (8,))}, EIGHT),
        "are said to be",
    ),
    "mark on floats": (_file({"__metadata__": {NOTE: "int4"}, **_x()}, EIGHT), "are said to be 'int4'"),
    "mark of another width": (
        _file({"__metadata__": {NOTE: "complex128"}, **_x("U8", (8,))}, EIGHT),
        "are said to be",
    ),
}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(tmp_path: Path, name: str, mmap: bool) -> None:
    content, text = HOSTILE[name]
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(FileError) as caught:
            load_safetensors(path, mmap=mmap)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert text in str(caught.value).splitlines()[0]
    assert str(path) in str(caught.value.where) and caught.value.expected and caught.value.remedy


def test_a_huge_header_is_refused_by_its_claim(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with open(path, "wb") as file:
        file.write((1 << 30).to_bytes(8, "little"))
        file.truncate(1 << 31)  # sparse
    with pytest.raises(FileError, match=f"the header claims {1 << 30} bytes\n.*\n  expected: 2 to {1 << 25}"):
        load_safetensors(path)


def test_a_header_too_large_to_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors, "MAX_HEADER_BYTES", 100)
    with pytest.raises(ArgumentError, match="the header would take"):
        save_safetensors(tmp_path / "x", {"x" * 200: np.zeros(1)})
    assert list(tmp_path.iterdir()) == []


def test_the_largest_header_is_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, value = tmp_path / "x", np.arange(3.0)
    save_safetensors(path, {"x": value})
    length = int.from_bytes(path.read_bytes()[:8], "little")
    monkeypatch.setattr(safetensors, "MAX_HEADER_BYTES", length)
    save_safetensors(path, {"x": value})
    np.testing.assert_array_equal(load_safetensors(path)["x"], value)
    monkeypatch.setattr(safetensors, "MAX_HEADER_BYTES", length - 1)
    with pytest.raises(ArgumentError, match=f"the header would take {length}"):
        save_safetensors(path, {"x": value})
    with pytest.raises(FileError, match=f"the header claims {length} bytes"):
        load_safetensors(path)


def test_a_pipe_and_a_directory_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path):
        with pytest.raises(FileError, match="this is not a regular file"):
            load_safetensors(place)


def test_a_missing_file_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="the file could not be opened: No such file"):
        load_safetensors(tmp_path / "none")
    with pytest.raises(StorageError, match="the file could not be saved: No such file"):
        save_safetensors(tmp_path / "none" / "x", {})


@pytest.mark.parametrize("length", range(1, 10))
def test_data_begin_at_a_multiple_of_eight(length: int, tmp_path: Path) -> None:
    """Readers map the file and look at the numbers where they lie."""
    path = tmp_path / "a.safetensors"
    save_safetensors(path, {"n" * length: np.arange(3, dtype=np.float64)})
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    assert size % 8 == 0 and len(raw) == 8 + size + 24
    assert json.loads(raw[8 : 8 + size])["n" * length]["data_offsets"] == [0, 24]
