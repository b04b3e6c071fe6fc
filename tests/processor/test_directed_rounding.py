"""Rounding to each small format beside its definition: the neighbour that the mode names, of all values."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.processor.isa.formats import BF16, E4M3, E5M2, F16, Format
from trilobite.processor.isa.numbers import narrow, tf32


def every(fmt: Format) -> np.ndarray:
    """All finite values of a format, ascending, as doubles."""
    kind = {8: np.uint8, 16: np.uint16}[fmt.bits]
    with np.errstate(all="ignore"):
        found = np.arange(1 << fmt.bits, dtype=np.uint32).astype(kind).view(fmt.dtype).astype(np.float64)
    return np.unique(found[np.isfinite(found)])


def chosen(values: np.ndarray, x: float, mode: str) -> float:
    low, high = values[values <= x].max(), values[values >= x].min()
    if mode == "rd":
        return float(low)
    if mode == "ru":
        return float(high)
    if mode == "rz":
        return float(low if x > 0 else high)
    if x - low != high - x:
        return float(low if x - low < high - x else high)
    if mode == "ra":
        return float(high if x > 0 else low)
    at = np.searchsorted(values, [low, high])
    even = [(v / _unit(v, values)) % 2 == 0 for v in (low, high)]
    assert at[0] + 1 >= at[1]
    return float(low if even[0] else high)


def _unit(v: float, values: np.ndarray) -> float:
    """The distance of neighbours on the side towards larger magnitudes."""
    magnitudes = values[values >= 0]
    at = min(int(np.searchsorted(magnitudes, abs(v))), len(magnitudes) - 2)
    return float(magnitudes[at + 1] - magnitudes[at])


@pytest.mark.parametrize("mode", ["rd", "ru", "rz", "ra", "rn"])
@pytest.mark.parametrize("fmt", [E4M3, E5M2, F16, BF16], ids=lambda f: f.name)
def test_each_mode_is_its_definition(fmt: Format, mode: str) -> None:
    values, rng = every(fmt), np.random.default_rng(0)
    inner = values[np.abs(values) < values.max() / 4]
    at = rng.integers(0, len(inner) - 1, 60)
    low, high = inner[at], inner[at + 1]
    x = np.concatenate([low, (low + high) / 2, low + (high - low) * 0.25, low + (high - low) * 0.75])
    x = np.concatenate([x, -x])
    with np.errstate(all="ignore"):
        got = narrow(fmt, x, mode).astype(np.float64)
    want = np.array([chosen(values, float(v), mode) for v in x])
    assert np.array_equal(got, want)


def test_tf32_keeps_ten_bits() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(200).astype(np.float32)
    whole, exponent = np.frexp(x.astype(np.float64))
    want = np.ldexp(np.rint(whole * 2048) / 2048, exponent)
    assert np.array_equal(tf32(x).astype(np.float64), want)
    assert np.array_equal(tf32(want.astype(np.float32)), want)
