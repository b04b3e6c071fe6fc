"""All 8-bit and 4-bit formats: every code and every pair of codes converts, adds, multiplies and compares as
ml_dtypes does, bit for bit; and what ml_dtypes leaves open (floats to integers out of range, missing ways)
is as our own words say.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.ir.primitive import table

Array = np.ndarray[Any, Any]
FLOATS8 = [dt.float4_e2m1fn, *dt.FP8]
INTS = [dt.int4, dt.uint4, dt.int8, dt.uint8]
FORMATS = [*FLOATS8, *INTS]
LARGER = [dt.float16, dt.bfloat16, dt.float32, dt.float64]


def codes(dtype: Any) -> Array:
    """Every number of a format."""
    return np.arange(1 << dt.bits(dtype), dtype=np.uint8).view(dtype)


def pairs(dtype: Any) -> tuple[Array, Array]:
    each = codes(dtype)
    return np.repeat(each, each.size), np.tile(each, each.size)


def same_bits(a: Array, b: Array) -> None:
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


def value(x: Any) -> Fraction | None:
    """The exact value of a code, or None for NaN and infinities."""
    number = float(x)
    return Fraction(number) if np.isfinite(number) else None


# -- conversions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", LARGER, ids=str)
@pytest.mark.parametrize("small", FORMATS, ids=str)
def test_every_code_becomes_a_larger_float_and_comes_back(small: Any, wide: Any) -> None:
    x = codes(small)
    out = table["cast"](x, dtype=wide)
    same_bits(out, x.astype(wide))
    back = table["cast"](out, dtype=small)
    held = out.astype(np.float64) == x.astype(np.float64)  # float16 cannot hold the ends of e8m0
    assert held.all() or small == dt.float8_e8m0fnu or np.isnan(out.astype(np.float64)[~held]).all()
    assert np.array_equal(back.astype(np.float64)[held], x.astype(np.float64)[held])


@pytest.mark.parametrize("target", FORMATS, ids=str)
@pytest.mark.parametrize("source", FORMATS, ids=str)
def test_every_code_converts_to_every_other_format(source: Any, target: Any) -> None:
    x = codes(source)
    out = table["cast"](x, dtype=target)
    if source in FLOATS8 and target in INTS:
        assert [int(v) for v in out] == [_saturated(float(v), target) for v in x]
        return
    if {source, target} == {dt.int4, dt.uint4} or dt.float8_e8m0fnu in (source, target):
        way = np.int8 if source in INTS and target in INTS else np.float32
        same_bits(out, x.astype(way).astype(target) if source != target else x)
        return
    same_bits(out, x.astype(target))


def _saturated(number: float, target: Any) -> int:
    info = ml_dtypes.iinfo(target)
    if np.isnan(number):
        return 0
    return int(min(max(number, info.min), info.max))


@pytest.mark.parametrize("wide", LARGER, ids=str)
@pytest.mark.parametrize("small", FLOATS8, ids=str)
def test_larger_floats_round_as_ml_dtypes(small: Any, wide: Any) -> None:
    """Around every number of the format and every midpoint between two, and beyond the range."""
    finite = np.unique(codes(small).astype(np.float64)[np.isfinite(codes(small).astype(np.float64))])
    middle = (finite[1:] + finite[:-1]) / 2
    points = np.concatenate(
        [finite, middle, finite[-1:] * 1.2, finite[-1:] * 4, [np.inf, -np.inf, np.nan, -0.0, 1e-30]]
    )
    near = np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf)])
    with np.errstate(all="ignore"):
        x = near.astype(wide)
        x = np.concatenate([x, np.nextafter(x, np.asarray(0).astype(wide))])
        same_bits(table["cast"](x, dtype=small), x.astype(small))


@pytest.mark.parametrize("small", FLOATS8, ids=str)
def test_rounding_is_to_nearest_and_to_even(small: Any) -> None:
    """Against exact fractions: no number of the format is nearer, and of two equally near ones the even code
    wins.
    """
    x = codes(small)
    finite = sorted({v for c in x if (v := value(c)) is not None})
    rng = np.random.default_rng(0)
    low, high = float(finite[0]), float(finite[-1])
    tries = np.r_[
        rng.uniform(low, high, 200), rng.uniform(low, high, 200) * 2.0 ** -rng.integers(1, 12, 200)
    ].astype(np.float32)
    for t, got in zip(tries, table["cast"](tries, dtype=small), strict=True):
        if small == dt.float8_e8m0fnu and t < 2.0**-127:
            assert np.isnan(float(got)) or t > 0
            continue
        error = abs(Fraction(float(t)) - Fraction(float(got)))
        best = min(abs(Fraction(float(t)) - f) for f in finite)
        assert error == best, f"{t} became {got}"


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_bits_survive_a_bitcast(dtype: Any) -> None:
    carrier = {4: dt.uint4, 8: dt.uint8}[dt.bits(dtype)]
    x = codes(dtype)
    same_bits(table["bitcast"](table["bitcast"](x, dtype=carrier), dtype=dtype), x)
    assert table["bitcast"](x, dtype=carrier).astype(np.int64).tolist() == list(range(x.size))


# -- arithmetic on every pair --------------------------------------------------------------------------------

_ARITHMETIC = [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)]
_ORDER = [
    ("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater),
    ("ge", np.greater_equal),
]  # fmt: skip


@pytest.mark.parametrize("name, ufunc", _ARITHMETIC, ids=[n for n, _ in _ARITHMETIC])
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_every_pair_adds_and_multiplies(dtype: Any, name: str, ufunc: Any) -> None:
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        want = ufunc(x, y)
    same_bits(table[name](x, y), want)


@pytest.mark.parametrize("dtype", FLOATS8, ids=str)
def test_every_pair_divides(dtype: Any) -> None:
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        same_bits(table["div"](x, y), np.divide(x, y))


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_every_pair_of_integers_divides_with_the_floor(dtype: Any) -> None:
    x, y = pairs(dtype)
    info = ml_dtypes.iinfo(dtype)
    span = int(info.max) - int(info.min) + 1
    quotient = [int(a) // int(b) if int(b) else 0 for a, b in zip(x, y, strict=True)]
    rest = [int(a) % int(b) if int(b) else 0 for a, b in zip(x, y, strict=True)]
    wrapped = [(q - int(info.min)) % span + int(info.min) for q in quotient]
    assert table["floor_div"](x, y).astype(np.int64).tolist() == wrapped
    assert table["rem"](x, y).astype(np.int64).tolist() == rest


@pytest.mark.parametrize("name, ufunc", _ORDER, ids=[n for n, _ in _ORDER])
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_every_pair_compares(dtype: Any, name: str, ufunc: Any) -> None:
    x, y = pairs(dtype)
    out = table[name](x, y)
    np.testing.assert_array_equal(out, ufunc(x, y))
    np.testing.assert_array_equal(out, ufunc(x.astype(np.float64), y.astype(np.float64)))


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_every_pair_has_a_larger_and_a_smaller(dtype: Any) -> None:
    x, y = pairs(dtype)
    for name, wide in (("maximum", np.maximum), ("minimum", np.minimum)):
        out = table[name](x, y)
        assert out.dtype == dtype
        np.testing.assert_array_equal(
            out.astype(np.float64), wide(x.astype(np.float64), y.astype(np.float64))
        )


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_every_integer_wraps_shifts_and_counts_bits(dtype: Any) -> None:
    x = codes(dtype)
    width, info = dt.bits(dtype), ml_dtypes.iinfo(dtype)
    numbers = [int(v) for v in x]
    span = 1 << width

    def wrap(n: int) -> int:
        return (n - int(info.min)) % span + int(info.min)

    assert table["neg"](x).astype(np.int64).tolist() == [wrap(-n) for n in numbers]
    assert table["abs"](x).astype(np.int64).tolist() == [wrap(abs(n)) for n in numbers]
    assert table["not"](x).astype(np.int64).tolist() == [wrap(~n) for n in numbers]
    assert table["popcount"](x).astype(np.int64).tolist() == [(n % span).bit_count() for n in numbers]
    assert table["clz"](x).astype(np.int64).tolist() == [
        wrap(width - (n % span).bit_length()) for n in numbers
    ]
    for n in range(min(span // 2, 2 * width)):
        by = np.full(x.shape, n).astype(dtype)
        amount = int(by[0])
        left = [wrap(v << amount) if amount < width else 0 for v in numbers]
        right = [v >> amount if amount < width else (-1 if v < 0 else 0) for v in numbers]
        assert table["shift_left"](x, by).astype(np.int64).tolist() == left
        assert table["shift_right"](x, by).astype(np.int64).tolist() == right


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_every_code_sorts_with_nan_last_and_reduces(dtype: Any) -> None:
    x = np.random.default_rng(3).permutation(codes(dtype))
    wide = x.astype(np.float64)
    (out,) = table["sort"](x, axis=0, keys=1)
    np.testing.assert_array_equal(out.astype(np.float64), np.sort(wide))
    assert int(table["argmax"](x, axis=0)) == int(np.argmax(wide))
    assert int(table["argmin"](x, axis=0)) == int(np.argmin(wide))
    known = x[~np.isnan(wide)]
    assert float(table["reduce_max"](known, axes=(0,))) == wide[~np.isnan(wide)].max()
    assert float(table["reduce_min"](known, axes=(0,))) == wide[~np.isnan(wide)].min()
    if np.isnan(wide).any():
        assert np.isnan(float(table["reduce_max"](x, axes=(0,))))
