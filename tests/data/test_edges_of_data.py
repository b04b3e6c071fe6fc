"""Data at their edges: what lies outside a turned image, bytes behind a file, descriptors given back."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import FileError, ShapeError
from trilobite.framework.data import idx, transport
from trilobite.framework.data import transforms as T


@pytest.mark.parametrize("method", ["nearest", "bilinear"])
@pytest.mark.parametrize("shape", [(9, 15), (15, 9), (8, 13, 3), (1, 6)])
@pytest.mark.parametrize("degrees", [20.0, 45.0, -100.0])
def test_a_turned_image_pixel_by_pixel(method: str, shape: tuple[int, ...], degrees: float) -> None:
    """By loops: where each pixel comes from, in columns and rows of an image that is no square."""
    x = np.random.default_rng(1).uniform(0, 100, shape)
    height, width = shape[:2]
    sin, cos, fill = np.sin(np.radians(degrees)), np.cos(np.radians(degrees)), 7.0

    def at(r: int, c: int) -> Any:
        return x[r, c] if 0 <= r < height and 0 <= c < width else np.full(shape[2:], fill)

    wanted = np.zeros(shape)
    for r in range(height):
        for c in range(width):
            dy, dx = r - (height - 1) / 2, c - (width - 1) / 2
            y, s = cos * dy + sin * dx + (height - 1) / 2, cos * dx - sin * dy + (width - 1) / 2
            if method == "nearest":
                wanted[r, c] = at(int(np.rint(y)), int(np.rint(s)))
                continue
            top, left = int(np.floor(y)), int(np.floor(s))
            a, b = y - top, s - left
            upper = (1 - b) * at(top, left) + b * at(top, left + 1)
            wanted[r, c] = (1 - a) * upper + a * ((1 - b) * at(top + 1, left) + b * at(top + 1, left + 1))
    np.testing.assert_allclose(T.rotate(x, degrees, method, fill), wanted, atol=1e-9)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_channels_of_any_axis_are_normalised(axis: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    n = x.shape[axis]
    mean, spread = np.arange(n) + 1.0, np.arange(n) + 2.0
    shape = [n if d == axis % 3 else 1 for d in range(3)]
    found = T.Normalize(tuple(mean), tuple(spread), axis=axis)(x)
    np.testing.assert_allclose(found, (x - mean.reshape(shape)) / spread.reshape(shape), rtol=1e-12)


@pytest.mark.parametrize("axis", [3, -4, 7, -9])
def test_an_axis_that_an_image_does_not_have(axis: int) -> None:
    with pytest.raises(ShapeError, match=rf"do not fit shape \(2, 3, 4\) at axis {axis}"):
        T.Normalize((1.0, 2.0), (1.0, 2.0), axis=axis)(np.zeros((2, 3, 4)))


@pytest.mark.parametrize("more", [0, 1, 5])
def test_no_more_is_read_than_a_header_says(
    tmp_path: Path, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chunk in (1, 3, 4, 6, 1 << 20):
        monkeypatch.setattr(idx, "_CHUNK", chunk)
        file = io.BytesIO(bytes(range(6 + more)))
        assert idx._exactly(file, 6, tmp_path) == bytes(range(6))
        assert file.tell() == 6
        with pytest.raises(FileError, match=f"truncated: {6 + more} bytes"):
            idx._exactly(io.BytesIO(bytes(6 + more)), 7 + more, tmp_path)
    path = tmp_path / "x"
    path.write_bytes(struct.pack(">HBBI", 0, 8, 1, 6) + bytes(range(6 + more)))
    if more:
        with pytest.raises(FileError):
            idx.read(path)
    else:
        assert idx.read(path).tolist() == list(range(6))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="descriptors are counted where Linux lists them"
)
@pytest.mark.parametrize("name", ["_write", "os.ftruncate"])
def test_memory_that_cannot_be_filled_is_given_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError("no room")

    before = descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(*((os, "ftruncate") if name != "_write" else (transport, "_write")), fails)
        with pytest.raises(OSError, match="no room"):
            transport.MemoryFile([memoryview(b"abc")])
    assert descriptors() == before
    file = transport.MemoryFile([memoryview(b"abc"), memoryview(b"")])
    assert descriptors() == before + 1 and file.sizes == [3, 0]
    file.close()
    assert descriptors() == before
