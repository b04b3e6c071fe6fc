"""Quantisers against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from derivative_checks import batched, pull, push
from hypothesis import given
from hypothesis import strategies as st

from trilobite.base import dtypes as dt
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType

INTEGERS = [dt.int8, dt.uint8, dt.int4, dt.uint4, dt.int16, dt.uint16, dt.int32]


def nearest(x: float, scale: float, zero: int, dtype: Any) -> int:
    info = ml_dtypes.iinfo(dtype)
    quotient = np.float64(x) / np.float64(scale) if dtype == dt.int32 else np.float32(x) / np.float32(scale)
    steps = (
        round(Fraction(float(quotient))) if np.isfinite(quotient) else (2**40 if quotient > 0 else -(2**40))
    )
    return min(max(steps + zero, int(info.min)), int(info.max))


@given(
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=6),
    st.sampled_from([0.5, 0.1, 3.0, 1e-3]),
    st.integers(0, 7),
    st.sampled_from(INTEGERS),
)
def test_integers_round_to_even_and_saturate(xs: list[float], scale: float, zero: int, dtype: Any) -> None:
    x, s, z = np.array(xs, np.float32), np.array(scale, np.float32), np.array(zero).astype(dtype)
    out = table["quantise"](x, s, z, axis=None, dtype=dtype)
    assert out.dtype == dtype
    assert [int(v) for v in out] == [nearest(float(v), float(s), zero, dtype) for v in x]


def test_halves_go_to_even_and_nan_to_the_zero_point() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, np.nan, np.inf, -np.inf], np.float32)
    out = table["quantise"](x, np.array(1, np.float32), np.array(3, np.int8), axis=None, dtype=dt.int8)
    assert out.tolist() == [3, 5, 5, 3, 3, 127, -128]


def test_float_grids_saturate_instead_of_overflowing() -> None:
    x = np.array([1e9, -1e9, 3.3, np.nan], np.float32)
    zero = np.array(0).astype(dt.float8_e4m3fn)
    out = table["quantise"](x, np.array(2, np.float32), zero, axis=None, dtype=dt.float8_e4m3fn)
    assert out.astype(float)[:3].tolist() == [448, -448, 1.625] and np.isnan(float(out[3]))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_back_and_forth_within_half_a_step(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    info = ml_dtypes.iinfo(dtype)
    scale = rng.uniform(0.01, 3, 5)
    zero = rng.integers(0, 3, 5).astype(dtype)
    steps = np.minimum(rng.uniform(0, 1, (4, 5)) * float(info.max), 2.0**30) - zero.astype(float)
    x = steps * scale
    q = table["quantise"](x, scale, zero, axis=1, dtype=dtype)
    back = table["dequantise"](q, scale, zero, axis=1)
    assert back.dtype == dt.float64 and (np.abs(back - x) <= scale * 0.5000001).all()


def test_the_slope_of_a_scale_is_the_number_of_steps() -> None:
    q, zero = np.array([[5, -3], [2, 7]], np.int8), np.array([1, 0], np.int8)
    _, back = pull(lambda s: table["dequantise"](q, s, zero, axis=1), [np.array([0.5, 0.25])])
    assert back([np.ones((2, 2))])[0].tolist() == [(5 - 1) + (2 - 1), -3 + 7]


def test_codes_that_are_floats_pass_the_scale_on() -> None:
    q, zero = np.array([[2, 4], [0.5, 1]]).astype(dt.float8_e5m2), np.array([0.5, 1]).astype(dt.float8_e5m2)
    scale = np.array([0.5, 0.25])

    def fn(v: Any, z: Any) -> Any:
        return table["dequantise"](v, scale, z, axis=1)

    outs, back = pull(fn, [q, zero])
    assert outs[0].tolist() == [[0.75, 0.75], [0.0, 0.0]]
    to_q, to_zero = back([np.array([[1.0, 2.0], [4.0, 8.0]])])
    assert to_q.astype(float).tolist() == [[0.5, 0.5], [2.0, 2.0]] and to_q.dtype == dt.float8_e5m2
    assert to_zero.astype(float).tolist() == [-2.5, -2.5]
    ones = [np.ones_like(q), np.ones_like(zero)]
    assert push(fn, [q, zero], [ones[0], None])[1][0].tolist() == [[0.5, 0.25]] * 2
    assert push(fn, [q, zero], [None, ones[1]])[1][0].tolist() == [[-0.5, -0.25]] * 2


@pytest.mark.parametrize(
    "mapped", [(True, False, False), (True, True, True), (False, True, False), (True, True, False)]
)
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_a_batch_may_bring_its_own_scales(axis: Any, mapped: tuple[bool, ...]) -> None:
    rng = np.random.default_rng(1)
    n = () if axis is None else ((2, 3, 4)[axis],)
    full = [
        rng.normal(size=(5, 2, 3, 4)).astype(np.float32) * 9, rng.uniform(0.1, 2, (5, *n)).astype(np.float32),
        rng.integers(-3, 3, (5, *n)).astype(np.int8),
    ]  # fmt: skip
    values = [v if m else np.asarray(v[0]) for v, m in zip(full, mapped, strict=True)]

    def fn(*v: Any) -> Any:
        return table["quantise"](*v, axis=axis, dtype=dt.int8)

    out = batched(fn, values, mapped, 5)[0]
    for i in range(5):
        one = [np.asarray(v[i]) if m else v for v, m in zip(values, mapped, strict=True)]
        np.testing.assert_array_equal(out[i], fn(*one))


def test_wrong_uses() -> None:
    x, s, z = TensorType((2, 3), dt.float32), TensorType((3,), dt.float32), TensorType((3,), dt.int8)
    rule = table["quantise"].type
    with pytest.raises(
        ShapeError,
        match=r"quantise of f32\[2,3\] per axis 2\n  where: .*\n  expected: 0 <= axis < 2, or None",
    ):
        rule(x, s, z, axis=2, dtype=dt.int8)
    with pytest.raises(
        ShapeError,
        match=r"with scale f32\[3\] and zero point i8\[3\]\n  where: .*\n  expected: both of shape \[2\]",
    ):
        rule(x, s, z, axis=0, dtype=dt.int8)
    with pytest.raises(
        DTypeError,
        match=r"to uint8\n  where: .*\n  expected: x and scale of one float dtype, the zero point of the",
    ):
        rule(x, s, z, axis=1, dtype=dt.uint8)
    with pytest.raises(DTypeError, match="quantise with scale i32"):
        rule(x, TensorType((3,), dt.int32), z, axis=1, dtype=dt.int8)


def test_requantise_rounds_as_the_matrix_unit_drains() -> None:
    """Once, in float64: the unit's own drain, and not a product that was rounded to float32 before."""
    from trilobite.processor.isa.formats import I8
    from trilobite.processor.isa.row import Operands
    from trilobite.processor.isa.rows.matrix import drain

    rng = np.random.default_rng(0)
    sums = rng.integers(-(2**24), 2**24, (500_000, 8)).astype(np.int32)
    scale = rng.uniform(1e-6, 1e-5, 8).astype(np.float32)
    zero = np.zeros(8, np.int8)
    out = table["requantise"](sums, scale, zero, axis=1, dtype=dt.int8)
    operands = Operands({"f0": I8, "f1": I8, "f2": I8, "activation": ""})
    assert np.array_equal(np.asarray(out), drain(operands, sums.astype(np.int64), None, scale))
    once = np.rint(sums.astype(np.float32) * scale).clip(-128, 127).astype(np.int8)
    assert not np.array_equal(np.asarray(out), once)
