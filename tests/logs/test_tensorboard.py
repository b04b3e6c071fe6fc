"""Event files: read back by TensorBoard's own readers."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DataError, DTypeError, ShapeError, StateError
from trilobite.framework.logs import Histogram, Image, TensorBoardLogger, events, png, wire
from trilobite.framework.logs.records import crc32c, masked_crc32c, record

pytestmark = pytest.mark.filterwarnings("ignore")  # TensorBoard's own imports warn


def accumulate(directory: Path) -> Any:
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    reader = module.EventAccumulator(
        str(directory), size_guidance={k: 0 for k in module.DEFAULT_SIZE_GUIDANCE}
    )
    reader.Reload()
    return reader


def scalars(directory: Path, tag: str) -> list[tuple[int, float]]:
    return [(e.step, e.value) for e in accumulate(directory).Scalars(tag)]


class TestChecksum:
    @pytest.mark.parametrize(
        ("data", "crc"),
        [
            (b"", 0),
            (b"123456789", 0xE3069283),
            (bytes(32), 0x8A9136AA),
            (b"\xff" * 32, 0x62A8AB43),
            (bytes(range(32)), 0x46DD794E),
        ],
    )
    def test_known_values(self, data: bytes, crc: int) -> None:
        assert crc32c(data) == crc

    @pytest.mark.parametrize("n", [1, 255, 4095, 4096, 4097, 5000, 8191, 8192, 65_537, 1_000_003])
    def test_long_data_equals_byte_by_byte(self, n: int) -> None:
        data = np.random.default_rng(n).integers(0, 256, n, np.uint8).tobytes()
        state = 0xFFFFFFFF
        table = [0] * 256
        for i in range(256):
            c = i
            for _ in range(8):
                c = (c >> 1) ^ (0x82F63B78 if c & 1 else 0)
            table[i] = c
        for byte in data:
            state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
        assert crc32c(data) == state ^ 0xFFFFFFFF

    def test_framing(self) -> None:
        data = b"abc"
        out = record(data)
        assert out[:8] == struct.pack("<Q", 3) and out[12:15] == data and len(out) == 19
        assert struct.unpack("<I", out[15:])[0] == masked_crc32c(data)


class TestWire:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (0, "00"),
            (1, "01"),
            (127, "7f"),
            (128, "8001"),
            (300, "ac02"),
            (-1, "ff" * 9 + "01"),
            (2**63 - 1, "ff" * 8 + "7f"),
        ],
    )
    def test_varint(self, value: int, expected: str) -> None:
        assert wire.varint(value).hex() == expected

    def test_an_event_is_what_the_library_reads(self) -> None:
        event_pb2 = pytest.importorskip("tensorboard.compat.proto.event_pb2")
        message = event_pb2.Event.FromString(
            events.event(1.5, 2**40, events.summary(events.value("naïve/loss", 0.1)))
        )
        assert (
            message.wall_time == 1.5
            and message.step == 2**40
            and message.summary.value[0].tag == "naïve/loss"
        )
        assert message.summary.value[0].simple_value == np.float32(0.1)
        assert message.SerializeToString() == events.event(
            1.5, 2**40, events.summary(events.value("naïve/loss", 0.1))
        )


class TestReadBack:
    def test_scalars(self, tmp_path: Path) -> None:
        steps = [0, 1, 10, 2**40]
        with TensorBoardLogger(tmp_path / "run", clock=lambda: 1234.5) as log:
            for step in steps:
                log.log(step, {"loss": step / 3, "deep/er": np.float64(-1e30), "big": 1e300})
        got = accumulate(tmp_path / "run")
        assert [(e.step, e.value) for e in got.Scalars("loss")] == [
            (s, float(np.float32(s / 3))) for s in steps
        ]
        assert (
            got.Scalars("deep/er")[0].value == float(np.float32(-1e30))
            and got.Scalars("big")[0].value == np.inf
        )
        assert got.Scalars("loss")[0].wall_time == 1234.5

    def test_not_finite(self, tmp_path: Path) -> None:
        with TensorBoardLogger(tmp_path) as log:
            log.log(1, {"x": np.nan, "y": -np.inf, "z": ml_dtypes.bfloat16(1.5), "b": True})
        got = accumulate(tmp_path)
        assert np.isnan(got.Scalars("x")[0].value) and got.Scalars("y")[0].value == -np.inf
        assert got.Scalars("z")[0].value == 1.5 and got.Scalars("b")[0].value == 1

    def test_histograms(self, tmp_path: Path) -> None:
        values = np.random.default_rng(0).normal(size=(20, 50)) ** 3
        with TensorBoardLogger(tmp_path) as log:
            log.log(
                7,
                {
                    "weights": Histogram(values),
                    "zero": Histogram([0.0, 0.0]),
                    "wide": Histogram([-1e300, 1e-300, 1e300]),
                },
            )
        got = accumulate(tmp_path)
        h = got.Histograms("weights")[0].histogram_value
        assert (h.min, h.max, h.num) == (values.min(), values.max(), 1000)
        assert h.sum == pytest.approx(values.sum()) and h.sum_squares == pytest.approx((values**2).sum())
        limits, counts = np.array(h.bucket_limit), np.array(h.bucket)
        assert counts.sum() == 1000 and (np.diff(limits) > 0).all()
        assert np.interp(0.5, np.cumsum(counts) / 1000, limits) == pytest.approx(np.median(values), abs=0.02)
        for i in range(1, limits.size):
            assert counts[i] == ((values > limits[i - 1]) & (values <= limits[i])).sum()
        assert sum(got.Histograms("zero")[0].histogram_value.bucket) == 2
        assert sum(got.Histograms("wide")[0].histogram_value.bucket) == 3

    @pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 2), (5, 7, 3), (5, 7, 4), (1, 1, 3)])
    def test_images(self, tmp_path: Path, shape: tuple[int, ...]) -> None:
        pillow = pytest.importorskip("PIL.Image")
        pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        with TensorBoardLogger(tmp_path) as log:
            log.log(2, {"bytes": Image(pixels), "floats": Image(pixels.astype(np.float32) / 255)})
        got = accumulate(tmp_path)
        for tag in ("bytes", "floats"):
            image = got.Images(tag)[0]
            assert (image.height, image.width) == shape[:2]
            back = np.asarray(pillow.open(io.BytesIO(image.encoded_image_string)))
            np.testing.assert_array_equal(back.reshape(pixels.shape), pixels)

    def test_floats_outside_are_clipped(self) -> None:
        pillow = pytest.importorskip("PIL.Image")
        data = png.encode(np.rint(np.clip(np.array([[[-1.0], [0.5], [9.0]]]), 0, 1) * 255).astype(np.uint8))
        assert np.asarray(pillow.open(io.BytesIO(data))).tolist() == [[0, 128, 255]]

    def test_text(self, tmp_path: Path) -> None:
        with TensorBoardLogger(tmp_path) as log:
            log.log(3, {"note": "# Ünïcode\n*two* lines"})
        event = accumulate(tmp_path).Tensors("note")[0]
        assert event.step == 3 and event.tensor_proto.string_val[0].decode() == "# Ünïcode\n*two* lines"

    def test_the_newer_reader_agrees(self, tmp_path: Path) -> None:
        module = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_accumulator")
        with TensorBoardLogger(tmp_path) as log:
            log.log(1, {"s": 2.5, "h": Histogram([1.0, 2.0]), "i": Image(np.zeros((2, 2))), "t": "words"})
        reader = module.EventAccumulator(str(tmp_path))
        reader.Reload()
        plugins = {tag: reader.SummaryMetadata(tag).plugin_data.plugin_name for tag in "shit"}
        assert plugins == {"s": "scalars", "h": "histograms", "i": "images", "t": "text"}

    def test_a_large_record(self, tmp_path: Path) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (600, 700, 3), np.uint8)
        with TensorBoardLogger(tmp_path) as log:
            log.log(0, {"big": Image(pixels)})
            log.log(1, {"after": 1.0})
        assert scalars(tmp_path, "after") == [(1, 1.0)]


class TestRuns:
    def test_visible_while_open_and_torn_files_are_readable(self, tmp_path: Path) -> None:
        log = TensorBoardLogger(tmp_path)
        for step in range(4):
            log.log(step, {"x": step})
        assert scalars(tmp_path, "x") == [(s, s) for s in range(4)]
        log.close()
        data = log.path.read_bytes()
        log.path.write_bytes(data[:-3])
        assert scalars(tmp_path, "x") == [(s, s) for s in range(3)]
        with pytest.raises(ArgumentError, match="the log is closed"):
            log.log(9, {})

    def test_resume_leaves_no_duplicates(self, tmp_path: Path) -> None:
        with TensorBoardLogger(tmp_path) as log:
            for step in range(10):
                log.log(step, {"x": step})
        for start, factor in ((6, 10), (4, 100)):  # twice, within the same second
            with TensorBoardLogger(tmp_path, resume=start - 1) as log:
                for step in range(start, start + 3):
                    log.log(step, {"x": factor * step})
        assert scalars(tmp_path, "x") == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 400), (5, 500), (6, 600)]

    def test_an_earlier_run_is_not_mixed_in(self, tmp_path: Path) -> None:
        TensorBoardLogger(tmp_path).close()
        with pytest.raises(
            StateError,
            match=r"(?s)event files of an earlier run.*expected: a directory per run.*resume=<step>",
        ):
            TensorBoardLogger(tmp_path)

    @pytest.mark.parametrize(
        ("value", "error", "text"),
        [
            (np.zeros(2), ShapeError, r"value 'v' has shape \(2,\)"),
            (None, DTypeError, "value 'v' is a NoneType"),
            (Histogram([]), DataError, "histogram 'v' is empty"),
            (Histogram([1.0, np.nan]), DataError, "NaN or infinite"),
            (Histogram([1j]), DTypeError, "histogram 'v' of complex128"),
            (
                Image(np.zeros((3, 4, 5))),
                ShapeError,
                r"image 'v' has shape \(3, 4, 5\)\n.*\n  remedy: channels-first",
            ),
            (Image(np.zeros((0, 4))), ShapeError, "image 'v'"),
            (Image(np.zeros((3, 4), np.int32)), DTypeError, "image 'v' of int32"),
            (Image(np.full((3, 4), np.nan)), DataError, "NaN pixels"),
        ],
    )
    def test_refused_values_write_nothing(
        self, tmp_path: Path, value: Any, error: type[Exception], text: str
    ) -> None:
        log = TensorBoardLogger(tmp_path)
        size = log.path.stat().st_size
        with pytest.raises(error, match=text):
            log.log(1, {"fine": 1.0, "v": value})
        with pytest.raises(ArgumentError, match="step -1"):
            log.log(-1, {"fine": 1.0})
        assert log.path.stat().st_size == size
        log.close()
