"""`tb.schedules`: statements from expressions, the register tile, skewed loops, and how fast they are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.arrays import assert_same_bits
from trilobite import schedules as sc
from trilobite.base.errors import ArgumentError, DTypeError, IRError
from trilobite.native.host import features

Array = np.ndarray[Any, Any]


def product(m: int, n: int, d: int, dtype: str = "float32") -> Any:
    i, j, k = sc.variables("i j k")
    a, b, c = (sc.array(x, s, dtype) for x, s in (("a", (m, d)), ("b", (d, n)), ("c", (m, n))))
    return sc.nest("product", (a, b, c), sc.loops({"i": m, "j": n, "k": d}, c[i, j].add(a[i, k] * b[k, j])))


def relaxation(rows: int, columns: int, sweeps: int) -> Any:
    _, y, x = sc.variables("t y x")
    u = sc.array("u", (rows + 2, columns + 2))
    mean = 0.25 * (u[y, x + 1] + u[y + 2, x + 1] + u[y + 1, x] + u[y + 1, x + 2])
    return sc.nest("relax", (u,), sc.loops({"t": sweeps, "y": rows, "x": columns}, u[y + 1, x + 1].set(mean)))


def scheduled(nest: Any, lanes: int) -> sc.Schedule:
    s = sc.Schedule(nest).tile("i", "j", 6, 4 * lanes).split("k", 256)
    s.reorder("k_o", "j_o", "i_o", "k_i", "i_i", "j_i").pack("b", "j_o").vectorise("j_i_p", lanes)
    return s.vectorise("j_i", lanes).tensorise("k_i", "register_tile")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("sizes", [(13, 70, 9), (6, 64, 1), (25, 33, 300)])
def test_register_tiles_with_what_is_cut_off(sizes: tuple[int, int, int], dtype: str) -> None:
    nest, rng = product(*sizes, dtype), np.random.default_rng(1)
    a, b, c = (rng.integers(-9, 9, buffer.shape).astype(dtype) for buffer in nest.arguments)
    want = c + a @ b
    for threads in (1, 2):
        got = c.copy()
        s = scheduled(nest, features().lanes(np.dtype(dtype).itemsize))
        s.compile(threads)(a, b, got)
        assert_same_bits(got, want)


@pytest.mark.parametrize("columns", [8, 16, 24, 32])
def test_tiles_of_any_width_give_the_same_bits(columns: int) -> None:
    """Wide registers are taken where they are filled; each element adds its products in order."""
    nest, rng = product(12, 96, 37), np.random.default_rng(4)
    a, b, c = (rng.standard_normal(buffer.shape).astype(np.float32) for buffer in nest.arguments)
    found = []
    for width in (8, columns):
        s = sc.Schedule(nest).tile("i", "j", 6, width).reorder("i_o", "j_o", "k", "i_i", "j_i")
        found.append(c.copy())
        s.vectorise("j_i", 8).tensorise("k", "register_tile").compile()(a, b, found[-1])
    assert_same_bits(found[1], found[0])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: s.tensorise("k", "register_tile"), "it is not three loops around one statement"),
        (lambda s: s.reorder("k", "i", "j").tensorise("k", "register_tile"), "vectors are more than 28"),
        (lambda s: s.reorder("j", "k", "i").split("k", 4).tensorise("j", "register_tile"), "not three loops"),
        (lambda s: s.split("j", 3).split("i", 2).reorder("i_o", "j_o", "k", "i_i", "j_i")
         .tensorise("k", "register_tile"), "is not a multiple of"),
        (lambda s: s.split("k", 4).split("j", 16).reorder("i", "j_o", "k_o", "j_i", "k_i")
         .tensorise("k_o", "register_tile"), "moves|no factor|does not lie along"),
    ],
)  # fmt: skip
def test_what_the_register_tile_does_not_compute(change: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(IRError, match=why):
        change(sc.Schedule(product(24, 48, 16)))


@pytest.mark.parametrize("strip", [1, 4, 5, 64])
@pytest.mark.parametrize("factor", [1, 2])
@pytest.mark.parametrize("lanes", [0, 4])
def test_wavefronts_keep_every_bit(strip: int, factor: int, lanes: int) -> None:
    nest = relaxation(7, 9, 3)
    s = sc.Schedule(nest).skew("y", "x", factor).split("y", strip)
    if factor == 1:
        s.reorder("t", "y_o", "x_y", "y_i")
        s = s.vectorise("y_i", lanes) if lanes else s
    start = np.random.default_rng(2).standard_normal((9, 11)).astype(np.float32)
    results = [start.copy() for _ in range(4)]
    sc.Schedule(nest).interpret(results[0])
    sc.Schedule(nest).compile()(results[1])
    s.interpret(results[2])
    s.compile()(results[3])
    for other in results[1:]:
        assert_same_bits(other, results[0], str(s))


def test_bounds_that_grow_otherwise_are_not_exchanged() -> None:
    with pytest.raises(IRError, match="the extent of x_y depends on y"):
        sc.Schedule(relaxation(7, 9, 1)).skew("y", "x", 2).reorder("t", "x_y", "y")


def test_a_skewed_loop_is_no_unit_of_threads() -> None:
    y, x = sc.variables("y x")
    a = sc.array("a", (5, 6))
    s = sc.Schedule(sc.nest("fill", (a,), sc.loops({"y": 5, "x": 6}, a[y, x].set(1.0)))).skew("y", "x")
    with pytest.raises(IRError, match="it is skewed"):
        s.parallelise("x_y")
    with pytest.raises(IRError, match="skew before splitting"):
        sc.Schedule(sc.nest("fill", (a,), sc.loops({"y": 5, "x": 6}, a[y, x].set(1.0)))).skew("y", "x", 0)


def test_expressions_and_other_combinations() -> None:
    i, j = sc.variables("i j")
    a, best = sc.array("a", (7, 12)), sc.array("best", (7,))
    value = sc.call("exp", -a[i, j] / 2.0) + 1 - (2 - a[i, j]) * a[i, 0]
    nest = sc.nest("extremes", (a, best), sc.loops({"i": 7, "j": 12}, best[i].combine("maximum", value)))
    x = np.random.default_rng(3).standard_normal((7, 12)).astype(np.float32)
    got = np.full(7, -np.inf, np.float32)
    sc.Schedule(nest).vectorise("j", 4).compile()(x, got)
    np.testing.assert_allclose(got, (np.exp(-x / 2) + 1 - (2 - x) * x[:, :1]).max(1), rtol=1e-5)


def test_arrays_are_checked() -> None:
    run = sc.Schedule(product(4, 4, 4)).compile()
    x = np.zeros((4, 4), np.float32)
    with pytest.raises(ArgumentError, match="2 arrays for the nest product"):
        run(x, x)
    with pytest.raises(ArgumentError, match=r"b is float64\[4, 4\]"):
        run(x, x.astype(float), x)
    with pytest.raises(ArgumentError, match="a is"):
        run(x.T.copy(order="F"), x, x)
    frozen = x.copy()
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="c is written to, and read-only"):
        run(x, x, frozen)
    with pytest.raises(ArgumentError, match="0 threads"):
        sc.Schedule(product(4, 4, 4)).compile(0)
    i = sc.variables("i")[0]
    a, b = sc.array("a", (4,)), sc.array("b", (4,), "float64")
    with pytest.raises(DTypeError, match="b holds float64"):
        a[i].set(b[i])
    with pytest.raises(ArgumentError, match="no loops"):
        sc.loops({}, a[i].set(0.0))


def best(work: Callable[[], object], rounds: int = 15) -> float:
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


@pytest.mark.bench
@pytest.mark.parametrize("size", [512, 768])
def test_a_scheduled_product_is_nearly_as_fast_as_ours(size: int) -> None:
    nest, rng = product(size, size, size), np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    out = np.zeros((size, size), np.float32)
    run = scheduled(nest, features().lanes(4)).compile()
    x, y = tb.tensor(a), tb.tensor(b)
    ours = tb.jit(lambda x, y: x @ y)
    tb.set_num_threads(1)
    pairs = [(best(lambda: run(a, b, out), 5), best(lambda: ours(x, y), 5)) for _ in range(5)]
    assert min(p for p, _ in pairs) <= min(o for _, o in pairs) / 0.9


@pytest.mark.bench
def test_a_wavefront_is_twice_as_fast_as_plain_loops() -> None:
    nest = relaxation(400, 400, 4)
    wave = (
        sc.Schedule(nest).skew("y", "x").split("y", 64).reorder("t", "y_o", "x_y", "y_i").vectorise("y_i", 4)
    )
    grid = np.random.default_rng(0).standard_normal((402, 402)).astype(np.float32)
    plain, skewed = sc.Schedule(nest).compile(), wave.compile()
    assert best(lambda: skewed(grid)) * 2 <= best(lambda: plain(grid))
