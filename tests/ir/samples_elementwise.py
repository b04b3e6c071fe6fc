"""Operands for the elementwise primitives: random, signed, of a wide range, of odd sizes, without axes,
empty.

All float samples are points where the primitive is smooth, for they are compared with differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from trilobite.base import dtypes as dt

Array = np.ndarray[Any, Any]
Sample = tuple[list[Array], dict[str, Any]]
Domain = Callable[[np.random.Generator, tuple[int, ...]], Array]
SHAPES = ((), (7,), (3, 5), (0,), (2, 1, 3))
WORDS = (dt.int8, dt.int16, dt.int32, dt.int64, dt.uint8, dt.uint16, dt.uint32, dt.uint64, dt.int4, dt.uint4)


def wide(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Signed, over six orders of magnitude."""
    return np.asarray(rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(-3, 3, shape))


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.abs(wide(rng, shape))


def within(low: float, high: float) -> Domain:
    return lambda rng, shape: np.asarray(rng.uniform(low, high, shape))


def fractional(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Away from whole numbers, also after a step of a ten-thousandth."""
    return np.asarray(rng.integers(-20, 20, shape) + rng.uniform(0.1, 0.9, shape))


def off_poles(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(
        np.where(rng.random(shape) < 0.5, rng.uniform(0.3, 30, shape), fractional(rng, shape) / 2)
    )


def plane(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Complex numbers, away from the cuts of the usual functions."""
    return np.asarray(
        rng.uniform(0.2, 2.5, shape) + 1j * rng.choice([-1, 1], shape) * rng.uniform(0.2, 2.0, shape)
    )


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    kind = np.uint64 if low == 0 else np.int64
    return np.asarray(rng.integers(low, high, shape, kind, endpoint=True)).astype(dtype)


def bools(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.random(shape) < 0.5)


def elementwise(*domains: Domain, cplx: bool = False, words: Sequence[Any] = (), truth: bool = False) -> Any:
    """Samples of a primitive: floats of the domains (one per operand), and complex, integer and bool ones on
    request.
    """

    def make(rng: np.random.Generator) -> Iterator[Sample]:
        for shape in SHAPES if domains[0] is not None else ():
            yield [d(rng, shape) for d in domains], {}
        if cplx:
            yield [plane(rng, (4, 3)) for _ in domains], {}
        for dtype in words:
            yield [integers(rng, (11,), dtype) for _ in domains], {}
        if truth:
            yield [bools(rng, (9,)) for _ in domains], {}

    return make


def _bases_and_powers(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in SHAPES:
        yield [rng.uniform(0.05, 8, shape), rng.uniform(-4, 4, shape)], {}
    yield [plane(rng, (5,)), plane(rng, (5,))], {}
    for dtype in WORDS:
        yield [integers(rng, (9,), dtype), np.arange(9).astype(dtype) % np.asarray(7).astype(dtype)], {}
    yield [np.array([0, 1, -1, -1, 2, -3]), np.array([-1, -5, -3, -4, -1, 2])], {}


def _choice(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in SHAPES:
        yield [bools(rng, shape), wide(rng, shape), wide(rng, shape)], {}
    yield [bools(rng, (5,)), plane(rng, (5,)), plane(rng, (5,))], {}
    yield [bools(rng, (5,)), integers(rng, (5,), dt.int4), integers(rng, (5,), dt.int4)], {}


def _comparable(rng: np.random.Generator) -> Iterator[Sample]:
    yield from elementwise(wide, wide, words=WORDS, truth=True)(rng)
    same = wide(rng, (6,))
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0])
    yield [np.r_[same, odd], np.r_[same[::-1], odd[::-1]]], {}


def _equal(rng: np.random.Generator) -> Iterator[Sample]:
    yield from _comparable(rng)
    yield [plane(rng, (4,)), plane(rng, (4,))], {}


def _parts(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in SHAPES:
        yield [plane(rng, shape)], {}
    yield [plane(rng, (3,)).astype(np.complex64)], {}


def _shifts(rng: np.random.Generator) -> Iterator[Sample]:
    for dtype in WORDS:
        amounts = np.array([0, 1, 2, 3, 4, 7, 5, 6]).astype(dtype)
        yield [integers(rng, (8,), dtype), amounts], {}


def _bitcasts(rng: np.random.Generator) -> Iterator[Sample]:
    pairs = [("float32", "uint32"), ("float64", "int64"), ("uint64", "complex64"), ("bfloat16", "float16")]
    pairs += [("int4", "float4_e2m1fn"), ("float4_e2m1fn", "uint4"), ("float8_e4m3fn", "int8")]
    for a, b in pairs:
        source = dt.BY_NAME[a]
        x = rng.integers(0, 16 if dt.bits(source) == 4 else 256, 5 * source.itemsize, np.uint8).view(source)
        yield [x], {"dtype": dt.BY_NAME[b]}


def _polygammas(rng: np.random.Generator) -> Iterator[Sample]:
    for order in (1, 2, 5):
        for shape in SHAPES[:3]:
            yield [off_poles(rng, shape) / 4], {"order": order}


def _signs(rng: np.random.Generator) -> Iterator[Sample]:
    yield from elementwise(wide, cplx=True, words=WORDS)(rng)


pair = elementwise(wide, wide, cplx=True, words=WORDS)
unit = within(-0.95, 0.95)
truths = elementwise(wide, cplx=True, words=WORDS[:4], truth=True)
logic = elementwise(None, None, words=WORDS, truth=True)  # type: ignore[arg-type]
divisors = elementwise(
    fractional, lambda rng, shape: rng.choice([-1, 1], shape) * rng.uniform(20, 30, shape), words=WORDS
)

samples: dict[str, Callable[[np.random.Generator], Any]] = {
    "add": pair, "sub": pair, "mul": pair, "div": elementwise(wide, wide, cplx=True),
    "neg": elementwise(wide, cplx=True, words=WORDS), "floor_div": divisors, "rem": divisors,
    "pow": _bases_and_powers, "sqrt": elementwise(positive, cplx=True), "rsqrt": elementwise(positive,
    cplx=True),
    "hypot": elementwise(wide, wide), "abs": _signs, "sign": _signs, "copysign": elementwise(wide, wide),
    "nextafter": elementwise(wide, wide),
    "floor": elementwise(fractional, words=WORDS), "ceil": elementwise(fractional, words=WORDS),
    "trunc": elementwise(fractional, words=WORDS), "round": elementwise(
        lambda rng, shape: fractional(rng, shape) + np.where(rng.random(shape) < 0.5, 0.0, 0.03),
        words=WORDS),
    "exp": elementwise(within(-20, 20), cplx=True), "exp2": elementwise(within(-20, 20), cplx=True),
    "expm1": elementwise(within(-2, 9), cplx=True), "log": elementwise(positive, cplx=True),
    "log2": elementwise(positive, cplx=True), "log10": elementwise(positive, cplx=True),
    "log1p": elementwise(within(-0.9, 50), cplx=True), "logaddexp": elementwise(within(-30, 30), within(-30,
    30)),
    "sin": elementwise(within(-20, 20), cplx=True), "cos": elementwise(within(-20, 20), cplx=True),
    "tan": elementwise(within(-1.4, 1.4), cplx=True), "asin": elementwise(unit, cplx=True),
    "acos": elementwise(unit, cplx=True), "atan": elementwise(wide, cplx=True),
    "sinh": elementwise(within(-9, 9), cplx=True), "cosh": elementwise(within(-9, 9), cplx=True),
    "tanh": elementwise(within(-4, 4), cplx=True), "asinh": elementwise(wide, cplx=True),
    "acosh": elementwise(within(1.05, 60), cplx=True), "atanh": elementwise(unit, cplx=True),
    "atan2": elementwise(wide, wide),
    "erf": elementwise(within(-4, 4)), "erfc": elementwise(within(-3, 6)), "erf_inv": elementwise(unit),
    "lgamma": elementwise(off_poles), "digamma": elementwise(off_poles), "polygamma": _polygammas,
    "eq": _equal, "ne": _equal, "lt": _comparable, "le": _comparable, "gt": _comparable, "ge": _comparable,
    "maximum": elementwise(wide, wide, words=WORDS, truth=True), "minimum": elementwise(wide, wide,
    words=WORDS, truth=True),
    "select": _choice, "is_finite": truths, "is_nan": truths, "is_inf": truths, "signbit": elementwise(wide),
    "not": elementwise(None, words=WORDS, truth=True), "and": logic, "or": logic, "xor": logic,
     # type: ignore[arg-type]
    "shift_left": _shifts, "shift_right": _shifts, "popcount": elementwise(None, words=WORDS),
     # type: ignore[arg-type]
    "clz": elementwise(None, words=WORDS), "bitcast": _bitcasts,  # type: ignore[arg-type]
    "conj": _parts, "real": _parts, "imag": _parts, "complex": elementwise(wide, wide),
}  # fmt: skip
