"""TFLite files made by hand: each number of them on both sides of what a file may say."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.inference.formats.flat_files import model, tensor, whole
from trilobite.base.errors import FileError
from trilobite.inference import load
from trilobite.inference.formats.tflite.convert import convert
from trilobite.inference.formats.tflite.file import read

pytest.importorskip("onnx")
ABS, ADD = 101, 0
FAR = 0x1122334455667788
FOUR = struct.pack("<4f", 1, -2, 3, -4)


def file(tmp_path: Path, data: bytes) -> Path:
    (tmp_path / "m.tflite").write_bytes(data)
    return tmp_path / "m.tflite"


def adding(*, constant: dict[int, Any] | None = None, buffer: Any = None, **more: Any) -> bytes:
    """y = |x| + c"""
    rows = [
        tensor([4], name="x"), constant or tensor([4], buffer=1, name="c"), tensor([4], name="a"),
        tensor([4], name="y"),
    ]  # fmt: skip
    steps = more.pop("steps", [(0, [0], [2]), (1, [2, 1], [3])])
    buffers = [{}, {0: FOUR} if buffer is None else buffer]
    given = {"inputs": [0], "outputs": [3], "codes": [ABS, ADD], **more}
    return model(rows, steps, buffers=buffers, **given)


def test_a_file_by_hand_runs(tmp_path: Path) -> None:
    x = np.array([1.5, -2.5, 0.0, 4.0], np.float32)
    session = load(convert(file(tmp_path, adding())), target="reference")
    assert np.asarray(session.run({"x": x})["y"]).tolist() == [2.5, 0.5, 3.0, 0.0]


def constant(tmp_path: Path, shape: list[int], code: int, data: bytes) -> Any:
    raw = adding(constant=tensor(shape, code, 1, "c"), buffer={0: data}, steps=[(0, [0], [3])])
    return read(file(tmp_path, raw)).subgraphs[0].values[1].array


@pytest.mark.parametrize(("code", "dtype"), [
    (0, "f4"), (1, "f2"), (2, "i4"), (3, "u1"), (4, "i8"), (6, "?"), (7, "i2"), (8, "c8"), (9, "i1"),
    (10, "f8"), (12, "u8"), (15, "u4"), (16, "u2"),
])  # fmt: skip
def test_numbers_of_each_type(code: int, dtype: str, tmp_path: Path) -> None:
    want = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    got = constant(tmp_path, [2, 3], code, want.tobytes())
    assert got.dtype == want.dtype and np.array_equal(got, want)
    for wrong in (want.tobytes()[:-1], want.tobytes() + b"\0"):
        with pytest.raises(FileError, match=f"the data take {len(wrong)} bytes[\\s\\S]*{want.nbytes} for"):
            constant(tmp_path, [2, 3], code, wrong)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_two_numbers_in_a_byte(count: int, tmp_path: Path) -> None:
    """The first in the low half; 8 to 15 are -8 to -1."""
    values = [7, 8, 15, 0, 9][:count]
    halves = [*values, 0][: count + count % 2]
    data = bytes(low | high << 4 for low, high in zip(halves[::2], halves[1::2], strict=True))
    got = constant(tmp_path, [count], 17, data)
    assert got.astype(int).tolist() == [v - 16 if v > 7 else v for v in values]
    with pytest.raises(FileError, match=f"the data take {len(data) + 1} bytes"):
        constant(tmp_path, [count], 17, data + b"\0")


def test_data_behind_the_network(tmp_path: Path) -> None:
    """Large files keep numbers behind the flat buffer, by place and size; places 0 and 1 mean none."""
    for size, extra in ((16, 0), (17, 1), (16, -1)):
        raw = adding(buffer={1: ("Q", FAR), 2: ("Q", size)})
        place = len(raw) + -len(raw) % 8
        whole_file = raw.ljust(place, b"\0") + FOUR + bytes(max(extra, 0))
        whole_file = whole_file[: len(whole_file) + min(extra, 0)]
        whole_file = whole_file.replace(struct.pack("<Q", FAR), struct.pack("<Q", place))
        path = file(tmp_path, whole_file)
        if (size, extra) == (16, 0):
            found = read(path).subgraphs[0].values[1].array
            assert found is not None and found.tolist() == [1, -2, 3, -4]
        elif extra < 0:
            with pytest.raises(FileError, match=f"the data lie at {place}"):
                read(path)
        else:
            with pytest.raises(FileError, match="the data take 17 bytes"):
                read(path)
    for at in (0, 1):
        raw = adding(buffer={1: ("Q", at), 2: ("Q", 16)}, steps=[(0, [0], [3])])
        assert read(file(tmp_path, raw)).subgraphs[0].values[1].array is None


WRONG = {
    "no network": (whole({0: ("I", 3), 1: [{}], 4: [{}]}), "the file has no network"),
    "tensor above": (adding(steps=[(0, [4], [3])]), r"a tensor has number 4[\s\S]*-1 to 3"),
    "tensor below": (adding(steps=[(0, [-2], [3])]), "a tensor has number -2"),
    "result below": (adding(steps=[(0, [0], [-1])]), r"a tensor has number -1[\s\S]*0 to 3"),
    "input below": (adding(inputs=[-1]), "a tensor has number -1"),
    "output above": (adding(outputs=[4]), "a tensor has number 4"),
    "order": (adding(steps=[(1, [2, 1], [3]), (0, [0], [2])]), "ADD reads 'a' before anything makes it"),
    "output": (adding(steps=[(0, [0], [2])]), "nothing makes the output 'y'"),
    "type": (adding(constant=tensor([4], 5, 1, "c")), r"the tensor is of type 5[\s\S]*numbers alone"),
    "size": (adding(constant=tensor([-2], 0, 1, "c")), r"the shape is \(-2,\)"),
    "axes": (adding(constant=tensor([1] * 33, 0, 1, "c")), "the shape is"),
    "buffer": (adding(constant=tensor([4], 0, 2, "c")), r"the data are in buffer 2[\s\S]*one of 2"),
    "code": (adding(steps=[(2, [0], [3])]), r"an operator has code 2[\s\S]*one of 2"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_file_may_not_say(name: str, tmp_path: Path) -> None:
    data, message = WRONG[name]
    with pytest.raises(FileError, match=message):
        read(file(tmp_path, data))


def quantised(scale: list[float]) -> dict[int, Any]:
    return {2: list(struct.unpack(f"<{len(scale)}i", struct.pack(f"<{len(scale)}f", *scale)))}


def test_widths_of_axes_and_scales(tmp_path: Path) -> None:
    for axes in (0, 32):
        raw = adding(constant=tensor([1] * axes, 0, 1, "c"), buffer={0: FOUR[:4]}, steps=[(0, [0], [3])])
        found = read(file(tmp_path, raw)).subgraphs[0].values[1]
        assert found.shape == (1,) * axes and found.array is not None and found.array.item() == 1.0
    for scale, error in (([0.5], ""), ([0.5, float("inf")], "2 scales and 0 zero points"), ([], "")):
        raw = adding(constant=tensor([4], 0, 1, "c", _4=quantised(scale)))
        if error:
            with pytest.raises(FileError, match=error):
                read(file(tmp_path, raw))
            continue
        q = read(file(tmp_path, raw)).subgraphs[0].values[1].quantised
        assert (q is None) == (not scale)
        assert q is None or (q.scale.tolist(), q.zero.tolist(), q.axis) == (scale, [0], 0)
