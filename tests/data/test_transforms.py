"""Transforms: values, places, colours; randomness only from the generator; inputs are never written to."""

from __future__ import annotations

import colorsys
from collections import namedtuple
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DataError, DTypeError, ShapeError
from trilobite.framework.data import transforms as T
from trilobite.framework.data.transforms.color import turn_hue


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def photo(h: int, w: int, c: int | None = 3, dtype: Any = np.uint8) -> np.ndarray:
    return rng(h * w).integers(0, 256, (h, w) if c is None else (h, w, c)).astype(dtype)


class TestItems:
    def test_first_field_of_a_tuple_or_the_whole_item(self) -> None:
        assert T.apply_to_item(lambda x: x + 1, (1, 10, 100), None) == (2, 10, 100)
        assert T.apply_to_item(lambda x: x + 1, 1, None) == 2
        assert T.apply_to_item(T.Item(lambda x: x[::-1]), (1, 2), None) == (2, 1)

    def test_field_by_field(self) -> None:
        double, negate = (lambda x: 2 * x), (lambda x: -x)
        assert T.apply_to_item((double, None, negate), (1, 2, 3, 4), None) == (2, 2, -3, 4)
        assert T.apply_to_item({"b": negate, "c": None}, {"a": 1, "b": 2, "c": 3}, None) == {
            "a": 1,
            "b": -2,
            "c": 3,
        }
        pair = namedtuple("pair", "x y")
        assert T.apply_to_item((double,), pair(1, 2), None) == pair(2, 2)
        assert isinstance(T.apply_to_item(double, pair(1, 2), None), pair)

    def test_misfits(self) -> None:
        with pytest.raises(
            DataError, match=r"2 transforms do not fit an item of type int\n  expected: a tuple of at least 2"
        ):
            T.apply_to_item((None, None), 3, None)
        with pytest.raises(DataError, match=r"keys \['z'\] do not fit the item\n  where: item with \['a'\]"):
            T.apply_to_item({"z": None}, {"a": 1}, None)
        with pytest.raises(
            DTypeError, match=r"Resize works on an image, got a tuple.*\n.*\n  remedy: .*transform=\(Resize"
        ):
            T.Resize(3)((1, 2))

    def test_compose_and_lambda(self) -> None:
        draw = T.Lambda(lambda x, g: x + g.integers(100), random=True)
        chain = T.Compose(lambda x: x * 2, draw, draw, T.Lambda(lambda x: -x))
        g = rng(3)
        assert chain(5, rng(3)) == -(10 + g.integers(100) + g.integers(100))
        assert "Compose(transforms=" in repr(chain)
        with pytest.raises(
            ArgumentError,
            match=r"Lambda is random and was called without a generator\n.*\n  remedy: let a Loader",
        ):
            chain(5)


RANDOM = [
    T.RandomCrop(5, padding=2), T.HorizontalFlip(), T.Rotate(20), T.Cutout(3),
    T.ColorJitter(0.5, 0.5, 0.5, 0.2),
]  # fmt: skip
FIXED = [T.ToFloat(), T.ChannelsFirst(), T.Resize(4), T.CenterCrop(3)]


@pytest.mark.parametrize("transform", RANDOM + FIXED, ids=lambda t: type(t).__name__)
class TestAll:
    def test_input_stays_and_output_is_its_own(self, transform: T.Transform) -> None:
        image = photo(7, 9)
        before = image.copy()
        image.flags.writeable = False
        for seed in range(5):
            out = transform(image, rng(seed))
            np.testing.assert_array_equal(image, before)
            assert out.shape[0] > 0

    def test_only_the_generator_decides(self, transform: T.Transform) -> None:
        image = photo(7, 9)
        outs = [transform(image, rng(seed)).tobytes() for seed in (1, 1, 2, 3, 4, 5)]
        assert outs[0] == outs[1]
        assert (len(set(outs)) > 1) == (transform in RANDOM)

    def test_grey_images(self, transform: T.Transform) -> None:
        if isinstance(transform, T.ColorJitter):
            transform = T.ColorJitter(0.5, 0.5)
        for image in (photo(7, 9, None), photo(7, 9, 1)):
            out = transform(image, rng())
            assert out.ndim == (3 if isinstance(transform, T.ChannelsFirst) else image.ndim)

    def test_needs_an_image(self, transform: T.Transform) -> None:
        if isinstance(transform, T.ToFloat):
            return
        for shape in [(3,), (2, 2, 3, 3), (0, 4), ()]:
            with pytest.raises(ShapeError, match=r"is not an image\n  expected: \(height, width\)"):
                transform(np.zeros(shape, np.uint8), rng())

    def test_random_ones_demand_a_generator(self, transform: T.Transform) -> None:
        if transform in RANDOM:
            with pytest.raises(ArgumentError, match="is random and was called without a generator"):
                transform(photo(7, 9))


class TestValues:
    @pytest.mark.parametrize(
        ("dtype", "top"), [(np.uint8, 255), (np.int8, 127), (np.uint16, 65535), (np.int64, 2**63 - 1)]
    )
    def test_to_float_scales(self, dtype: Any, top: int) -> None:
        out = T.ToFloat()(np.array([0, top, top // 5], dtype))
        assert out.dtype == np.float32
        np.testing.assert_allclose(out, [0, 1, top // 5 / top], rtol=1e-6)

    def test_to_float_of_others(self) -> None:
        assert T.ToFloat()(np.array([True, False])).tolist() == [1, 0]
        assert T.ToFloat(np.float64)(np.array([3.5], np.float32)).dtype == np.float64
        assert T.ToFloat(ml_dtypes.bfloat16)(np.array([255], np.uint8)).dtype == ml_dtypes.bfloat16
        all_codes = T.ToFloat()(np.arange(256, dtype=np.uint8))
        np.testing.assert_array_equal(all_codes, (np.arange(256) / 255).astype(np.float32))

    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64])
    @pytest.mark.parametrize("to", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
    def test_to_float_is_the_nearest_of_the_quotient(self, dtype: Any, to: Any) -> None:
        """In exact fractions: no other number of the type that was asked for is nearer."""
        info = np.iinfo(dtype)
        values = rng(3).integers(info.min, info.max, 60, dtype, endpoint=True)
        out = T.ToFloat(to)(values)
        assert out.dtype == to
        for value, found in zip(values.tolist(), out, strict=True):
            exact = Fraction(value, int(info.max))
            error = abs(Fraction(float(found)) - exact)
            for near in (np.nextafter(found, to(-9)), np.nextafter(found, to(9))):
                assert error <= abs(Fraction(float(near)) - exact), (value, found)

    def test_normalize(self) -> None:
        x = rng().normal(size=(4, 5, 3)).astype(np.float32)
        mean, std = np.array([0.1, -0.2, 0.3]), np.array([1.5, 0.5, 2.0])
        out = T.Normalize(mean, std)(x)
        np.testing.assert_allclose(out, (x - mean) / std, rtol=1e-5, atol=1e-6)
        assert out.dtype == np.float32
        np.testing.assert_array_equal(
            T.Normalize(mean, std, axis=0)(x.transpose(2, 0, 1)), out.transpose(2, 0, 1)
        )
        np.testing.assert_allclose(T.Normalize(2.0, 4.0)(x), (x - 2) / 4, rtol=1e-6)

    def test_normalize_refuses(self) -> None:
        with pytest.raises(
            DTypeError, match=r"got uint8\n  expected: floats\n  remedy: put ToFloat\(\) before it"
        ):
            T.Normalize(0, 1)(photo(2, 2))
        with pytest.raises(ShapeError, match=r"2 channels do not fit shape \(4, 5, 3\) at axis -1"):
            T.Normalize([0, 0], [1, 1])(np.zeros((4, 5, 3)))
        for mean, std in [(0, 0), (0, [1, -1]), (np.nan, 1), (0, np.inf)]:
            with pytest.raises(ArgumentError, match="std > 0"):
                T.Normalize(mean, std)
        with pytest.raises(ShapeError, match="more than one axis"):
            T.Normalize([[1.0]], 1)

    def test_channels_first(self) -> None:
        x = photo(2, 3)
        out = T.ChannelsFirst()(x)
        assert out.shape == (3, 2, 3) and out.flags.c_contiguous and out[2, 1, 0] == x[1, 0, 2]
        assert T.ChannelsFirst()(x[..., 0]).shape == (1, 2, 3)

    def test_one_hot(self) -> None:
        assert T.OneHot(3)(2).tolist() == [0, 0, 1] and T.OneHot(3)(2).dtype == np.float32
        assert T.OneHot(2, np.int8)([[0], [1]]).tolist() == [[[1, 0]], [[0, 1]]]
        for label in (3, -1):
            with pytest.raises(
                DataError, match=rf"labels from {label} to {label}\n  expected: 0 <= label < 3"
            ):
                T.OneHot(3)(label)
        with pytest.raises(DTypeError, match="float64"):
            T.OneHot(3)(1.0)


class TestCrops:
    def test_center(self) -> None:
        x = photo(7, 10)
        np.testing.assert_array_equal(T.CenterCrop((3, 4))(x), x[2:5, 3:7])
        with pytest.raises(ShapeError, match=r"cannot cut 8×8 from 7×10\n.*\n  remedy: Resize first"):
            T.CenterCrop(8)(x)

    def test_random_reaches_every_window_equally(self) -> None:
        x = np.arange(20).reshape(4, 5)
        corners = [int(T.RandomCrop((3, 2))(x, rng(i))[0, 0]) for i in range(1600)]
        counts = np.bincount(corners, minlength=20)
        expected = [0, 1, 2, 3, 5, 6, 7, 8]
        assert set(corners) == set(expected) and np.all(np.abs(counts[expected] - 200) < 60)

    def test_padding(self) -> None:
        x = photo(4, 4)
        outs = [T.RandomCrop(4, padding=(0, 2), fill=77)(x, rng(i)) for i in range(60)]
        assert {tuple(o[0, :, 0] == 77).index(False) if (o[0, :, 0] != 77).any() else -1 for o in outs} >= {
            0,
            1,
            2,
        }
        assert T.RandomCrop(6, padding=1, mode="reflect")(x, rng())[0, 1].tolist() == x[1, 0].tolist()
        assert T.RandomCrop(6, padding=1, mode="edge")(x, rng())[0, 0].tolist() == x[0, 0].tolist()

    @pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
    @pytest.mark.parametrize("channels", [None, 3])
    def test_equals_cropping_a_padded_image(self, mode: str, channels: int | None) -> None:
        x = photo(5, 6, channels)
        widths = [(2, 2), (3, 3), (0, 0)][: x.ndim]
        padded = np.pad(x, widths, constant_values=9) if mode == "constant" else np.pad(x, widths, mode=mode)
        for seed in range(20):
            out = T.RandomCrop((4, 7), (2, 3), fill=9, mode=mode)(x, rng(seed))
            np.testing.assert_array_equal(out, T.RandomCrop((4, 7))(padded, rng(seed)))

    def test_refused(self) -> None:
        for size in (0, -1, (3,), (2, 2.5), True):
            with pytest.raises(ArgumentError, match="size"):
                T.RandomCrop(size)
        with pytest.raises(ArgumentError, match="padding is -1"):
            T.RandomCrop(3, padding=-1)
        with pytest.raises(ArgumentError, match="method 'mean'"):
            T.RandomCrop(3, mode="mean")


class TestFlipCutRotate:
    def test_flip(self) -> None:
        x = photo(3, 4)
        np.testing.assert_array_equal(T.HorizontalFlip(1)(x, rng()), x[:, ::-1])
        np.testing.assert_array_equal(T.HorizontalFlip(0)(x, rng()), x)
        flips = sum(T.HorizontalFlip(0.25)(x, rng(i))[0, 0, 0] != x[0, 0, 0] for i in range(400))
        assert 70 < flips < 130
        with pytest.raises(ArgumentError, match=r"probability 1\.5"):
            T.HorizontalFlip(1.5)

    def test_cutout(self) -> None:
        x = np.full((9, 9), 5)
        areas = [(T.Cutout(3, fill=-1)(x, rng(i)) == -1).sum() for i in range(200)]
        assert max(areas) == 9 and min(areas) == 4  # at a corner a quarter and a bit hangs in
        hole = np.argwhere(T.Cutout((1, 5), fill=0)(x, rng(1)) == 0)
        assert len(set(hole[:, 0])) == 1
        assert (T.Cutout(3, holes=0)(x, rng()) == 5).all()

    def test_rotate_by_right_angles_is_exact(self) -> None:
        for x in (photo(6, 6), photo(7, 7, None, np.float32), photo(5, 5, 1, np.int16)):
            for turns in range(-3, 5):
                for method in ("bilinear", "nearest"):
                    np.testing.assert_allclose(
                        T.rotate(x, 90 * turns, method),
                        np.rot90(x, turns),
                        atol=1e-3 if x.dtype == np.float32 else 0,
                    )

    def test_rotate_follows_a_plane(self) -> None:
        """Bilinear interpolation of a plane is exact, so a rotated plane is known everywhere inside."""
        y, x = np.mgrid[:31, :41].astype(np.float64)
        plane = 3 * x - 2 * y
        angle = np.radians(17)
        dy, dx = y - 15, x - 20
        source_x, source_y = (
            np.cos(angle) * dx - np.sin(angle) * dy + 20,
            np.sin(angle) * dx + np.cos(angle) * dy + 15,
        )
        inside = (source_x >= 0) & (source_x <= 40) & (source_y >= 0) & (source_y <= 30)
        out = T.rotate(plane, 17.0, fill=1e6)
        np.testing.assert_allclose(out[inside], (3 * source_x - 2 * source_y)[inside], atol=1e-9)
        assert abs(out[0, 0] - 1e6) < 1e-6 and inside.sum() > 900

    def test_rotate_agrees_with_pillow(self) -> None:
        Image = pytest.importorskip("PIL.Image")
        x = photo(20, 25, None)
        mine = T.rotate(x, 30, "nearest")
        theirs = np.asarray(Image.fromarray(x).rotate(30, Image.Resampling.NEAREST))
        assert (mine == theirs).mean() > 0.97

    def test_angles(self) -> None:
        x = np.zeros((21, 21))
        x[:, 11:] = 1.0
        assert not np.array_equal(T.Rotate(30)(x, rng(1)), T.Rotate(30)(x, rng(2)))
        np.testing.assert_array_equal(T.Rotate((90, 90), "nearest")(x, rng()), np.rot90(x))
        for bad in [(3, 1), (np.nan, 1), (0, np.inf)]:
            with pytest.raises(ArgumentError, match="angles from"):
                T.Rotate(bad)
        with pytest.raises(ArgumentError, match="method 'area'"):
            T.Rotate(3, "area")


class TestColor:
    def test_hue_agrees_with_colorsys(self) -> None:
        image = rng().random((8, 9, 3)).astype(np.float64)
        image[0, 0], image[0, 1], image[0, 2] = 0.5, [1, 0, 0], [0, 0, 1]
        for turn in (0.0, 0.13, -0.4, 0.5):
            expected = [
                [
                    colorsys.hsv_to_rgb((h + turn) % 1, s, v)
                    for h, s, v in (colorsys.rgb_to_hsv(*p) for p in row)
                ]
                for row in image
            ]
            np.testing.assert_allclose(turn_hue(image, turn), expected, atol=1e-12)

    def test_brightness(self) -> None:
        x = photo(5, 5, dtype=np.float32) / 255
        factor = rng(4).uniform(0.5, 1.5)
        np.testing.assert_allclose(
            T.ColorJitter(brightness=0.5)(x, rng(4)), np.clip(x * factor, 0, 1), rtol=1e-5
        )

    def test_contrast_keeps_the_mean_and_saturation_keeps_grey(self) -> None:
        x = (photo(16, 16, dtype=np.float32) / 255) * 0.2 + 0.4
        luma = np.array([0.299, 0.587, 0.114], np.float32)
        out = T.ColorJitter(contrast=0.5)(x, rng(1))
        assert abs((out @ luma).mean() - (x @ luma).mean()) < 1e-5 and abs(out.std() / x.std() - 1) > 0.01
        out = T.ColorJitter(saturation=0.9)(x, rng(2))
        np.testing.assert_allclose(out @ luma, x @ luma, atol=1e-5)
        grey = np.repeat(x[..., :1], 3, axis=2)
        np.testing.assert_allclose(T.ColorJitter(saturation=0.9, hue=0.5)(grey, rng(2)), grey, atol=1e-6)

    def test_dtypes_and_nothing_to_do(self) -> None:
        x = photo(6, 6)
        np.testing.assert_array_equal(T.ColorJitter()(x, rng()), x)
        assert T.ColorJitter(1, 1, 1, 0.5)(x, rng()).dtype == np.uint8
        assert T.ColorJitter(1)(x.astype(np.float64) / 255, rng()).dtype == np.float64

    def test_refused(self) -> None:
        with pytest.raises(ArgumentError, match=r"hue=0.6\)\n  expected: finite amounts >= 0, hue <= 0.5"):
            T.ColorJitter(hue=0.6)
        with pytest.raises(ArgumentError, match="brightness=-1"):
            T.ColorJitter(-1)
        with pytest.raises(DTypeError, match="got int32"):
            T.ColorJitter(1)(photo(2, 2, dtype=np.int32), rng())
        with pytest.raises(ShapeError, match=r"shape \(2, 2, 1\) has no colours"):
            T.ColorJitter(hue=0.1)(photo(2, 2, 1), rng())
