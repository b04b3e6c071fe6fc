"""NumPy archives: everybody's format, also for the dtypes it has no name for; no pickle, no bombs."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_trees import any_bits, arrays, assert_same
from hypothesis import given
from hypothesis import strategies as st

from trilobite.base.errors import ArgumentError, DTypeError, FileError
from trilobite.framework.checkpoint import load_npz, save_npz
from trilobite.framework.checkpoint.arrays import DTYPES

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(tensors=st.dictionaries(names, arrays(), max_size=5), compress=st.booleans())
def test_any_arrays_come_back(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, np.ndarray], compress: bool
) -> None:
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    save_npz(path, tensors, compress=compress)
    assert_same(load_npz(path), tensors)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_comes_back(tmp_path: Path, name: str) -> None:
    tensors = {
        "many": any_bits(DTYPES[name], (3, 101), 1),
        "file": any_bits(DTYPES[name], (), 2),
        "none": np.empty((0, 4), DTYPES[name]),
    }
    save_npz(tmp_path / "x.npz", tensors)
    assert_same(load_npz(tmp_path / "x.npz"), tensors)


def test_numpy_reads_what_we_write(tmp_path: Path) -> None:
    tensors = {"a": any_bits(DTYPES["float32"], (2, 3), 1).T, "b/c": np.arange(3)}
    save_npz(tmp_path / "x.npz", tensors)
    with np.load(tmp_path / "x.npz") as found:
        assert_same({name: np.ascontiguousarray(found[name]) for name in found}, tensors)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_we_read_what_numpy_writes(tmp_path: Path, save: Any) -> None:
    tensors = {
        "f": np.asfortranarray(np.random.default_rng(0).normal(size=(3, 4))),
        "text": np.array(["a", "bcd"]),
        "bytes": np.array([b"x"]),
        "swapped": np.arange(4, dtype=">i4"),
        "flag": np.array([True, False]),
    }
    save(tmp_path / "x.npz", **tensors)
    found = load_npz(tmp_path / "x.npz")
    assert {name: (a.tolist(), a.dtype.newbyteorder("=")) for name, a in found.items()} == {
        name: (a.tolist(), a.dtype.newbyteorder("=")) for name, a in tensors.items()
    }
    assert all(a.dtype.isnative for a in found.values())


def test_equal_arrays_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_npz(tmp_path / name, {"x": np.arange(5)})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("name", ["", "__trilobite_dtypes__", "a\0b", 3])
def test_bad_names_are_refused(tmp_path: Path, name: Any) -> None:
    with pytest.raises(ArgumentError, match="cannot name an array"):
        save_npz(tmp_path / "x.npz", {name: np.zeros(1)})


def test_object_arrays_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(DTypeError, match="an array of dtype object cannot be saved"):
        save_npz(tmp_path / "x.npz", {"a": np.array([None])})


def _npy(array: np.ndarray, **kwargs: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **kwargs)
    return out.getvalue()


def _header(text: str, data: bytes = b"") -> bytes:
    head = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + data


def _archive(*entries: tuple[str, bytes], compress: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compress) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return out.getvalue()


def _marked(marks: Any, *entries: tuple[str, bytes]) -> bytes:
    text = marks if isinstance(marks, str) else json.dumps(marks)
    return _archive(*entries, ("__trilobite_dtypes__.npy", _npy(np.array(text))))


GOOD = _npy(np.arange(6.0))
HOSTILE = {
    "text": (b"hello", "the archive is damaged: File is not a zip file"),
    "empty": (b"", "the archive is damaged: File is not a zip file"),
    "cut": (_archive(("a.npy", GOOD))[:-10], "the archive is damaged"),
    "damaged": (
        _archive(("a.npy", GOOD)).replace(GOOD[-8:], b"damaged!"),
        "the archive is damaged: Bad CRC-32",
    ),
    "objects": (_archive(("a.npy", _npy(np.array([{}]), allow_pickle=True))), "the array has dtype '|O'"),
    "fields": (_archive(("a.npy", _npy(np.zeros(2, "f4,O"), allow_pickle=True))), "the array has dtype"),
    "void": (_archive(("a.npy", _npy(np.zeros(2, "V3")))), "the array has dtype '|V3'"),
    "dates": (_archive(("a.npy", _npy(np.zeros(2, "M8[s]")))), "the array has dtype '<M8[s]'"),
    "not an array": (_archive(("readme.txt", b"hi")), "the archive has an entry 'readme.txt'"),
    "no magic": (_archive(("a.npy", b"x" * 100)), "the entry is no NumPy array"),
    "nothing": (_archive(("a.npy", b"")), "the entry is no NumPy array"),
    "version 9": (_archive(("a.npy", b"\x93NUMPY\x09\x00" + bytes(20))), "the entry is no NumPy array"),
    "code in the header": (
        _archive(
            ("a.npy", _header("{'descr': __import__('os').getcwd(), 'fortran_order': False, 'shape': ()}"))
        ),
        "the header cannot be read",
    ),
    "deep header": (_archive(("a.npy", _header("(" * 5000))), "the header cannot be read"),
    "long header": (_archive(("a.npy", _header(" " * 60000 + "{}"))), "the header claims 60003 bytes"),
    "bad dtype": (
        _archive(("a.npy", _header("{'descr': '<f9', 'fortran_order': False, 'shape': ()}"))),
        "the dtype '<f9' is not known",
    ),
    "wrong fields": (
        _archive(("a.npy", _header("{'descr': '<f8'}"))),
        "the header cannot be read: wrong fields",
    ),
    "no dict": (_archive(("a.npy", _header("3"))), "the header cannot be read: wrong fields"),
    "not UTF-8": (_archive(("a.npy", b"\x93NUMPY\x03\x00\x01\x00\x00\x00\xff")), "the header cannot be read"),
    "header cut": (_archive(("a.npy", b"\x93NUMPY\x01\x00\xff")), "the header cannot be read"),
    "negative shape": (
        _archive(("a.npy", _header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", bytes(8)))),
        "the shape [-1] has an extent that is no size",
    ),
    "vast shape": (
        _archive(
            (
                "a.npy",
                _header(
                    "{'descr': '<f8', 'fortran_order': False, 'shape': (10**12,)}".replace(
                        "10**12", "1" + "0" * 12
                    )
                ),
            )
        ),
        "the entry has 0 bytes of data",
    ),
    "overflowing shape": (
        _archive(
            ("a.npy", _header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**40}, {2**40})}}"))
        ),
        "is larger than any memory",
    ),
    "truncated data": (_archive(("a.npy", GOOD[:-1])), "the entry has 47 bytes of data"),
    "extra data": (_archive(("a.npy", GOOD + b"x")), "the entry has 49 bytes of data"),
    "bool of 2": (
        _archive(("a.npy", _npy(np.array([True])).replace(b"\n\x01", b"\n\x02"))),
        "there are bytes that are no bool",
    ),
    "mark of nobody": (_marked({"z": "int4"}, ("a.npy", GOOD)), "the array is said to be 'int4'"),
    "mark of another width": (_marked({"a": "int4"}, ("a.npy", GOOD)), "the array is said to be 'int4'"),
    "mark of a plain dtype": (
        _marked({"a": "float64"}, ("a.npy", GOOD)),
        "the array is said to be 'float64'",
    ),
    "mark of a list": (_marked({"a": []}, ("a.npy", GOOD)), "the array is said to be '[]'"),
    "marks are a list": (_marked([1]), "the dtypes entry is no object"),
    "marks are no JSON": (_marked("{"), "the JSON cannot be read"),
    "int4 of 16": (
        _marked({"a": "int4"}, ("a.npy", _npy(np.array([16], np.uint8)))),
        "there are bytes that are no int4",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.filterwarnings("ignore:Custom dtypes are saved as python objects")
def test_hostile_archives_are_refused(tmp_path: Path, name: str) -> None:
    content, text = HOSTILE[name]
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        load_npz(path)
    assert text in str(caught.value).splitlines()[0]
    assert str(path) in str(caught.value.where) and caught.value.expected and caught.value.remedy


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = _archive(("a.npy", GOOD), ("a.npy", GOOD))
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(
        FileError, match=r"the archive has an entry 'a.npy'\n.*\n  expected: arrays of different names"
    ):
        load_npz(tmp_path / "x.npz")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(
        _archive(("a.npy", _npy(np.zeros(10**6))), compress=zipfile.ZIP_DEFLATED)
    )
    assert (tmp_path / "x.npz").stat().st_size < 10_000
    with pytest.raises(FileError) as caught:
        load_npz(tmp_path / "x.npz", max_bytes=10**6)
    assert str(caught.value) == (
        "the archive unpacks to 8000128 bytes\n"
        f"  where: {tmp_path / 'x.npz'}\n"
        "  expected: at most 1000000\n"
        "  remedy: if you trust it, load it with a larger max_bytes"
    )
    assert load_npz(tmp_path / "x.npz")["a"].shape == (10**6,)


def test_a_flip_in_any_byte_is_refused_or_harmless_but_never_a_crash(tmp_path: Path) -> None:
    save_npz(tmp_path / "x.npz", {"a": np.arange(3.0), "b": any_bits(DTYPES["int4"], (3,), 1)})
    content = (tmp_path / "x.npz").read_bytes()
    refused = 0
    for index in range(len(content)):
        for mask in (0x01, 0xFF):
            (tmp_path / "x.npz").write_bytes(
                content[:index] + bytes([content[index] ^ mask]) + content[index + 1 :]
            )
            try:
                load_npz(tmp_path / "x.npz")
            except FileError:
                refused += 1
    assert refused > len(content) / 2
