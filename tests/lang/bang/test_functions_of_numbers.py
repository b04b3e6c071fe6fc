"""Functions of the C library and the compiler's own, of doubles, floats and integers, beside NumPy and Python."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bang_harness import needs_clang, run, written

from trilobite.processor.lang.bang.lower.library import RULES

pytestmark = needs_clang

X = np.array(
    [-3.75, -2.5, -1.5, -0.75, -0.5, -1e-3, -0.0, 0.0, 1e-3, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5, 7.25]
)
Y = np.roll(X, 5) + 0.125
ERF = np.vectorize(math.erf)
Row = tuple[str, Callable[[Any, Any], Any]]
SMALL = "(x / 8)"  # inside of (-1, 1)
FUNCTIONS: dict[str, Row] = {
    "exp2": ("exp2(x)", lambda x, y: np.exp2(x)), "tan": ("tan(x)", lambda x, y: np.tan(x)),
    "tanh": ("tanh(x)", lambda x, y: np.tanh(x)), "sinh": ("sinh(x)", lambda x, y: np.sinh(x)),
    "cosh": ("cosh(x)", lambda x, y: np.cosh(x)), "erf": ("erf(x)", lambda x, y: ERF(x)),
    "hypot": ("hypot(x, y)", lambda x, y: np.hypot(x, y)), "fma": ("fma(x, y, 0.5)", lambda x, y: x * y + 0.5),
    "atan": ("atan(x)", lambda x, y: np.arctan(x)), "atan2": ("atan2(x, y)", lambda x, y: np.arctan2(x, y)),
    "asin": (f"asin{SMALL}", lambda x, y: np.arcsin(x / 8)), "acos": (f"acos{SMALL}", lambda x, y: np.arccos(x / 8)),
    "asinh": ("asinh(x)", lambda x, y: np.arcsinh(x)), "acosh": ("acosh(1.5 + x * x)", lambda x, y: np.arccosh(1.5 + x * x)),
    "atanh": (f"atanh{SMALL}", lambda x, y: np.arctanh(x / 8)), "cbrt": ("cbrt(x)", lambda x, y: np.cbrt(x)),
    "fdim": ("fdim(x, y)", lambda x, y: np.maximum(x - y, 0)), "expm1": ("expm1(x)", lambda x, y: np.expm1(x)),
    "log1p": ("log1p(x * x)", lambda x, y: np.log1p(x * x)), "log2": ("log2(1 + x * x)", lambda x, y: np.log2(1 + x * x)),
    "log10": ("log10(1 + x * x)", lambda x, y: np.log10(1 + x * x)), "fmod": ("fmod(x, y)", np.fmod),
    "remainder": ("remainder(x, y)", lambda x, y: x - y * np.rint(x / y)),
    "pow": ("pow(1 + x * x, y)", lambda x, y: (1 + x * x) ** y), "pow of negatives": ("pow(x - 9, 3.0)", lambda x, y: (x - 9) ** 3),
    "powi": ("__builtin_powi(x - 9, 3)", lambda x, y: (x - 9) ** 3), "powi below": ("__builtin_powi(x - 9, -2)", lambda x, y: (x - 9) ** -2.0),
    "copysign": ("copysign(x, y)", np.copysign), "trunc": ("trunc(x)", lambda x, y: np.trunc(x)),
    "round": ("round(x)", lambda x, y: np.trunc(x + np.copysign(0.5, x))), "rint": ("rint(x)", lambda x, y: np.rint(x)),
    "floor": ("floor(x)", lambda x, y: np.floor(x)), "ceil": ("ceil(x)", lambda x, y: np.ceil(x)),
    "fmin": ("fmin(x, y)", np.fmin), "fmax": ("fmax(x, y)", np.fmax),
    "fmin of none": ("fmin(x, __builtin_nan(\"\"))", lambda x, y: x), "fmax of none": ("fmax(__builtin_nan(\"\"), y)", lambda x, y: y),
    "lround": ("(T)lround(x)", lambda x, y: np.trunc(x + np.copysign(0.5, x))), "lrint": ("(T)lrint(x)", lambda x, y: np.rint(x)),
    "sine of both": ("both(x, true)", lambda x, y: np.sin(x)), "cosine of both": ("both(x, false)", lambda x, y: np.cos(x)),
    "fraction": ("parted(x, true)", lambda x, y: np.modf(x)[0]), "whole part": ("parted(x, false)", lambda x, y: np.modf(x)[1]),
    "mantissa": ("split(x, true)", lambda x, y: np.frexp(x)[0]), "exponent": ("split(x, false)", lambda x, y: np.frexp(x)[1]),
    "ldexp": ("ldexp(x, 5)", lambda x, y: x * 32), "fabs": ("fabs(x)", lambda x, y: np.abs(x)),
    "sqrt": ("sqrt(fabs(x))", lambda x, y: np.sqrt(np.abs(x))), "ilogb": ("(T)ilogb(1 + x * x)", lambda x, y: np.floor(np.log2(1 + x * x))),
    "logb": ("logb(1 + x * x)", lambda x, y: np.floor(np.log2(1 + x * x))), "scalbn": ("scalbn(x, -3)", lambda x, y: x / 8),
    "scalbln": ("scalbln(x, 3)", lambda x, y: x * 8), "nearbyint": ("nearbyint(x)", lambda x, y: np.rint(x)),
    "llround": ("(T)llround(x)", lambda x, y: np.trunc(x + np.copysign(0.5, x))), "llrint": ("(T)llrint(x)", lambda x, y: np.rint(x)),
    "exp": ("exp(x)", lambda x, y: np.exp(x)), "log": ("log(1 + x * x)", lambda x, y: np.log(1 + x * x)),
    "sin": ("sin(x)", lambda x, y: np.sin(x)), "cos": ("cos(x)", lambda x, y: np.cos(x)),
    "half": ("(T)halves(x, y)", None),
}  # fmt: skip
SOURCE = """
#include <bang.h>
#include <math.h>
template <typename T> __mlu_func__ T both(T x, bool first) { double s, c; sincos((double)x, &s, &c); return (T)(first ? s : c); }
template <typename T> __mlu_func__ T parted(T x, bool first) { double w; double f = modf((double)x, &w); return (T)(first ? f : w); }
template <typename T> __mlu_func__ T split(T x, bool first) { int e; double m = frexp((double)x, &e); return first ? (T)m : (T)e; }
template <typename T> __mlu_func__ float halves(T x, T y) { half a = (half)x, b = (half)y; return (float)(half)(a * b + (half)0.5f); }
template <typename T> __mlu_global__ void rows(const T *a, const T *b, T *out, int n) {
  for (int i = 0; i < n; ++i) {
    T x = a[i], y = b[i];
    T *o = out + i;
    ROWS
  }
}
template __mlu_global__ void rows(const double *, const double *, double *, int);
template __mlu_global__ void rows(const float *, const float *, float *, int);
"""
TEXT = SOURCE.replace(
    "ROWS", "\n    ".join(f"o[{k} * n] = {call};" for k, (call, _) in enumerate(FUNCTIONS.values()))
)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize(
    ("name", "dtype", "places"), [("double", np.float64, 3e-9), ("float", np.float32, 3e-6)]
)
def test_functions_beside_numpy(name: str, dtype: Any, places: float, level: int, tmp_path: Path) -> None:
    x, y = X.astype(dtype), Y.astype(dtype)
    out = np.zeros((len(FUNCTIONS), len(x)), dtype)
    *_, found = run(written(TEXT, tmp_path), f"rows<{name}>", [x, y, out, len(x)], level=level)
    wide, other = x.astype(np.float64), y.astype(np.float64)
    for row, (what, (_, want)) in zip(found, FUNCTIONS.items(), strict=True):
        if want is None:
            wanted = (x.astype(np.float16) * y.astype(np.float16) + np.float16(0.5)).astype(dtype)
            np.testing.assert_allclose(row, wanted, rtol=2e-3, err_msg=what)
            continue
        wanted = np.asarray(want(wide, other), np.float64)
        loose = 4e-7 if what == "erf" else places
        np.testing.assert_allclose(row, wanted, rtol=max(loose, places), atol=loose, err_msg=what)
        assert (np.signbit(row) == np.signbit(wanted.astype(dtype)))[wanted != 0].all(), what


OTHER_NAMES = set(
    "fmuladd maximumnum maxnum minimumnum minnum roundeven rsqrt".split()
)  # of LLVM, of the header


def test_every_function_of_the_library_is_called() -> None:
    assert {name for name in RULES if not re.search(rf"\b(__builtin_)?{name}\(", TEXT)} <= OTHER_NAMES


WHOLE: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "population": ("__builtin_popcountll(x)", lambda x, y: x.bit_count()),
    "leading": ("__builtin_clzll(x | 1)", lambda x, y: 64 - (x | 1).bit_length()),
    "trailing": ("__builtin_ctzll(x | (1ull << 63))", lambda x, y: ((x | 1 << 63) & -(x | 1 << 63)).bit_length() - 1),
    "population of 32": ("__builtin_popcount((unsigned)x)", lambda x, y: (x & 0xFFFFFFFF).bit_count()),
    "leading of 32": ("__builtin_clz((unsigned)x | 1)", lambda x, y: 32 - (x & 0xFFFFFFFF | 1).bit_length()),
    "bytes": ("__builtin_bswap64(x)", lambda x, y: int.from_bytes(x.to_bytes(8, "little"), "big")),
    "bytes of 32": ("__builtin_bswap32((unsigned)x)", lambda x, y: int.from_bytes((x & 0xFFFFFFFF).to_bytes(4, "little"), "big")),
    "bytes of 16": ("__builtin_bswap16((unsigned short)x)", lambda x, y: int.from_bytes((x & 0xFFFF).to_bytes(2, "little"), "big")),
    "bits": ("__builtin_bitreverse64(x)", lambda x, y: int(f"{x:064b}"[::-1], 2)),
    "bits of 8": ("__builtin_bitreverse8((unsigned char)x)", lambda x, y: int(f"{x & 255:08b}"[::-1], 2)),
    "rotated left": ("__builtin_rotateleft64(x, 13)", lambda x, y: (x << 13 | x >> 51) & (1 << 64) - 1),
    "rotated right": ("__builtin_rotateright32((unsigned)x, 5)", lambda x, y: ((x & 0xFFFFFFFF) >> 5 | x << 27) & 0xFFFFFFFF),
    "smaller": ("x < y ? x : y", lambda x, y: min(x, y)), "larger": ("x > y ? x : y", lambda x, y: max(x, y)),
    "smaller with signs": ("(u64)((i64)x < (i64)y ? (i64)x : (i64)y)", lambda x, y: min(signed(x), signed(y))),
    "size": ("(u64)__builtin_llabs((i64)x >> 1)", lambda x, y: abs(signed(x) >> 1)),
    "sum or all": ("__builtin_elementwise_add_sat(x, y)", lambda x, y: min(x + y, (1 << 64) - 1)),
    "difference or nothing": ("__builtin_elementwise_sub_sat(x, y)", lambda x, y: max(x - y, 0)),
    "sum with signs": ("(u64)__builtin_elementwise_add_sat((i64)x, (i64)y)", lambda x, y: clamp(signed(x) + signed(y), 64)),
    "bytes with signs": ("(u64)(i64)__builtin_elementwise_sub_sat((signed char)x, (signed char)y)", lambda x, y: clamp(byte(x) - byte(y), 8)),
    "unsigned bytes": ("__builtin_elementwise_add_sat((unsigned char)x, (unsigned char)y)", lambda x, y: min((x & 255) + (y & 255), 255)),
    "quotient": ("x / (y | 1)", lambda x, y: x // (y | 1)), "rest": ("x % (y | 1)", lambda x, y: x % (y | 1)),
    "quotient with signs": ("(u64)((i64)(x >> 1) / ((i64)y >> 3 | 1))", lambda x, y: toward(x >> 1, signed(y) >> 3 | 1)),
    "carry": ("carried(x, y)", lambda x, y: (x + y >> 64) + 2 * (x * y >> 64 != 0)),
    "middle": ("(x >> 7) * (y & 4095) ^ x << 3", lambda x, y: (x >> 7) * (y & 4095) ^ x << 3),
}  # fmt: skip


def signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def byte(x: int) -> int:
    return (x & 255) - (256 if x & 128 else 0)


def clamp(x: int, bits: int) -> int:
    return max(-(1 << bits - 1), min(x, (1 << bits - 1) - 1))


def toward(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGERS = """
#include <bang.h>
typedef unsigned long long u64;
typedef long long i64;
__mlu_func__ u64 carried(u64 x, u64 y) { u64 r; bool a = __builtin_add_overflow(x, y, &r); bool b = __builtin_mul_overflow(x, y, &r); return (u64)a + 2 * (u64)b; }
__mlu_global__ void rows(const u64 *a, const u64 *b, u64 *out, int n) {
  for (int i = 0; i < n; ++i) {
    u64 x = a[i], y = b[i];
    u64 *o = out + i;
    ROWS
  }
}
"""
CALLS = "\n    ".join(f"o[{k} * n] = {call};" for k, (call, _) in enumerate(WHOLE.values()))


@pytest.mark.parametrize("level", [0, 2])
def test_bits_of_integers_beside_python(level: int, tmp_path: Path) -> None:
    edges = [
        0,
        1,
        2,
        127,
        128,
        255,
        256,
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFF,
        1 << 32,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
        0x0123456789ABCDEF,
    ]
    pairs = [(a, b) for a in edges for b in edges[::2]]
    x, y = (np.array([p[k] for p in pairs], np.uint64) for k in (0, 1))
    out = np.zeros((len(WHOLE), len(x)), np.uint64)
    *_, found = run(
        written(INTEGERS.replace("ROWS", CALLS), tmp_path), "rows", [x, y, out, len(x)], level=level
    )
    for row, (what, (_, want)) in zip(found.tolist(), WHOLE.items(), strict=True):
        wanted = [want(a, b) & (1 << 64) - 1 for a, b in pairs]
        wrong = [(p, hex(got), hex(w)) for p, got, w in zip(pairs, row, wanted, strict=True) if got != w]
        assert not wrong, (what, wrong[:3])
