"""Operations on bytes and 16-bit floats give the numbers of wider ones, rounded or limited once."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb

R = np.random.default_rng(11)


def test_bounds_that_do_not_fit_are_the_limits() -> None:
    x = tb.tensor(np.array([1, 200, 90], np.uint8))
    low, high = (tb.tensor(np.array(b, np.int32)) for b in ([-5, 300, 10], [100, 400, 80]))
    for clip in (tb.clip, tb.jit(tb.clip)):
        assert clip(x, low, high).tolist() == [1, 255, 80]
        assert clip(x, low, high).dtype == tb.uint8
    wide = tb.clip(tb.tensor(np.array([1, -7], np.int32)), tb.tensor([2**40, -(2**40)]))
    assert wide.tolist() == [2**31 - 1, -7]


def test_weights_of_bytes_add_up() -> None:
    places, weights = R.integers(0, 3, 50), R.integers(100, 256, 50).astype(np.uint8)
    found = tb.bincount(tb.tensor(places), weights=tb.tensor(weights))
    np.testing.assert_array_equal(found.numpy(), np.bincount(places, weights))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_areas_under_bytes(dtype: str) -> None:
    info = np.iinfo(dtype)
    y = R.integers(max(info.min, -1000), min(info.max, 1000), (3, 5)).astype(dtype)
    x = R.integers(max(info.min, -1000), min(info.max, 1000), (3, 5)).astype(dtype)
    steps, heights = np.diff(x.astype(float)), (y[:, 1:].astype(float) + y[:, :-1]) / 2
    for given, width in ((None, 1.0), (tb.tensor(x), steps)):
        np.testing.assert_allclose(
            tb.trapezoid(tb.tensor(y), given).numpy(), (heights * width).sum(1), rtol=1e-5
        )
        np.testing.assert_allclose(
            tb.cumulative_trapezoid(tb.tensor(y), given).numpy(), (heights * width).cumsum(1), rtol=1e-4
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_series_of_small_floats_are_rounded_once(dtype: str) -> None:
    special, narrow = tb.special, getattr(tb, dtype)
    x = tb.tensor(R.uniform(0.6, 5.0, 40).astype(np.float32)).to(narrow)
    for f in (
        lambda v: special.polygamma(1, v), lambda v: special.polygamma(4, v), special.i0, special.i1e,
        special.log_ndtr, special.entr, lambda v: special.multigammaln(v, 2),
    ):  # fmt: skip
        found, wanted = f(x), f(x.to(tb.float32)).to(narrow)
        assert found.dtype == narrow
        np.testing.assert_array_equal(found.float().numpy(), wanted.float().numpy())


def test_sums_of_products_keep_their_dtype() -> None:
    a, b = R.integers(-9, 9, (2, 3, 4)).astype(np.int32), R.integers(-9, 9, (2, 4, 5)).astype(np.int32)
    found = tb.addbmm(tb.zeros((3, 5), dtype=tb.int32), tb.tensor(a), tb.tensor(b))
    assert found.dtype == tb.int32
    np.testing.assert_array_equal(found.numpy(), (a @ b).sum(0))


def test_complex_windows_stay_complex() -> None:
    signal = R.standard_normal(40)
    window = R.standard_normal(8) + 1j * R.standard_normal(8)
    there = tb.stft(tb.tensor(signal), 8, hop_length=4, window=tb.tensor(window), center=False)
    frames = np.stack([signal[i : i + 8] * window for i in range(0, 33, 4)])
    np.testing.assert_allclose(there.numpy(), np.fft.fft(frames).T, atol=1e-9)
    with pytest.raises(ValueError, match="complex window"):
        tb.istft(there, 8, window=tb.tensor(window))


def test_signals_come_back_inside_jit() -> None:
    signal = tb.tensor(R.standard_normal(64).astype(np.float32))

    def there_and_back(x: tb.Tensor) -> tb.Tensor:
        window = tb.hann_window(16)
        return tb.istft(tb.stft(x, 16, window=window, return_complex=True), 16, window=window)

    np.testing.assert_allclose(tb.jit(there_and_back)(signal).numpy(), signal.numpy(), atol=1e-5)
