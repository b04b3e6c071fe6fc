"""Integers of more than 64 bits: as a source declares them, and as clang makes them of loops."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

pytestmark = needs_clang
MASK = (1 << 128) - 1
HALF = 1 << 127

OPERATIONS = """
#include <bang.h>
typedef __int128 wide;
typedef unsigned __int128 plain;
struct Kept { int tag; wide value; };
__attribute__((noinline)) __mlu_device__ wide middle(Kept k, wide y) { return k.tag ? k.value - y : y; }
__mlu_global__ void all(const wide *x, const wide *y, wide *out, double *d, float *s, int n) {
  for (int i = 0; i < n; ++i) {
    wide a = x[i], b = y[i], *o = out + 32 * i;
    plain u = a, v = b;
    unsigned by = (unsigned)b & 127;
    o[0] = a + b; o[1] = a - b; o[2] = a * b; o[3] = a & b; o[4] = a | b; o[5] = a ^ b;
    o[6] = (wide)(u << by); o[7] = a >> by; o[8] = (wide)(u >> by);
    o[9] = b ? a / b : 0; o[10] = b ? a % b : 0; o[11] = v ? (wide)(u / v) : 0; o[12] = v ? (wide)(u % v) : 0;
    o[13] = a < b; o[14] = a <= b; o[15] = u > v; o[16] = u >= v; o[17] = a == b; o[18] = a != b;
    o[19] = a < b ? a : b; o[20] = u < v ? v : u; o[21] = -a; o[22] = ~a;
    o[23] = (wide)(long)a; o[24] = (wide)(unsigned long)a; o[25] = (wide)(int)a; o[26] = (wide)(unsigned char)a;
    o[27] = middle({i & 1, a}, b);
    o[28] = (wide)((u << by) | (v >> (128 - by) % 128));
    wide sum; o[29] = __builtin_add_overflow(a, b, &sum);
    plain less; o[30] = __builtin_sub_overflow(u, v, &less);
    o[31] = (wide)(double)(a >> 70);
    d[3 * i] = (double)a; d[3 * i + 1] = (double)u; d[3 * i + 2] = (double)(plain)(double)u;
    s[2 * i] = (float)a; s[2 * i + 1] = (float)u;
  }
}
"""


def signed(x: int) -> int:
    return ((x & MASK) ^ HALF) - HALF


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def meant(a: int, b: int, place: int) -> list[int]:
    u, v, by = a & MASK, b & MASK, b & 127
    whole = u << by | (v >> (128 - by) % 128)
    return [
        a + b, a - b, a * b, a & b, a | b, a ^ b, u << by, a >> by, u >> by,
        quotient(a, b), a - quotient(a, b) * b if b else 0, u // v if v else 0, u % v if v else 0,
        a < b, a <= b, u > v, u >= v, a == b, a != b, min(a, b), max(u, v), -a, ~a,
        ((a & (2**64 - 1)) ^ 2**63) - 2**63, a & (2**64 - 1), ((a & (2**32 - 1)) ^ 2**31) - 2**31, a & 255,
        a - b if place & 1 else b, whole, not -HALF <= a + b < HALF, u < v, int(float(a >> 70)),
    ]  # fmt: skip


def words(values: list[int]) -> np.ndarray:
    return np.frombuffer(b"".join((v & MASK).to_bytes(16, "little") for v in values), np.int64).copy()


def numbers(array: np.ndarray) -> list[int]:
    content = array.tobytes()
    return [signed(int.from_bytes(content[at : at + 16], "little")) for at in range(0, len(content), 16)]


def rounded(x: int) -> np.float32:
    """To float32 at once: the head with a bit for the rest is exact in float64."""
    size = abs(x)
    shift = max(0, size.bit_length() - 50)
    head = (size >> shift) | bool(size & ((1 << shift) - 1))
    with np.errstate(over="ignore"):
        return np.float32(np.ldexp(float(head), shift)) * np.float32(-1 if x < 0 else 1)


@pytest.mark.parametrize("level", LEVELS)
def test_operations_on_128_bits(level: int, tmp_path: Path, rng: np.random.Generator) -> None:
    edges = [0, 1, -1, HALF - 1, -HALF, 2**64 - 1, 2**64, -(2**64), 2**63, -(2**63), (1 << 100) + 1, 10**30]
    drawn = [signed(int.from_bytes(rng.bytes(16), "little")) >> int(rng.integers(0, 120)) for _ in range(24)]
    a = [*edges, *drawn[:12]]
    b = [*drawn[12:], *edges[::-1]]
    n = len(a)
    given = [words(a), words(b), np.zeros(64 * n, np.int64), np.zeros(3 * n), np.zeros(2 * n, np.float32), n]
    _, _, out, doubles, singles = run(written(OPERATIONS, tmp_path), "all", given, level=level)
    for place, (x, y) in enumerate(zip(a, b, strict=True)):
        want = [signed(int(value)) for value in meant(x, y, place)]
        assert numbers(out[64 * place : 64 * place + 64]) == want, (x, y)
    plain = [x & MASK for x in a]
    assert doubles[0::3].tolist() == [float(x) for x in a]
    assert doubles[1::3].tolist() == [float(x) for x in plain]
    again = [float(int(float(x)) if float(x) < 2**128 else 0) for x in plain]
    held = [(x, y) for x, y, u in zip(doubles[2::3].tolist(), again, plain, strict=True) if float(u) < 2**128]
    assert [x for x, _ in held] == [y for _, y in held]
    np.testing.assert_array_equal(singles[0::2], [rounded(x) for x in a])
    np.testing.assert_array_equal(singles[1::2], [rounded(x) for x in plain])


CLOSED = """
#include <bang.h>
__mlu_global__ void sums(unsigned long *y, const unsigned long *x) {
  unsigned long s = 0, t = 0, u = 0;
  for (unsigned long i = 0; i < x[0]; ++i) s += i;
  unsigned long n = x[1];
  for (unsigned long i = 0; i < n; ++i) t += i * i;
  for (unsigned long i = 3; i < n; i += 2) u += i * x[2];
  y[0] = s; y[1] = t; y[2] = u;
  unsigned m = (unsigned)x[1], w = 0;
  for (unsigned i = 0; i < m; ++i) w += i * i;
  y[3] = w;
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_sums_that_clang_closes(level: int, tmp_path: Path) -> None:
    x = np.array([1001, 301, 7], np.uint64)
    y, _ = run(written(CLOSED, tmp_path), "sums", [np.zeros(4, np.uint64), x], level=level)
    want = [sum(range(1001)), sum(i * i for i in range(301)), 7 * sum(range(3, 301, 2))]
    assert y.tolist() == [*want, want[1]]
