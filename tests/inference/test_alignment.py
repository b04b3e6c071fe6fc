"""RoiAlign's native averages beside their meaning in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.conftest import model, node
from trilobite.inference.operators.alignment import aligned, points

Array = np.ndarray[Any, Any]


def regions(seed: int, count: int, height: int, width: int) -> Array:
    """Some inside, some over the edges, some beyond the image, some empty or turned round."""
    rng = np.random.default_rng(seed)
    corners = rng.uniform(-0.5, 1.5, (count, 4)) * [width, height, width, height]
    corners[::3, 2:] = corners[::3, :2] + rng.uniform(0, 2, (len(corners[::3]), 2))
    return corners


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 1, 3])
def test_averages(ratio: int, mode: str, dtype: Any) -> None:
    rng = np.random.default_rng(ratio)
    x = rng.standard_normal((2, 3, 11, 7)).astype(dtype)
    rois = regions(7, 13, 11, 7).astype(dtype)
    batch = rng.integers(0, 2, 13)
    one = node("RoiAlign", "x r b", "y", output_height=3, output_width=2, sampling_ratio=ratio,
               spatial_scale=0.75, coordinate_transformation_mode=mode)  # fmt: skip
    proto = model(
        [one], {"x": (dtype, list(x.shape)), "r": (dtype, [13, 4]), "b": (np.int64, [13])}, ["y"], opset=16
    )
    found = tb.inference.load(proto).run({"x": x, "r": rois, "b": batch})["y"]
    half = mode == "half_pixel"
    places = rois.astype(np.float64) * 0.75 - 0.5 * half
    ys, xs = (points(places[:, k], places[:, k + 2], n, ratio, not half) for k, n in ((1, 3), (0, 2)))
    expected = np.stack([
        aligned(x[b].astype(np.float64), ys.of_region(r), xs.of_region(r)) for r, b in enumerate(batch)
    ])  # fmt: skip
    assert found.dtype == dtype
    bound = {np.float16: 2e-3, np.float32: 2e-6, np.float64: 1e-13}[dtype]
    np.testing.assert_allclose(found.astype(np.float64), expected, atol=bound, rtol=bound)


def test_no_regions() -> None:
    one = node("RoiAlign", "x r b", "y", output_height=3, output_width=2)
    shapes = {"x": (np.float32, [1, 3, 8, 8]), "r": (np.float32, [0, 4]), "b": (np.int64, [0])}
    feeds = {
        "x": np.zeros((1, 3, 8, 8), np.float32),
        "r": np.zeros((0, 4), np.float32),
        "b": np.zeros(0, np.int64),
    }
    assert tb.inference.load(model([one], shapes, ["y"], opset=16)).run(feeds)["y"].shape == (0, 3, 3, 2)
