"""Resizing: against exact sums, against Pillow, and where nothing may change."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DTypeError
from trilobite.framework.data.transforms import Resize, resize

SIZES = [
    ((13, 17), (5, 4)),
    ((5, 4), (13, 17)),
    ((8, 8), (8, 8)),
    ((1, 1), (3, 2)),
    ((9, 2), (1, 7)),
    ((64, 48), (10, 31)),
]


def picture(shape: tuple[int, ...], dtype: Any = np.uint8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(dtype)


def area_matrix(n: int, m: int) -> np.ndarray:
    """Exact overlaps in rational steps: every pixel cut into m, every output made of n of those pieces."""
    return np.repeat(np.eye(n), m, axis=0).reshape(m, n, n).mean(axis=1)


@pytest.mark.parametrize(("source", "target"), SIZES)
class TestMeaning:
    def test_area_is_the_mean_of_what_is_covered(
        self, source: tuple[int, int], target: tuple[int, int]
    ) -> None:
        x = picture((*source, 2), np.float64)
        rows, columns = (area_matrix(n, m) for n, m in zip(source, target, strict=True))
        np.testing.assert_allclose(
            resize(x, target, "area"), np.einsum("ay,yxc,bx->abc", rows, x, columns), rtol=1e-12
        )

    @pytest.mark.parametrize("antialias", [True, False])
    def test_bilinear_by_its_definition(
        self, source: tuple[int, int], target: tuple[int, int], antialias: bool
    ) -> None:
        def weights(n: int, m: int) -> np.ndarray:
            radius = max(n / m, 1) if antialias else 1
            w = np.maximum(0, 1 - np.abs(np.arange(n) + 0.5 - (np.arange(m)[:, None] + 0.5) * n / m) / radius)
            return w / w.sum(axis=1, keepdims=True)

        x = picture(source, np.float64)
        rows, columns = (weights(n, m) for n, m in zip(source, target, strict=True))
        np.testing.assert_allclose(resize(x, target, antialias=antialias), rows @ x @ columns.T, rtol=1e-12)

    def test_agrees_with_pillow(self, source: tuple[int, int], target: tuple[int, int]) -> None:
        Image = pytest.importorskip("PIL.Image")
        x = picture((*source, 3))
        expected = np.asarray(Image.fromarray(x).resize(target[::-1], Image.Resampling.BILINEAR)).astype(int)
        assert np.abs(resize(x, target).astype(int) - expected).max() <= 1  # Pillow rounds between the axes
        expected = np.asarray(Image.fromarray(x).resize(target[::-1], Image.Resampling.NEAREST))
        rows, columns = (
            (2 * np.arange(m) + 1) * n % (2 * m) > 0 for n, m in zip(source, target, strict=True)
        )  # a centre on an edge between two pixels: Pillow's rounding decides, so leave it out
        clear = np.ix_(rows, columns)
        np.testing.assert_array_equal(resize(x, target, "nearest")[clear], expected[clear])
        real = np.asarray(
            Image.fromarray(x[..., 0].astype(np.float32)).resize(target[::-1], Image.Resampling.BILINEAR)
        )
        np.testing.assert_allclose(resize(x[..., 0].astype(np.float32), target), real, rtol=1e-4, atol=1e-3)

    @pytest.mark.parametrize("method", ["bilinear", "nearest", "area"])
    def test_constants_stay(self, source: tuple[int, int], target: tuple[int, int], method: str) -> None:
        for dtype, value in (
            (np.uint8, 255),
            (np.int16, -32768),
            (np.float16, 0.1),
            (np.int64, -(2**40)),
            (np.uint8, 1),
        ):
            x = np.full(source, value, dtype)
            out = resize(x, target, method)
            assert out.dtype == dtype and out.shape == target
            np.testing.assert_allclose(
                out.astype(np.float64), x[0, 0].astype(np.float64), rtol=1e-3 if dtype == np.float16 else 0
            )


@pytest.mark.parametrize("method", ["bilinear", "nearest", "area"])
@pytest.mark.parametrize(
    "dtype",
    [
        np.uint8,
        np.int8,
        np.uint16,
        np.int32,
        np.uint64,
        np.float16,
        np.float32,
        np.float64,
        ml_dtypes.bfloat16,
    ],
)
def test_dtypes(method: str, dtype: Any) -> None:
    x = (picture((6, 7, 3), np.float64) / 4).astype(dtype)
    out = resize(x, (3, 9), method)
    assert out.dtype == dtype and out.flags.owndata
    exact = resize(x.astype(np.float64), (3, 9), method)
    tolerance = {"f": 0.1, "V": 1.0}.get(x.dtype.kind, 0.5000001)
    np.testing.assert_allclose(out.astype(np.float64), exact, atol=tolerance)


def test_extremes_of_64_bits() -> None:
    for dtype in (np.uint64, np.int64):
        x = np.full((4, 4), np.iinfo(dtype).max, dtype)
        assert (resize(x, (3, 3)) >= np.iinfo(dtype).max - 2**12).all()


def test_nan_spreads_only_where_it_is_used() -> None:
    x = np.ones((8, 8))
    x[0, 0] = np.nan
    out = resize(x, (4, 4), "area")
    assert np.isnan(out[0, 0]) and np.isfinite(out).sum() == 15


def test_masks_by_nearest_only() -> None:
    mask = picture((5, 5)) > 128
    assert resize(mask, (3, 3), "nearest").dtype == np.bool_
    with pytest.raises(DTypeError, match=r"bool cannot be averaged\n.*\n  remedy: method='nearest'"):
        resize(mask, (3, 3))


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ((100, 50), 20, (40, 20)), ((50, 100), 20, (20, 40)), ((3, 1000), 1, (1, 333)),
        ((7, 5), (2, 9), (2, 9)), ((5, 5), 8, (8, 8)), ((1000, 3), 2, (667, 2)),
    ],
)  # fmt: skip
def test_one_number_is_the_shorter_side(shape: tuple[int, int], size: Any, expected: tuple[int, int]) -> None:
    assert Resize(size)(picture(shape)).shape == expected


def test_refused() -> None:
    with pytest.raises(ArgumentError, match=r"method 'cubic'\n  expected: one of bilinear, nearest, area"):
        Resize(3, "cubic")
    with pytest.raises(ArgumentError, match="size 0"):
        Resize(0)
