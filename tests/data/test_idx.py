"""IDX files and MNIST: read exactly, refuse everything else before it costs memory."""

from __future__ import annotations

import gzip
import struct
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra import numpy as hnp

from trilobite.base.errors import ArgumentError, DataError, DTypeError, FileError, ShapeError
from trilobite.framework.data import MNIST, digits, idx

HEADER = struct.pack(">4B2I", 0, 0, 0x08, 2, 2, 3)
GOOD = HEADER + bytes(range(6))


@pytest.mark.parametrize("name", ["a", "a.gz"])
@pytest.mark.parametrize("dtype", ["u1", "i1", "<i2", ">i4", "f4", ">f8"])
def test_round_trip(tmp_path: Path, name: str, dtype: str) -> None:
    values = np.random.default_rng(0).normal(scale=50, size=(3, 1, 5)).astype(dtype)
    idx.write(tmp_path / name, values)
    back = idx.read(tmp_path / name)
    assert back.dtype == np.dtype(dtype).newbyteorder("=") and back.flags.writeable
    np.testing.assert_array_equal(back, values)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=hnp.arrays("f4", hnp.array_shapes(min_dims=1, max_dims=5, min_side=0, max_side=4)))
def test_any_shape_and_bits(tmp_path: Path, values: np.ndarray) -> None:
    idx.write(tmp_path / "x", values)
    back = idx.read(tmp_path / "x")
    assert back.shape == values.shape and back.tobytes() == values.tobytes()


def test_known_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(struct.pack(">4B2I3h", 0, 0, 0x0B, 2, 3, 1, -2, 300, -32768))
    assert idx.read(tmp_path / "x").tolist() == [[-2], [300], [-32768]]


def test_gzip_is_known_by_content_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(GOOD))
    (tmp_path / "y.gz").write_bytes(GOOD)
    assert idx.read(tmp_path / "x").tolist() == idx.read(tmp_path / "y.gz").tolist() == [[0, 1, 2], [3, 4, 5]]


BAD = {
    "empty": (b"", "ends after 0 bytes"),
    "short magic": (b"\0\0\x08", "ends after 3 bytes"),
    "first byte": (b"\1" + GOOD[1:], "magic number is 0x01000802"),
    "type code": (b"\0\0\x0a\1" + GOOD[4:], "magic number is 0x00000a01"),
    "png": (b"\x89PNG\r\n\x1a\n", "magic number is 0x89504e47"),
    "rank 0": (b"\0\0\x08\0", "claims 0 axes"),
    "rank 200": (b"\0\0\x08\xc8" + b"\0" * 800, "claims 200 axes"),
    "short header": (GOOD[:9], "ends within its header"),
    "truncated": (GOOD[:-1], "truncated: 5 bytes of data\n  where: .*\n  expected: 6 bytes\n  remedy: fetch"),
    "trailing": (GOOD + b"x", "bytes after the data"),
    "absurd": (
        struct.pack(">4B4I", 0, 0, 0x0E, 4, *[0xFFFFFFFF] * 4),
        r"claims shape .*expected: at most 4294967296 bytes",
    ),
    "no data": (HEADER, "truncated: 0 bytes"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", BAD)
def test_refused(tmp_path: Path, case: str, packed: bool) -> None:
    data, text = BAD[case]
    path = tmp_path / "bad"
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(FileError, match=f"(?s){text}") as caught:
        idx.read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("cut", [1, 5, 12, 25])
def test_damaged_gzip(tmp_path: Path, cut: int) -> None:
    whole = gzip.compress(GOOD)
    (tmp_path / "x").write_bytes(whole[:-cut])
    with pytest.raises(FileError, match=r"gzip stream is damaged|magic number is"):
        idx.read(tmp_path / "x")
    flipped = bytearray(whole)
    flipped[-6] ^= 1  # the checksum
    (tmp_path / "x").write_bytes(flipped)
    with pytest.raises(FileError, match="gzip stream is damaged"):
        idx.read(tmp_path / "x")
    (tmp_path / "x").write_bytes(whole + b"garbage")
    with pytest.raises(FileError, match=r"gzip stream is damaged|after the data"):
        idx.read(tmp_path / "x")


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot be read: No such file"):
        idx.read(tmp_path / "none")
    with pytest.raises(FileError, match=r"cannot be read: Is a directory"):
        idx.read(tmp_path)


def test_claims_cost_no_memory(tmp_path: Path) -> None:
    header = struct.pack(">4B2I", 0, 0, 0x08, 2, 1 << 16, 1 << 15)  # 2 GiB, which the limit allows
    (tmp_path / "x").write_bytes(header + b"only this")
    tracemalloc.start()
    with pytest.raises(FileError, match="truncated: 9 bytes"):
        idx.read(tmp_path / "x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20


def test_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(GOOD)
    assert idx.read(tmp_path / "x", max_bytes=6).size == 6
    with pytest.raises(FileError, match=r"at most 5 bytes\n  remedy: pass max_bytes="):
        idx.read(tmp_path / "x", max_bytes=5)


def test_write_refuses(tmp_path: Path) -> None:
    with pytest.raises(DTypeError, match="IDX cannot hold int64"):
        idx.write(tmp_path / "x", np.arange(3))
    with pytest.raises(ShapeError, match=r"IDX cannot hold shape \(\)"):
        idx.write(tmp_path / "x", np.uint8(3))
    assert not (tmp_path / "x").exists()


class TestMNIST:
    def make(self, root: Path, n: int = 5, suffix: str = "") -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(n)
        images, labels = rng.integers(0, 256, (n, 28, 28), np.uint8), rng.integers(0, 10, n).astype(np.uint8)
        idx.write(root / f"t10k-images-idx3-ubyte{suffix}", images)
        idx.write(root / f"t10k-labels-idx1-ubyte{suffix}", labels)
        return images, labels

    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_reads(self, tmp_path: Path, suffix: str) -> None:
        images, labels = self.make(tmp_path, suffix=suffix)
        data = MNIST(tmp_path, "test")
        assert len(data) == 5 and data[3][1] == labels[3]
        np.testing.assert_array_equal(data[3][0], images[3])

    def test_missing_says_how_to_get_it(self, tmp_path: Path) -> None:
        self.make(tmp_path)
        with pytest.raises(
            DataError, match=r"(?s)train-images-idx3-ubyte is missing.*t10k-labels.*remedy: run `make data`"
        ):
            MNIST(tmp_path)

    def test_wrong_files(self, tmp_path: Path) -> None:
        self.make(tmp_path)
        images, labels = tmp_path / "t10k-images-idx3-ubyte", tmp_path / "t10k-labels-idx1-ubyte"
        idx.write(labels, np.array([1, 2, 3, 4, 10], np.uint8))
        with pytest.raises(FileError, match=r"a label is 10\n.*\n  expected: 0 to 9"):
            MNIST(tmp_path, "test")
        idx.write(labels, np.array([1, 2, 3, 4], np.uint8))
        with pytest.raises(FileError, match=r"labels have shape \(4,\).*\n.*\n  expected: \(5,\)"):
            MNIST(tmp_path, "test")
        idx.write(images, np.zeros((4, 28, 27), np.uint8))
        with pytest.raises(FileError, match=r"images have shape \(4, 28, 27\)"):
            MNIST(tmp_path, "test")
        with pytest.raises(ArgumentError, match="no split 'valid'"):
            MNIST(tmp_path, "valid")

    def test_the_real_files(self, mnist: Path) -> None:
        train, test = MNIST(mnist), MNIST(mnist, "test")
        assert len(train) == 60_000 and len(test) == 10_000
        assert np.bincount(test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        assert abs(train.images.mean() / 255 - 0.1307) < 1e-4


class TestDigits:
    def test_reads(self) -> None:
        pytest.importorskip("sklearn")
        data = digits()
        image, label = data[0]
        assert len(data) == 1797 and image.shape == (8, 8) and image.dtype == np.float32 and label == 0
        assert data.arrays[0].min() == 0 and data.arrays[0].max() == 1

    def test_without_scikit_learn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
        with pytest.raises(DataError, match=r"needs scikit-learn.*\n.*\n  remedy: pip install scikit-learn"):
            digits()
