"""Casts and bitcasts between all real dtypes: every bit as the NumPy rules have it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.emit.native import Array, plain_host, run_scalars, scalar_graph
from trilobite.base.dtypes import (
    ALL,
    COMPLEX,
    FLOATS,
    FP8,
    DType,
    bfloat16,
    bits,
    bool_,
    float16,
    float32,
    float64,
)
from trilobite.ir.primitive import table
from trilobite.native.host import features

REAL = sorted(ALL - COMPLEX, key=lambda d: d.name)


def boundaries() -> Array:
    """Every number of the small formats, what lies halfway between two, and just beside that; and integers
    at the ends of their ranges.
    """
    with np.errstate(invalid="ignore"):
        small = [np.arange(256, dtype=np.uint8).view(d).astype(np.float64) for d in FP8]
        small += [
            np.arange(0, 65536, 7, dtype=np.uint16).view(d).astype(np.float64) for d in (float16, bfloat16)
        ]
    exact = np.concatenate(small)
    exact = np.unique(exact[np.isfinite(exact)])
    middle = (exact[1:] + exact[:-1]) / 2
    ends = np.array([2.0**k + d for k in (3, 4, 7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5, 1)])
    wild = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300, 1e-320, 5e-324])
    beside = [np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
    return np.concatenate([exact, middle, *beside, ends, -ends, wild])


def everything(dtype: DType) -> Array:
    """All numbers of a dtype where they are few, else random ones and boundaries."""
    if dtype == bool_:
        return np.array([False, True])
    if bits(dtype) <= 16:
        count = 16 if bits(dtype) == 4 else 1 << 8 * dtype.itemsize
        return np.arange(count).astype(f"u{dtype.itemsize}").view(dtype)
    raw = (
        np.random.default_rng(3).integers(0, 256, (3000, dtype.itemsize), dtype=np.uint8).view(dtype).ravel()
    )
    if dtype not in FLOATS:
        few = np.arange(-300, 300).astype(dtype)
        return np.concatenate([raw, few, np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)])
    with np.errstate(all="ignore"):
        return np.concatenate([raw, boundaries().astype(dtype)])


def same(found: Array, want: Array) -> Array:
    """Equal, sign of zero included; one NaN is like another."""
    if found.dtype not in FLOATS:
        return np.asarray(found == want)
    with np.errstate(invalid="ignore"):
        a, b = found.astype(np.float64), want.astype(np.float64)
    return np.asarray((a == b) & (np.signbit(a) == np.signbit(b)) | (a != a) & (b != b))


@pytest.mark.parametrize("plain", [False, True], ids=["host", "plain"])
@pytest.mark.parametrize("source", REAL, ids=str)
def test_cast(source: DType, plain: bool) -> None:
    body = scalar_graph(lambda x: [table["cast"](x, dtype=d) for d in REAL], [source])
    x = everything(source)
    host = plain_host() if plain else features()
    for lanes in (0,) if plain else (8, 16):
        for target, found in zip(REAL, run_scalars(body, [x], lanes, host), strict=True):
            want = table["cast"].evaluate(x, dtype=target)
            wrong = np.flatnonzero(~same(found, want))
            shown = [(x[i], found[i], want[i]) for i in wrong[:3]]
            assert len(wrong) == 0, f"{source} to {target}: {len(wrong)} differ, {shown}"


@pytest.mark.parametrize("source", [d for d in REAL if d != bool_], ids=str)
def test_bitcast(source: DType) -> None:
    targets = [d for d in REAL if bits(d) == bits(source) and d != bool_]
    body = scalar_graph(lambda x: [table["bitcast"](x, dtype=d) for d in targets], [source])
    x = everything(source)
    if source in FLOATS:  # a NaN in registers is some NaN
        x = x[~np.isnan(x.astype(np.float32 if source != float64 else np.float64))]
    for target, found in zip(targets, run_scalars(body, [x], 8), strict=True):
        want = table["bitcast"].evaluate(x, dtype=target)
        assert same(found, want).all(), target


@pytest.mark.parametrize("dtype", [float16, bfloat16, *FP8], ids=str)
def test_loads_and_stores_keep_every_number(dtype: DType) -> None:
    """A value that nothing is done to goes through registers and comes back the same."""
    x = everything(dtype)
    (found,) = run_scalars(scalar_graph(lambda v: [v], [dtype]), [x], 8)
    assert same(found, x).all()


def test_float32_overflow_is_what_the_format_says() -> None:
    x = np.array([1e30, -1e30, np.nan], np.float32)
    want: dict[DType, Any] = {d: table["cast"].evaluate(x, dtype=d).astype(np.float32) for d in FP8}
    body = scalar_graph(lambda v: [table["cast"](v, dtype=d) for d in FP8], [float32])
    for d, found in zip(FP8, run_scalars(body, [x], 4), strict=True):
        np.testing.assert_array_equal(found.astype(np.float32), want[d])
