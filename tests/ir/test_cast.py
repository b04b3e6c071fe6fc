"""Casts mean the same everywhere: against exact arithmetic, for every pair of dtypes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from derivative_checks import pull
from hypothesis import given
from hypothesis import strategies as st

from trilobite.base import dtypes as dt
from trilobite.base.errors import DTypeError
from trilobite.ir.primitives import table
from trilobite.ir.types import TensorType

cast = table["cast"]
INTEGERS = sorted(dt.INTEGERS, key=str)
FLOATS = sorted(dt.FLOATS, key=str)
EDGES = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    7.99,
    8.0,
    -8.5,
    127.9,
    128.0,
    -129.0,
    255.5,
    256.0,
    2.0**31,
    -(2.0**31) - 1,
]
EDGES += [
    2.0**32,
    2.0**53 + 2,
    2.0**63,
    -(2.0**63),
    -(2.0**64),
    2.0**64,
    1e30,
    -1e30,
    math.inf,
    -math.inf,
    math.nan,
]


def saturated(number: float, dtype: Any) -> int:
    """Truncated towards zero and held inside the range; NaN is 0."""
    info = ml_dtypes.iinfo(dtype)
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return int(info.max if number > 0 else info.min)
    return min(max(int(number), int(info.min)), int(info.max))


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_floats_truncate_and_saturate(source: Any, target: Any) -> None:
    with np.errstate(all="ignore"):
        x = np.array(EDGES, np.float32 if source != dt.float64 else np.float64).astype(source)
    want = [saturated(float(v), target) for v in x]
    assert [int(v) for v in cast(x, dtype=target)] == want
    for v, w in zip(
        x, want, strict=True
    ):  # alone, so that the quick way for arrays inside the range is taken too
        assert int(cast(np.asarray(v).reshape(()), dtype=target)) == w


@given(st.lists(st.floats(), min_size=1, max_size=9), st.sampled_from(INTEGERS))
def test_any_double_becomes_the_nearest_integer_towards_zero(numbers: list[float], target: Any) -> None:
    assert [int(v) for v in cast(np.array(numbers), dtype=target)] == [saturated(v, target) for v in numbers]


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integers_wrap(source: Any, target: Any) -> None:
    info, to = ml_dtypes.iinfo(source), ml_dtypes.iinfo(target)
    low, high = int(info.min), int(info.max)
    numbers = sorted(
        {low, low + 1, -1 if low else 0, 0, 1, 7, high - 1, high, min(high, 200), min(high, 40000)}
    )
    span = int(to.max) - int(to.min) + 1
    want = [(n - int(to.min)) % span + int(to.min) for n in numbers]
    x = np.array(numbers, np.uint64 if low == 0 else np.int64).astype(source)
    assert [int(v) for v in cast(x, dtype=target)] == want


@pytest.mark.parametrize("target", [dt.float16, dt.float32, dt.float64], ids=str)
def test_integers_become_the_nearest_float(target: Any) -> None:
    numbers = [0, 1, -1, 2049, 2051, 2**24 + 1, 2**53 + 1, -(2**53) - 1, 2**62 + 1]
    out = cast(np.array(numbers), dtype=target)
    for n, o in zip(numbers, out, strict=True):
        if math.isinf(float(o)):
            assert target == dt.float16 and abs(n) >= 65520
            continue
        near = [o, np.nextafter(o, target.type(math.inf)), np.nextafter(o, target.type(-math.inf))]
        finite = [abs(Fraction(float(v)) - n) for v in near if math.isfinite(float(v))]
        assert finite[0] == min(finite)


def test_truth_is_what_differs_from_zero() -> None:
    assert cast(np.array([0.0, -0.0, math.nan, 1e-300, math.inf]), dtype=dt.bool_).tolist() == [0, 0, 1, 1, 1]
    assert cast(np.array([0j, 1j, 1]), dtype=dt.bool_).tolist() == [0, 1, 1]
    assert cast(np.array([0, 16, -1]), dtype=dt.bool_).tolist() == [0, 1, 1]


@pytest.mark.parametrize("target", sorted(dt.ALL, key=str), ids=str)
@pytest.mark.parametrize("source", sorted(dt.ALL, key=str), ids=str)
def test_every_pair_of_dtypes_has_a_way(source: Any, target: Any) -> None:
    x = np.array([1, 1, 1]).astype(source)
    out = cast(x, dtype=target)
    assert out.dtype == target and [complex(v) for v in out.astype(complex)] == [1, 1, 1]


def test_complex_numbers_lose_their_imaginary_part_and_the_cotangent_returns_real() -> None:
    z = np.array([3.7 - 2j, -1e9 + 5j])
    assert cast(z, dtype=dt.float32).tolist() == pytest.approx([3.7, -1e9])
    assert cast(z, dtype=dt.int8).tolist() == [3, -128]
    _, back = pull(lambda v: cast(v, dtype=dt.float64), [z])
    assert back([np.array([1.0, 2.0])])[0].tolist() == [1, 2]
    _, back = pull(lambda v: cast(v, dtype=dt.complex64), [np.array([1.0, 2.0])])
    assert back([np.array([1 + 1j, 2 - 5j], np.complex64)])[0].tolist() == [1, 2]


def test_a_dtype_that_tensors_cannot_have_is_refused() -> None:
    with pytest.raises(
        DTypeError,
        match=r"cast of f32\[2\] to datetime64\[s\]\n  where: .*\n  expected: bfloat16, bool, complex128",
    ):
        cast.type(TensorType((2,), dt.float32), dtype=np.dtype("datetime64[s]"))
