"""Vectorised functions: within their stated bounds; NaN, infinities, zeros and subnormal numbers right."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.compiler.emit.accuracy import TWO_OPERANDS, Array, edges, exact, samples, ulps
from tests.compiler.emit.native import load_entry, plain_host
from trilobite.compiler.targets.cpu.emit.exponential import exp
from trilobite.compiler.targets.cpu.emit.math import FUNCTIONS, ULPS
from trilobite.native.host import Host, features
from trilobite.native.llvm.text import Text

FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
BLOCK = 1 << 16  # numbers at a time: what is computed of them stays in the cache
UNARY = sorted(set(FUNCTIONS) - TWO_OPERANDS)


@cache
def _host(plain: bool) -> Host:
    return plain_host() if plain else features()


@cache
def compiled(name: str, dtype: np.dtype[np.generic], lanes: int, plain: bool) -> Callable[..., None]:
    host, count = _host(plain), 2 if name in TWO_OPERANDS else 1
    t = Text(host)
    ins = [t.argument(i, "ptr") for i in range(count)]
    result = t.argument(count, "ptr")
    with t.loop(t.begin, t.end, max(lanes, 1)) as i:
        values = [t.load(dtype, t.address(p, i.index, dtype), lanes) for p in ins]
        t.store(dtype, FUNCTIONS[name](t, *values), t.address(result, i.index, dtype))
    return load_entry(t.module(), host)


def apply(name: str, xs: list[Array], lanes: int, plain: bool = False) -> Array:
    """The function over arrays whose length is a multiple of 16."""
    out = np.zeros_like(xs[0])
    words = [x.ctypes.data for x in (*xs, out)]
    compiled(name, out.dtype, lanes, plain)(words, 0, len(out))
    return out


def operands(name: str, dtype: np.dtype[np.generic]) -> list[Array]:
    x = samples(dtype, 20_000, 11)
    xs = [x]
    if name in TWO_OPERANDS:
        e = edges(dtype)
        y = np.random.default_rng(12).permutation(x)
        xs = [np.concatenate([x, np.repeat(e, len(e))]), np.concatenate([y, np.tile(e, len(e))])]
    if name == "pow":  # powers that are numbers at all, and whole ones
        rng = np.random.default_rng(13)
        some = rng.random(len(xs[0])) < 0.5
        xs[1][some] = rng.uniform(-30, 30, some.sum())
        whole = rng.random(len(xs[0])) < 0.2
        xs[1][whole] = rng.integers(-20, 20, whole.sum())
    count = -(-len(xs[0]) // 16) * 16
    return [v[np.arange(count) % len(v)] for v in xs]


def terms(name: str, xs: list[Array]) -> Array | None:
    """Where terms cancel the error is theirs: their size, or None for functions where none do."""
    with np.errstate(all="ignore"):
        sizes = [np.abs(x).astype(np.float64) for x in xs]
        if name == "logaddexp":
            return np.maximum(*sizes)
        if name in ("lgamma", "digamma"):
            factor = np.maximum(sizes[0], 1) if name == "lgamma" else 1
            return np.where(xs[0] < 0, (1 + np.log1p(sizes[0])) * factor, 0)
    return None


def worst(name: str, xs: list[Array], found: Array) -> tuple[float, str]:
    errors = ulps(found, exact(name, *xs), terms(name, xs))
    i = int(np.argmax(errors))
    return float(errors[i]), f"{name}({', '.join(str(x[i]) for x in xs)}) = {found[i]}"


@pytest.mark.parametrize("plain", [False, True], ids=["host", "plain"])
@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE], ids=str)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_error_is_within_the_stated_bound(name: str, dtype: np.dtype[np.generic], plain: bool) -> None:
    xs = operands(name, dtype)
    error, where = worst(name, xs, apply(name, xs, 8 if dtype == FLOAT else 4, plain))
    bound = ULPS[name][dtype == DOUBLE]
    assert error <= bound, f"{where}: off by {error:.2f} units of the last place, {bound} are stated"


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_lanes_do_not_change_the_bits(name: str) -> None:
    xs = [x[-256:] for x in operands(name, FLOAT)]
    eight = apply(name, xs, 8)
    for lanes in (0, 16):
        np.testing.assert_array_equal(apply(name, xs, lanes), eight)


@pytest.mark.parametrize("plain", [False, True], ids=["host", "plain"])
@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE], ids=str)
def test_exp_of_what_is_at_most_zero_keeps_the_bound(dtype: np.dtype[np.generic], plain: bool) -> None:
    """Down to the last subnormal number, to 0 beyond, and NaN."""
    low = -110.0 if dtype == FLOAT else -760.0
    even = np.random.default_rng(3).uniform(low, 0, 20_000).astype(dtype)
    x = np.concatenate([-np.abs(samples(dtype, 5000, 4)), even])
    x = x[: len(x) // 16 * 16]
    out = np.zeros_like(x)
    t = Text(_host(plain))
    source, result = t.argument(0, "ptr"), t.argument(1, "ptr")
    with t.loop(t.begin, t.end, 8) as i:
        value = exp(t, t.load(dtype, t.address(source, i.index, dtype), 8), 0.0)
        t.store(dtype, value, t.address(result, i.index, dtype))
    load_entry(t.module(), _host(plain))([x.ctypes.data, out.ctypes.data], 0, len(x))
    error, where = worst("exp", [x], out)
    assert error <= ULPS["exp"][dtype == DOUBLE], where


def test_powers_at_their_edges() -> None:
    """As the C standard has them (ISO/IEC 9899:2018, F.10.4.4), which NumPy follows."""
    for dtype in (FLOAT, DOUBLE):
        e = np.concatenate([edges(dtype), np.array([-3, -2, 5, 7, -0.25, 1e15, 16777217], dtype)])
        x, y = np.repeat(e, len(e)), np.tile(e, len(e))
        count = len(x) // 16 * 16
        x, y = x[:count], y[:count]
        found = apply("pow", [x, y], 4)
        with np.errstate(all="ignore"):
            want = np.power(x, y)
        special = ~np.isfinite(want) | (want == 0) | ~np.isfinite(x) | ~np.isfinite(y)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
        np.testing.assert_array_equal(found[special], want[special])
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_one_large_angle_does_not_disturb_its_neighbours(name: str) -> None:
    """Lanes above the limit of the quick reduction take another way than the others."""
    x = np.random.default_rng(5).uniform(-50, 50, 4096).astype(np.float32)
    mixed = x.copy()
    mixed[3::16] *= np.float32(1e30)
    alone, among = apply(name, [x], 8), apply(name, [mixed], 8)
    same = mixed == x
    np.testing.assert_array_equal(among[same], alone[same])
    error, where = worst(name, [mixed], among)
    assert error <= ULPS[name][0], where


def test_every_function_has_a_bound() -> None:
    assert set(ULPS) == set(FUNCTIONS)
    assert all(0.5 <= bound <= 10 for pair in ULPS.values() for bound in pair)


def doubtful(name: str, x: Array, found: Array, bound: float) -> Array:
    """Where a quick look does not show that the error is within the bound."""
    with np.errstate(all="ignore"):
        error = np.abs(found - exact(name, x))
        # A unit of what was found may be twice that of the exact result, never more.
        return np.flatnonzero(~(error <= 0.5 * bound * np.spacing(np.abs(found))) | (found == 0))


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", UNARY)
def test_all_floats(name: str) -> None:
    """Every one of the 2^32 floats, block by block: three to six minutes of a core a function."""
    bound = ULPS[name][0]
    for start in range(0, 1 << 32, BLOCK):
        x = np.arange(start, start + BLOCK, dtype=np.uint64).astype(np.uint32).view(np.float32)
        found = apply(name, [x], 16)
        near = doubtful(name, x, found, bound)
        if len(near):
            error, where = worst(name, [x[near]], found[near])
            assert error <= bound, where
