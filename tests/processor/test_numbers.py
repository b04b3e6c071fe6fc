"""The number rules against exact arithmetic: fractions, integers, and the mathematical functions
themselves."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilobite.processor.isa import arithmetic, functions
from trilobite.processor.isa.formats import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I4,
    I8,
    I64,
    U8,
    U64,
    Format,
    pack,
    unpack,
)
from trilobite.processor.isa.numbers import convert, fma32, tf32
from trilobite.processor.isa.random import philox, uniform


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def every_value(fmt: Format) -> np.ndarray:
    """All finite values of a narrow format, sorted, as float64."""
    raw = np.arange(1 << fmt.bits, dtype=np.uint8 if fmt.bits == 8 else np.uint16).view(fmt.dtype)
    wide = raw.astype(np.float64)
    return np.unique(wide[np.isfinite(wide)])


def nearest_even(x: float, grid: np.ndarray, bits: dict[float, int]) -> float:
    at = int(np.searchsorted(grid, x))
    near = [float(v) for v in grid[max(at - 1, 0) : at + 1]]
    distance = [abs(Fraction(v) - Fraction(x)) for v in near]
    best = min(distance)
    ties = [v for v, d in zip(near, distance, strict=True) if d == best]
    return ties[0] if len(ties) == 1 else next(v for v in ties if bits[v] % 2 == 0)


def test_fma_rounds_once(rng) -> None:
    n = 4000
    a = (rng.standard_normal(n) * 2.0 ** rng.integers(-70, 60, n)).astype(np.float32)
    b = (rng.standard_normal(n) * 2.0 ** rng.integers(-70, 60, n)).astype(np.float32)
    near = -(a.astype(np.float64) * b) * (1 + rng.standard_normal(n) * 2.0 ** -rng.integers(8, 45, n))
    c = np.where(rng.random(n) < 0.8, near, rng.standard_normal(n)).astype(np.float32)
    got = fma32(a, b, c)
    for x, y, z, r in zip(a, b, c, got, strict=True):
        if not (np.isfinite(r) and np.isfinite(z)):
            continue
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        error = abs(Fraction(float(r)) - exact)
        for other in (np.nextafter(r, np.float32(np.inf)), np.nextafter(r, np.float32(-np.inf))):
            if np.isfinite(other):
                distance = abs(Fraction(float(other)) - exact)
                assert error < distance or (error == distance and int(r.view(np.uint32)) % 2 == 0)
    assert fma32(np.float32([np.inf]), np.float32([0]), np.float32([1]))[0] != 0
    assert np.signbit(fma32(np.float32([-0.0]), np.float32([1]), np.float32([-0.0])))[0]


@pytest.mark.parametrize("fmt", [F16, BF16, E4M3, E5M2], ids=str)
@pytest.mark.parametrize("rounding", ["rn", "rz", "rd", "ru", "ra"])
def test_narrowing_is_the_neighbour_the_mode_names(fmt: Format, rounding: str, rng) -> None:
    grid = every_value(fmt)
    top = float(grid[-1])
    inside = rng.uniform(-top, top, 300)
    small = rng.standard_normal(300) * 2.0 ** rng.integers(-30, 8, 300)
    middles = (lambda i: (grid[i] + grid[i + 1]) / 2)(rng.integers(0, len(grid) - 1, 200))
    x = np.concatenate([inside, small, middles, grid[:50], [0.0]]).astype(np.float32).astype(np.float64)
    x = x[np.abs(x) <= top]
    got = convert(fmt, F32, x.astype(np.float32), rounding).astype(np.float64)
    codes = {float(v): int(np.array(v).astype(fmt.dtype).view(f"u{fmt.bits // 8}")) for v in grid}
    for value, result in zip(x, got, strict=True):
        floor, ceil = (
            grid[np.searchsorted(grid, value, "right") - 1],
            grid[np.searchsorted(grid, value, "left")],
        )
        if rounding == "rn":
            want = nearest_even(value, grid, codes)
        elif rounding == "ra":
            half = abs(value - floor) == abs(ceil - value)
            want = (
                (ceil if value > 0 else floor)
                if half
                else (floor if abs(value - floor) < abs(ceil - value) else ceil)
            )
        else:
            want = {"rd": floor, "ru": ceil, "rz": floor if value > 0 else ceil}[rounding]
        assert result == want, (value, result, want)


def test_narrowing_beyond_the_range() -> None:
    x = np.float32([1e38, -1e38, np.inf, -np.inf, np.nan])
    assert convert(E4M3, F32, x, "rn").astype(np.float32)[:2].tolist() == [448.0, -448.0]
    assert np.isnan(convert(E4M3, F32, x, "rn").astype(np.float32)[2:]).all()
    assert convert(E5M2, F32, x, "ru").astype(np.float32)[:4].tolist() == [57344.0, -57344.0, np.inf, -np.inf]
    assert convert(F16, F32, x, "rn")[:2].tolist() == [np.inf, -np.inf]
    assert convert(F16, F32, x, "rz")[:2].tolist() == [65504.0, -65504.0]
    assert convert(F16, F32, x, "rn")[4:].view(np.uint16)[0] == 0x7E00
    noisy = np.uint32([0xFFC12345]).view(np.float32)
    assert convert(BF16, F32, noisy, "rn").view(np.uint16)[0] == 0x7FC0


def test_float_to_integer_saturates_and_rounds() -> None:
    x = np.float64([2.5, -2.5, 3.5, -0.5, 127.5, 128.5, -129, np.nan, np.inf, -np.inf])
    assert convert(I8, F64, x, "rn").tolist() == [2, -2, 4, 0, 127, 127, -128, 0, 127, -128]
    assert convert(I8, F64, x, "ra").tolist() == [3, -3, 4, -1, 127, 127, -128, 0, 127, -128]
    assert convert(I8, F64, x, "rd").tolist() == [2, -3, 3, -1, 127, 127, -128, 0, 127, -128]
    assert convert(U8, F64, x, "rz").tolist() == [2, 0, 3, 0, 127, 128, 0, 0, 255, 0]
    assert convert(I4, F64, x, "ru").tolist() == [3, -2, 4, 0, 7, 7, -8, 0, 7, -8]
    huge = np.float64([2.0**63, -(2.0**63), 2.0**64, 2.0**53 + 2])
    assert convert(I64, F64, huge, "rn").tolist() == [2**63 - 1, -(2**63), 2**63 - 1, 2**53 + 2]
    assert convert(U64, F64, huge, "rn").tolist() == [2**63, 0, 2**64 - 1, 2**53 + 2]
    assert convert(U8, I64, np.int64([-5, 300, 17]), "rn").tolist() == [0, 255, 17]
    assert convert(I8, U64, np.uint64([2**64 - 1, 3]), "rn").tolist() == [127, 3]


def test_tf32_keeps_ten_bits() -> None:
    x = np.float32([1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11, 3.4028235e38, np.inf, -1e-42])
    assert tf32(x).tolist() == [1 + 2**-10, 1.0, 1 + 2**-9, np.inf, np.inf, 0.0]
    assert np.isnan(tf32(np.float32([np.nan])))[0]


@pytest.mark.parametrize(
    ("name", "low", "high", "ulps"),
    [
        ("exp", -745, 709, 2),
        ("exp2", -1074, 1023, 2),
        ("log", 0, 1e300, 2),
        ("log2", 0, 1e300, 3),
        ("sin", -1e4, 1e4, 4),
        ("cos", -1e4, 1e4, 4),
        ("tanh", -20, 20, 8),
        ("erf", -6, 6, 8),
    ],
)
def test_functions_are_accurate(name: str, low: float, high: float, ulps: float, rng) -> None:
    x = np.concatenate(
        [
            rng.uniform(low, high, 3000),
            np.clip(rng.standard_normal(3000), low, high),
            np.clip(rng.standard_normal(1000) * 1e-5, low, high),
        ]
    )
    got = getattr(functions, name)(x)
    for value, result in zip(x, got, strict=True):
        if value == 0 and name in ("log", "log2"):
            assert result == -math.inf
            continue
        want = getattr(math, name)(value)
        assert abs(result - want) <= ulps * math.ulp(want) + 5e-324, (value, result, want)


def test_circular_functions_of_huge_arguments(rng) -> None:
    x = rng.standard_normal(200) * 10.0 ** rng.integers(5, 300, 200)
    for name in ("sin", "cos"):
        want = np.array([getattr(math, name)(v) for v in x])
        assert np.abs(getattr(functions, name)(x) - want).max() < 1e-15


def test_function_edges() -> None:
    f = functions
    inf, nan = np.inf, np.nan
    assert f.exp(np.array([inf, -inf, 0.0, 710.0])).tolist() == [inf, 0.0, 1.0, inf]
    assert f.exp2(np.array([10.0, -1074.0, -3.0])).tolist() == [1024.0, 5e-324, 0.125]
    assert f.log2(np.array([8.0, 5e-324, inf, 0.0])).tolist() == [3.0, -1074.0, inf, -inf]
    assert np.isnan(f.log(np.array([-1.0, nan]))).all()
    assert np.isnan(f.sin(np.array([inf, -inf, nan]))).all()
    assert f.tanh(np.array([inf, -inf, 30.0])).tolist() == [1.0, -1.0, 1.0]
    assert np.signbit(f.tanh(np.array([-0.0])))[0] and np.signbit(f.erf(np.array([-0.0])))[0]
    assert f.sigmoid(np.array([inf, -inf, 0.0])).tolist() == [1.0, 0.0, 0.5]
    assert f.erf(np.array([inf, -inf, 7.0])).tolist() == [1.0, -1.0, 1.0]
    assert f.gelu(np.array([-inf, inf, 0.0])).tolist() == [-0.0, inf, 0.0]
    for name in ("exp", "exp2", "tanh", "erf", "sigmoid", "gelu", "cos"):
        assert np.isnan(getattr(f, name)(np.array([nan])))[0], name


def test_philox_matches_the_published_vectors() -> None:
    assert philox(0, 0, 4).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox(3, 5, 8)[4:].tolist() == philox(3, 6, 4).tolist()
    values = uniform(11, 0, 40_001)
    assert values.dtype == np.float32 and values.min() >= 0 and values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01


def test_int4_packs_two_values_a_byte(rng) -> None:
    values = rng.integers(-8, 8, 31).astype(np.int8)
    raw = pack(I4, values)
    assert raw.size == 16 and raw[-1] >> 4 == 0
    assert unpack(I4, raw, 31).tolist() == values.tolist()
    assert raw[0] == (values[0] & 15) | (values[1] & 15) << 4


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(width=64), min_size=3, max_size=3), st.booleans())
def test_fused_multiply_add_of_float64_rounds_once(given_values: list[float], cancel: bool) -> None:
    """Against whole numbers; half of the examples cancel the product but for its last bits."""

    from trilobite.processor.isa.numbers import fma64

    a, b, c = given_values
    with np.errstate(all="ignore"):
        if cancel:
            c = -float(np.float64(a) * np.float64(b))
        got = float(fma64(np.array([a]), np.array([b]), np.array([c]))[0])
        plain = float(np.float64(a) * np.float64(b) + np.float64(c))
    if not all(map(np.isfinite, (a, b, c))):
        plain = c if np.isfinite(a) and np.isfinite(b) else plain
        assert got == plain or (np.isnan(got) and np.isnan(plain))
        return
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        want = float(exact)
    except OverflowError:
        want = float("inf") if exact > 0 else float("-inf")
    assert got == want


def test_fused_multiply_add_of_float64_in_its_hard_cases() -> None:
    from trilobite.processor.isa.numbers import fma64

    one = 1 + 2.0**-52
    cases = [
        (one, one, -(1 + 2.0**-51), 2.0**-104),  # only the fused form keeps the last product bit
        (2.0**-600, 2.0**-600, 1.0, 1.0),
        (2.0**600, 2.0**600, -np.inf, -np.inf),
        (2.0**1000, 2.0**1000, 1.0, np.inf),
        (2.0**-540, 2.0**-540, 0.0, 0.0),
        (3.0, 2.0**-1074, 2.0**-1074, 4 * 2.0**-1074),
    ]
    a, b, c, want = (np.array(x) for x in zip(*cases, strict=True))
    with np.errstate(all="ignore"):
        assert fma64(a, b, c).tolist() == want.tolist()


@pytest.mark.parametrize("fmt", [F16, BF16])
def test_fma_of_16_bits_rounds_once(fmt, rng) -> None:
    """Against whole numbers: the nearest of all values of the format, ties to even. Near ties on purpose."""
    from bisect import bisect_left

    every = np.arange(1 << 15, dtype=np.uint16).view(fmt.dtype)
    finite = [Fraction(float(x)) for x in every if np.isfinite(x)]
    count = 4000
    a, b, c = (rng.integers(0, 1 << 16, count).astype(np.uint16).view(fmt.dtype) for _ in range(3))
    few = 63 if fmt is F16 else 17  # few * few is a tie of the format, which c breaks far behind
    a[::2], b[::2] = few, few
    c[::2] = (rng.choice([-1, 1], count) * 2.0 ** rng.integers(-24, -14, count)).astype(fmt.dtype)[::2]
    with np.errstate(all="ignore"):
        got = arithmetic.fused(fmt, a, b, c)
    checked = differs = 0
    for x, y, z, found in zip(a, b, c, got, strict=True):
        if not all(map(np.isfinite, (x, y, z))):
            continue
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        place = bisect_left(finite, abs(exact))
        if place == len(finite):
            continue
        low, high = finite[max(place - 1, 0)], finite[place]
        middle = (low + high) / 2
        up = abs(exact) > middle or (abs(exact) == middle and place % 2 == 0)
        want = float(high if up else low) * (-1 if exact < 0 else 1)
        assert float(found) == want, (x, y, z)
        twice = arithmetic.finish(fmt, fma32(*(np.array([v], np.float32) for v in (x, y, z))))
        differs += float(twice[0]) != want
        checked += 1
    assert checked > 1000 and differs > 0  # some of them would be wrong with two roundings


@pytest.mark.parametrize("fmt", [F16, BF16, F32, F64])
def test_fma_as_machine_code(fmt, rng) -> None:
    from tests.processor.routine_calls import routine_call
    from trilobite.processor.isa.encode import Instruction
    from trilobite.processor.isa.row import Operands
    from trilobite.processor.isa.table import MNEMONICS

    count, (row,) = 20000, MNEMONICS["VFMA"]
    raw = rng.integers(0, 1 << 63, (3, count), dtype=np.uint64, endpoint=True)
    if fmt is F64:  # of a range where sums meet
        raw = (raw & 0x800FFFFFFFFFFFFF) | rng.integers(1000, 1040, (3, count)).astype(np.uint64) << 52
    a, b, c = (word.astype(f"u{fmt.bits // 8}").view(fmt.dtype) for word in raw)
    target = np.zeros(count, fmt.dtype)
    with np.errstate(all="ignore"):
        want = arithmetic.fused(fmt, a, b, c)
    call = routine_call(Instruction(row, (0,) * 5, (fmt,)), Operands({"n": count}), [target], [a, b, c])
    assert call is not None and call()
    assert target.tobytes() == want.tobytes()


def rounded(exact: Fraction, bits: int) -> float:
    """To the nearest number of so many significant bits, ties to even; far from the ends of the range."""
    if not exact:
        return 0.0
    size = abs(exact)
    scale = Fraction(2) ** (bits - 1 - math.floor(math.log2(size)))
    while size * scale >= 1 << bits:
        scale /= 2
    while size * scale < 1 << (bits - 1):
        scale *= 2
    return math.copysign(float(Fraction(round(size * scale)) / scale), exact)


def test_one_rounding_of_sums_next_to_the_middle_of_two_floats() -> None:
    """a * b is half a step of c, but for bits that float64 loses when it adds them."""
    near = [1 + s * Fraction(1, 1 << k) for k in (12, 15, 16, 18, 20, 22) for s in (1, -1)]
    rows = [
        (float(p), float(s * q / (1 << 24)), float(u * (1 + Fraction(m, 1 << 23))))
        for p in near
        for q in near
        for s in (1, -1)
        for u in (1, -1)
        for m in (1, 2, 5)
    ]
    a, b, c = (np.array(column, np.float32) for column in zip(*rows, strict=True))
    wanted = [rounded(Fraction(x) * Fraction(y) + Fraction(z), 24) for x, y, z in rows]
    assert fma32(a, b, c).tolist() == wanted
