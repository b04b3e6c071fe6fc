"""HDF5 in the forms that newer libraries write, and what of them is refused by name.

The files were written by h5py: `newer.hdf5` with the format of HDF5 1.8 and tracked order, the others with
the newest one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import FileError
from trilobite.inference.formats.hdf5.file import Group, open_file

FILES = Path(__file__).parent / "files"


def test_newer_headers_links_and_layouts() -> None:
    root = open_file(FILES / "newer.hdf5")
    arrays = {path: g.array() for path, g in root.walk()}
    numbers = np.arange(12).reshape(3, 4) * 3
    for name in ("i1", "i4", "f2", "f4", "f8"):
        assert np.array_equal(arrays[f"a/b/{name}"], numbers - 7) and arrays[f"a/b/{name}"].dtype == name
    for name in ("u2", "u8"):
        assert np.array_equal(arrays[f"a/b/{name}"], numbers) and arrays[f"a/b/{name}"].dtype == name
    assert np.array_equal(arrays["chunks"], np.arange(35 * 21).reshape(35, 21))
    assert np.array_equal(arrays["sums"], np.arange(40.0))
    assert arrays["compact"].tolist() == [4, 3, 2, 1]
    assert arrays["holes"].tolist() == [0, 0, 0, 0, 0, 1, 2, 3, 0]
    assert arrays["empty"].shape == (3, 5) and not arrays["empty"].any()
    assert len(arrays) == 12
    found = root.attributes
    assert (found["text"], found["fixed"], found["list"]) == ("kept", "short", ["ab", "c"])
    assert found["numbers"].tolist() == [0, 1, 2] and root["a"].attributes["one"] == -4


def everything(root: Group) -> list[Any]:
    return [root.attributes, *(g.array() for _, g in root.walk())]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("soft", "the link 's' leads elsewhere"),
        ("many", "keeps its links in a fractal heap"),
        ("attributes", "keeps its attributes in a fractal heap"),
        ("latest", "data are laid out in version 4"),
        ("words", "a dataset of texts"),
        ("pairs", "data of HDF5's class 6, 8 bytes wide"),
    ],
)
def test_what_is_not_read_is_named(name: str, message: str) -> None:
    root = open_file(FILES / f"newer_{name}.hdf5")
    with pytest.raises(FileError, match=message):
        everything(root)


@pytest.mark.parametrize("name", ["newer", "forms"])
def test_damaged_files_are_read_or_refused(name: str) -> None:
    """One byte of a header changed, or the file cut off: an error of ours or an array, never another."""
    data = (FILES / f"{name}.hdf5").read_bytes()
    rng = np.random.default_rng(1)
    refused = 0
    for turn in range(90):
        changed = bytearray(data)
        if turn % 3:
            changed[int(rng.integers(8, min(len(data), 4000)))] = int(rng.integers(256))
        else:
            del changed[int(rng.integers(len(data))) :]
        try:
            everything(open_file(bytes(changed)))
        except FileError:
            refused += 1
    assert refused > 20
