"""Data movement, computed places, scatters and running sums against the NumPy rules, in every bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits
from tests.compiler.loops.regions import Build, Region, fusion_of, made, native, reference, same
from trilobite.base import dtypes as dt
from trilobite.compiler.targets.cpu.nests.lower import lower
from trilobite.ir.graph import Dense

REAL = sorted(dt.ALL - dt.COMPLEX, key=lambda d: d.name)
NUMBERS = [d for d in REAL if d != dt.bool_]


# -- data movement -----------------------------------------------------------------------------------------

PAD = dict(between=(0, 0), value=-1.5)
MOVES: dict[str, tuple[Build, tuple[Any, ...]]] = {
    "copy": (lambda r, x: x, ((7, 33),)),
    "twice": (lambda r, x: (x, x), ((7, 33),)),
    "broadcast row": (lambda r, x: r.broadcast(x, shape=(5, 33), axes=(1,)), ((33,),)),
    "broadcast column": (lambda r, x: r.broadcast(x, shape=(5, 33), axes=(0,)), ((5,),)),
    "broadcast one": (lambda r, x: r.broadcast(x, shape=(5, 3, 33), axes=(0, 2)), ((1, 33),)),
    "broadcast scalar": (lambda r, x: r.broadcast(x, shape=(70000,), axes=()), ((),)),
    "transpose": (lambda r, x: r.transpose(x, axes=(1, 0)), ((37, 45),)),
    "transpose large": (lambda r, x: r.transpose(x, axes=(0, 2, 1)), ((3, 129, 70),)),
    "transpose three": (lambda r, x: r.transpose(x, axes=(2, 0, 1)), ((3, 33, 17),)),
    "transpose reversed": (lambda r, x: r.transpose(x, axes=(3, 2, 1, 0)), ((4, 3, 9, 17),)),
    "heads": (lambda r, x: r.transpose(x, axes=(0, 2, 1, 3)), ((2, 9, 3, 16),)),
    "reverse": (lambda r, x: r.reverse(x, axes=(0, 1)), ((3, 43),)),
    "reverse outer": (lambda r, x: r.reverse(x, axes=(0,)), ((3, 43),)),
    "slice": (lambda r, x: r.slice(x, start=(1, 2), stop=(3, 31), step=(1, 3)), ((3, 33),)),
    "slice inner": (lambda r, x: r.slice(x, start=(0, 5), stop=(3, 30), step=(2, 1)), ((3, 33),)),
    "pad": (lambda r, x: r.pad(x, low=(1, 2), high=(0, 3), **PAD), ((3, 33),)),
    "pad outer": (lambda r, x: r.pad(x, low=(2, 0), high=(1, 0), **PAD), ((3, 33),)),
    "crop": (lambda r, x: r.pad(x, low=(-1, 2), high=(0, -3), **PAD), ((3, 33),)),
    "pad nothing": (lambda r, x: r.pad(x, low=(1, 2), high=(1, 2), **PAD), ((0, 33),)),
    "dilate": (
        lambda r, x: r.pad(x, low=(1, 2), high=(0, 3), between=(1, 2), value=7.0),
        ((3, 33),),
    ),
    "dilate and crop": (
        lambda r, x: r.pad(x, low=(-1, -4), high=(0, -3), between=(1, 2), value=np.nan),
        ((3, 33),),
    ),
    "pad of pad": (
        lambda r, x: r.pad(r.pad(r.neg(x), low=(1, 2), high=(0, 3), **PAD), low=(0, 1), high=(1, 1),
                           between=(0, 0), value=3.0),
        ((3, 33),),
    ),
    "concatenate": (lambda r, x, y: r.concatenate(x, y, r.neg(x), axis=1), ((3, 33), (3, 5))),
    "concatenate rows": (lambda r, x, y: r.neg(r.concatenate(x, y, axis=0)), ((3, 33), (4, 33))),
    "concatenate large": (lambda r, x, y: r.concatenate(x, r.neg(y), x, axis=1), ((90, 99), (90, 33))),
    "concatenate large rows": (lambda r, x, y: r.concatenate(x, y, x, axis=0), ((90, 99), (33, 99))),
    "concatenate middle": (lambda r, x, y: r.concatenate(x, y, axis=1), ((9, 50, 20), (9, 70, 20))),
    "concatenate nothing": (lambda r, x, y: r.concatenate(x, y, x, axis=0), ((3, 7), (0, 7))),
    "split axis": (lambda r, x: r.reshape(r.neg(x), shape=(3, 11, 3)), ((3, 33),)),
    "join axes": (lambda r, x: r.reshape(r.neg(x), shape=(99,)), ((3, 33),)),
    "reshape of transpose": (
        lambda r, x: r.reshape(r.transpose(x, axes=(1, 0)), shape=(9, 11)), ((3, 33),),
    ),
    "ones in shape": (lambda r, x: r.reshape(r.neg(x), shape=(1, 3, 1, 33, 1)), ((3, 33),)),
    "iota": (lambda r: r.iota(shape=(3, 33), dtype=dt.float32, axis=1), ()),
    "iota outer": (lambda r: r.iota(shape=(3, 33), dtype=dt.float64, axis=0), ()),
    "iota wraps": (lambda r: r.iota(shape=(3, 333), dtype=dt.int8, axis=1), ()),
    "full": (lambda r: r.full(shape=(3, 33), dtype=dt.float16, value=2.5), ()),
    "scalar": (lambda r, x: r.neg(x), ((),)),
    "empty": (lambda r, x: r.neg(x), ((0, 3),)),
    "update": (
        lambda r, x, y: r.update_slice(x, y, start=(1, 2), stop=(9, 20), step=(2, 3)), ((11, 33), (4, 6)),
    ),
    "update whole": (
        lambda r, x, y: r.update_slice(x, y, start=(0, 0), stop=(4, 6), step=(1, 1)), ((4, 6), (4, 6)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_data_movement_in_every_bit(name: str) -> None:
    build, types = MOVES[name]
    same(build, *types)
    same(build, *types, seed=1, cuts=3)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_movement_of_every_dtype(dtype: Any) -> None:
    def build(r: Region, x: Any, y: Any) -> Any:
        turned = r.transpose(x, axes=(1, 0))
        joined = r.concatenate(r.reverse(turned, axes=(1,)), r.broadcast(y, shape=(19, 5), axes=(1,)), axis=0)
        return r.pad(joined, low=(1, 2), high=(1, 0), between=(0, 0), value=1.0), turned

    same(build, ((5, 37), dtype), ((5,), dtype))


@pytest.mark.parametrize("axis", [0, 1])
def test_joins_of_many_pieces(axis: int) -> None:
    """Copies of equal shapes are one kernel; of many others, neighbours share one; one piece is empty."""

    def build(r: Region, *xs: Any) -> Any:
        return r.concatenate(*xs, axis=axis)

    equal = same(build, *[(60, 31)] * 20)
    steps = lower(fusion_of(equal)).steps
    assert len(steps) == 20
    assert len({s.kernel.text for s in steps}) == 1
    shapes = [(60, 0 if k == 3 else 20 + k)[:: 1 if axis else -1] for k in range(18)]
    several = same(build, *shapes)
    assert len(lower(fusion_of(several)).steps) == 5


def test_constants_stand_beside_the_inputs() -> None:
    table_of = np.arange(-50, 49, dtype=np.float32).reshape(3, 33)

    def build(r: Region, x: Any) -> Any:
        c = r.constant(value=Dense(table_of))
        return r.add(x, c), r.neg(r.constant(value=Dense(np.asarray(2.5))))

    same(build, (3, 33))


# -- computed places ---------------------------------------------------------------------------------------

PLACES: dict[str, tuple[Build, tuple[Any, ...]]] = {
    "gather rows": (lambda r, x, i: r.gather(x, i, axis=0), ((11, 33), ((4, 5), "int32"))),
    "gather columns": (lambda r, x, i: r.gather(x, i, axis=1), ((11, 33), ((4, 5), "int64"))),
    "gather by uint64": (lambda r, x, i: r.gather(x, i, axis=1), ((11, 33), ((9,), "uint64"))),
    "gather by int4": (lambda r, x, i: r.gather(x, i, axis=0), ((11, 33), ((9,), "int4"))),
    "gather computed": (
        lambda r, x, i: r.neg(r.gather(r.neg(x), r.abs(i), axis=1)), ((11, 33), ((4, 5), "int8")),
    ),
    "gather_nd": (lambda r, x, i: r.gather_nd(x, i, axes=(0, 2)), ((11, 33, 7), ((4, 5, 2), "int8"))),
    "take_along": (lambda r, x, i: r.take_along(x, i, axis=1), ((11, 33), ((11, 5), "uint8"))),
    "take_along outer": (lambda r, x, i: r.take_along(x, i, axis=0), ((11, 33), ((7, 33), "int16"))),
    "dynamic_slice": (
        lambda r, x, i, j: r.dynamic_slice(x, i, j, sizes=(4, 9)),
        ((11, 33), ((), "int8"), ((), "uint64")),
    ),
    "dynamic_slice computed": (
        lambda r, x, i: r.dynamic_slice(x, r.add(i, i), i, sizes=(4, 33)), ((11, 33), ((), "int8")),
    ),
    "dynamic_update_slice": (
        lambda r, x, y, i, j: r.dynamic_update_slice(x, y, i, j),
        ((11, 33), (3, 4), ((), "int8"), ((), "int64")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("seed", range(3))
def test_computed_places_are_clamped(name: str, seed: int) -> None:
    build, types = PLACES[name]
    same(build, *types, seed=seed, cuts=1 + seed)


# -- scatters and running sums -----------------------------------------------------------------------------


def scatter(name: str, kind: str, **at: Any) -> Build:
    return lambda r, x, i, u: getattr(r, name)(x, i, u, kind=kind, **at)


SCATTERS: dict[str, tuple[Build, tuple[Any, ...]]] = {
    "rows": (scatter("scatter", "add", axes=(0,)), ((11, 133), ((20, 1), "int32"), (20, 133))),
    "rows set": (scatter("scatter", "set", axes=(0,)), ((11, 200), ((20, 1), "int8"), (20, 200))),
    "columns": (scatter("scatter", "add", axes=(1,)), ((11, 13), ((5, 4, 1), "int8"), (5, 4, 11))),
    "points": (scatter("scatter", "set", axes=(1, 0)), ((11, 13), ((40, 2), "int8"), (40,))),
    "points max": (scatter("scatter_reduce", "max", axes=(1, 0)), ((11, 13), ((40, 2), "int8"), (40,))),
    "nothing": (scatter("scatter", "add", axes=(0,)), ((11, 13), ((0, 1), "int8"), (0, 13))),
    "lanes": (scatter("scatter_along", "add", axis=1), ((9, 13), ((9, 5), "int8"), (9, 5))),
    "lanes set": (scatter("scatter_along", "set", axis=0), ((9, 13), ((7, 13), "int16"), (7, 13))),
    "one lane": (scatter("scatter_along", "set", axis=0), ((9,), ((70,), "uint8"), (70,))),
    "lanes min": (scatter("scatter_reduce_along", "min", axis=1), ((9, 3), ((9, 30), "int8"), (9, 30))),
    "into zeros": (
        lambda r, i, u: r.scatter_along(r.full(shape=(9, 13), dtype=dt.int32, value=0), r.abs(i), r.neg(u),
                                        axis=1, kind="add"),
        (((9, 1), "int8"), ((9, 1), "int32")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_scatters_in_order(name: str, dtype: str) -> None:
    """Integers, so that the order of additions cannot be told; that of settings can."""
    build, types = SCATTERS[name]
    kinds = [(t[0], t[1]) if t and isinstance(t[0], tuple) else (t, dtype) for t in types]
    for seed in range(2):
        same(build, *kinds, seed=seed, cuts=1 + seed)


def test_scatters_of_small_floats_round_once() -> None:
    r = Region()
    x, i, u = r.input((2, 3), "float16"), r.input((3000, 1), "int8"), r.input((3000, 3), "float16")
    region = r.graph(r.scatter(x, i, u, axes=(0,), kind="add"))
    values = [np.zeros((2, 3), np.float16), np.zeros((3000, 1), np.int8), np.ones((3000, 3), np.float16)]
    (found,) = native(region, values)
    assert (found[0] == 3000).all() and (found[1] == 0).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_sums(axis: int, reverse: bool) -> None:
    def build(r: Region, x: Any) -> Any:
        how = dict(axis=axis, reverse=reverse)
        kinds = ("sum", "prod", "max", "min")
        return tuple(r.cumulative(x, kind=k, **how) for k in kinds)

    for dtype in ("int8", "int32", "uint16"):
        same(build, ((3, 19, 9), dtype), cuts=2)


def test_running_sums_of_floats() -> None:
    region, (x,) = made(
        lambda r, x: (r.cumulative(x, axis=0, kind="sum", reverse=False),
                      r.cumulative(x, axis=1, kind="logsumexp", reverse=True),
                      r.cumulative(x, axis=1, kind="max", reverse=False)),
        (37, 45), wild=False,
    )  # fmt: skip
    found, expected = native(region, [x]), reference(region, [x])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-5)
    assert_same_bits(found[2], expected[2])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("reverse", [False, True])
def test_lanes_walked_together_are_as_each_alone(dtype: str, reverse: bool) -> None:
    """Fewer lanes than go together are walked one by one; what is read may be padded."""

    def build(r: Region, x: Any) -> Any:
        n = x.type.ndim
        how = dict(axis=n - 1, reverse=reverse)
        wide = r.pad(x, low=(0,) * (n - 1) + (2,), high=(0,) * (n - 1) + (1,), between=(0,) * n, value=-1.5)
        kinds = ("sum", "prod", "max", "logsumexp")
        return (*(r.cumulative(x, kind=k, **how) for k in kinds), r.cumulative(wide, kind="sum", **how))

    for shape in ((8, 1), (9, 33), (31, 5), (2, 11, 17), (3, 16, 64)):
        region, (x,) = made(build, (shape, dtype))
        alone, _ = made(build, ((1, shape[-1]), dtype))
        together = native(region, [x])
        for place in list(np.ndindex(shape[:-1]))[:: 1 + len(shape)]:
            for found, one in zip(together, native(alone, [x[place][None]]), strict=True):
                assert_same_bits(found[place], one[0])


def test_a_running_sum_among_others() -> None:
    def build(r: Region, x: Any) -> Any:
        run = r.cumulative(r.neg(x), axis=1, kind="sum", reverse=False)
        top = r.reduce_max(run, axes=(1,))
        return r.sub(run, r.broadcast(top, shape=(7, 33), axes=(0,))), top

    same(build, ((7, 33), "int32"), cuts=2)


# -- random bits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 33), (5, 2, 17)], ids=str)
def test_random_bits_in_every_bit(shape: tuple[int, ...]) -> None:
    two = ((2,), "uint32")
    same(lambda r, k, c: r.random_bits(k, c, shape=shape, stream=3), two, two, cuts=2)


def test_random_bits_of_several_keys_and_far_counters() -> None:
    r = Region()
    key, counter = r.input((3, 2), "uint32"), r.input((3, 2), "uint32")
    region = r.graph(r.random_bits(key, counter, shape=(37,), stream=0))
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**32, (3, 2), np.uint64).astype(np.uint32)
    edge = np.array([[2**32 - 3, 5], [2**32 - 1, 2**32 - 1], [0, 0]], np.uint64).astype(np.uint32)
    for found, expected in zip(native(region, [keys, edge]), reference(region, [keys, edge]), strict=True):
        assert_same_bits(found, expected)


def test_a_dropout_mask_needs_no_memory() -> None:
    def build(r: Region, k: Any, c: Any, x: Any) -> Any:
        bits = r.random_bits(k, c, shape=(9, 33), stream=1)
        keep = r.lt(bits, r.full(shape=(9, 33), dtype=dt.uint32, value=1 << 31))
        return r.select(keep, r.add(x, x), r.full(shape=(9, 33), dtype=dt.float32, value=0.0))

    two = ((2,), "uint32")
    region = same(build, two, two, (9, 33))
    assert lower(fusion_of(region)).temporaries == ()
