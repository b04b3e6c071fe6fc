"""Nests against the primitives' NumPy rules: one region each, odd sizes, all dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits, random_array
from tests.compiler.loops.regions import Region, fusion_of, native, reference
from trilobite.base import dtypes as dt
from trilobite.base.errors import DeviceError
from trilobite.compiler.cpu.nests import accepts, classify, lower
from trilobite.ir.graph import Dense, Graph
from trilobite.ir.primitive import table
from trilobite.ir.types import dim

REAL = sorted(dt.ALL - dt.COMPLEX, key=lambda d: d.name)
NUMBERS = [d for d in REAL if d != dt.bool_]
Build = Callable[..., Any]


def same(build: Build, *types: Any, seed: int = 0, cuts: int = 1, places: int = 0) -> Graph:
    """Native and reference agree in every bit; `types` are shapes or (shape, dtype)."""
    region, values = made(build, *types, seed=seed, places=places)
    for found, expected in zip(native(region, values, cuts=cuts), reference(region, values), strict=True):
        assert_same_bits(found, expected, str(region))
    return region


def made(build: Build, *types: Any, seed: int = 0, wild: bool = True, places: int = 0) -> tuple[Graph, Any]:
    rng, r = np.random.default_rng(seed), Region()
    pairs = [t if t and isinstance(t[0], tuple) else (t, "float32") for t in types]
    operands = [r.input(shape, dtype) for shape, dtype in pairs]
    found = build(r, *operands)
    region = r.graph(*(found if isinstance(found, tuple) else (found,)))
    return region, [random_array(rng, t.shape, t.dtype, wild) for t in region.input_types]


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


# -- reductions --------------------------------------------------------------------------------------------

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((37, 119), (1,)), ((37, 119), (0,)), ((37, 119), (0, 1)), ((5, 7, 3), (0, 2)), ((5, 7, 3), (1,)),
    ((5, 7, 3), ()), ((), ()), ((3, 0), (1,)), ((0, 3), (0,)), ((0, 3), (1,)), ((1, 1), (0, 1)),
    ((9, 1), (1,)), ((1, 9), (0,)), ((2, 3, 4, 5), (0, 2)), ((2, 3, 4, 5), (1, 3)), ((2, 5001), (0,)),
    ((70001,), (0,)), ((3, 70001), (1,)), ((4099, 9), (0,)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
def test_extremes_in_every_bit(name: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    region, values = made(lambda r, x: getattr(r, name)(x, axes=axes), shape)
    values = [np.where(v == 0, np.float32(0), v) for v in values]  # which of two zeros wins is left open
    for found, expected in zip(native(region, values, cuts=2), reference(region, values), strict=True):
        assert_same_bits(found, expected, str(region))


@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_sums_of_integers_wrap(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    same(lambda r, x: (r.reduce_sum(x, axes=axes), r.reduce_or(x, axes=axes)), (shape, "int8"), cuts=2)


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if d in dt.INTEGERS], ids=str)
def test_reductions_of_every_integer(dtype: Any) -> None:
    def build(r: Region, x: Any) -> Any:
        rows = [getattr(r, f"reduce_{n}")(x, axes=(1,)) for n in ("sum", "prod", "max", "min", "and", "or")]
        columns = [
            getattr(r, f"reduce_{n}")(x, axes=(0,)) for n in ("sum", "prod", "max", "min", "and", "or")
        ]
        return (*rows, *columns, r.argmax(x, axis=1), r.argmin(x, axis=0))

    same(build, ((13, 41), dtype))


def test_reductions_of_bools() -> None:
    def build(r: Region, x: Any) -> Any:
        return tuple(
            getattr(r, f"reduce_{n}")(x, axes=(a,)) for n in ("max", "min", "and", "or") for a in (0, 1)
        )

    same(build, ((3, 5), "bool"))
    same(lambda r, x: (r.argmax(x, axis=0), r.argmin(x, axis=1)), ((13, 41), "bool"))


@pytest.mark.parametrize("dtype", sorted(dt.FLOATS, key=lambda d: d.name), ids=str)
def test_sums_of_every_float(dtype: Any) -> None:
    """Within the roundings of a blocked sum in the accumulator's dtype, then one to the dtype."""
    shape = (13, 411)
    region, (x,) = made(
        lambda r, x: (r.reduce_sum(x, axes=(1,)), r.reduce_sum(x, axes=(0,)), r.reduce_max(x, axes=(1,))),
        (shape, dtype), wild=False,
    )  # fmt: skip
    rows, columns, top = native(region, [x])
    wanted = reference(region, [x])
    wide = np.where(np.isfinite(x.astype(np.float64)), x.astype(np.float64), 0.0)
    small = ml_dtypes.finfo(dtype)
    eps = float(np.finfo(dt.accumulator(dtype)).eps)
    for found, axis, expected in ((rows, 1, wanted[0]), (columns, 0, wanted[1])):
        exact, size = wide.sum(axis), abs(wide).sum(axis)
        rounding = float(small.eps) * abs(exact) + float(small.smallest_subnormal)
        a, b = (v.astype(np.float64) for v in (found, expected))
        inside = np.isfinite(a) & np.isfinite(b)
        error = abs(a[inside] - b[inside])
        assert (error <= 32 * eps * size[inside] + 2 * rounding[inside]).all()
        assert (np.isfinite(a) == np.isfinite(b)).mean() > 0.8  # but for sums at the edge of the range
    assert_same_bits(top, wanted[2])


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("shape", [(3, 100_003), (60_007, 5), (400, 300)])
def test_long_sums_stay_accurate(shape: tuple[int, int], axes: tuple[int, ...]) -> None:
    """Numbers of one sign: a plain running sum of so many would be off by more than this allows."""
    rng = np.random.default_rng(1)
    r = Region()
    x = r.input(shape)
    region = r.graph(r.reduce_sum(x, axes=axes), r.reduce_sum(r.mul(x, x), axes=axes))
    value = (rng.random(shape) + 1).astype(np.float32)
    for found, exact in zip(native(region, [value]), (value, value.astype(np.float64) ** 2), strict=True):
        expected = exact.astype(np.float64).sum(axes)
        assert (abs(found - expected) <= 40 * np.finfo(np.float32).eps * expected).all()


@pytest.mark.parametrize("dtype", sorted(dt.FLOATS, key=lambda d: d.name), ids=str)
def test_places_of_extremes(dtype: Any) -> None:
    for seed in range(3):
        same(lambda r, x: (r.argmax(x, axis=1), r.argmin(x, axis=0)), ((13, 41), dtype), seed=seed)


def test_small_floats_accumulate_in_float32() -> None:
    r = Region()
    x = r.input((2, 4096), "float16")
    region = r.graph(r.reduce_sum(x, axes=(1,)), r.reduce_prod(x, axes=(1,)))
    value = np.ones((2, 4096), np.float16)
    found = native(region, [value])
    assert (found[0] == 4096).all() and (found[1] == 1).all()  # in float16, 2048 + 1 is 2048


# -- rows, normalisation ----------------------------------------------------------------------------------


def normalised(r: Region, x: Any, gain: Any, axes: tuple[int, ...]) -> Any:
    shape = x.type.shape
    count = float(np.prod([shape[a] for a in axes]))
    mean = r.reduce_sum(x, axes=axes)
    mean = r.div(mean, r.like(mean, count))
    centred = r.sub(x, r.spread(mean, shape, *axes))
    var = r.reduce_sum(r.mul(centred, centred), axes=axes)
    var = r.add(r.div(var, r.like(var, count)), r.like(var, 1e-5))
    scale = r.div(r.like(var, 1.0), r.sqrt(var))
    out = r.mul(centred, r.spread(scale, shape, *axes))
    return r.mul(out, r.broadcast(gain, shape=shape, axes=(len(shape) - 1,))), mean, scale


@pytest.mark.parametrize(
    ("shape", "axes"), [((11, 7, 130), (2,)), ((4, 9, 11, 13), (0, 1, 2)), ((6, 5, 33), (1, 2))]
)
def test_normalisation(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    region, values = made(lambda r, x, g: normalised(r, x, g, axes), shape, shape[-1:], wild=False)
    for found, expected in zip(native(region, values, cuts=2), reference(region, values), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_a_row_is_one_nest() -> None:
    region, _ = made(lambda r, x, g: normalised(r, x, g, (1,)), (64, 130), (130,))
    (step,) = lower(fusion_of(region)).steps
    assert step.units == 64
    assert step.kernel.notes.count("vector") == 3  # the mean, the variance, the result


def test_a_reduction_over_other_rows_is_another_nest() -> None:
    """The row sums are read by columns: they cannot be one pass over rows."""

    def build(r: Region, x: Any) -> Any:
        return r.sub(x, r.broadcast(r.reduce_sum(x, axes=(1,)), shape=(9, 9), axes=(1,)))

    region = same(build, ((9, 9), "int32"))
    assert len(lower(fusion_of(region)).steps) == 2


# -- what is refused ---------------------------------------------------------------------------------------


def test_refusals_say_why() -> None:
    r = Region()
    x = r.input((4,), "complex64")
    region = r.graph(r.add(x, x))
    assert accepts(region) == "add of c64[4], c64[4] has no loops"
    with pytest.raises(DeviceError) as caught:
        lower(fusion_of(region))
    assert "cannot be lowered to loops: add of c64[4], c64[4] has no loops" in str(caught.value)
    assert 'kind="host"' in str(caught.value)


def test_classes() -> None:
    assert classify(table["add"]) == classify(table["transpose"]) == classify(table["gather"]) == "injective"
    assert classify(table["reduce_sum"]) == classify(table["argmax"]) == "reduction"
    assert classify(table["dot"]) == classify(table["sort"]) == "opaque"


# -- symbolic sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 8, 31, 64, 100])
def test_symbolic_sizes_share_one_kernel(n: int) -> None:
    size = dim("n", max=100)
    r = Region()
    x, y = r.input((size, 33)), r.input((3, size))
    total = r.reduce_max(x, axes=(1,))
    region = r.graph(
        r.neg(x), total, r.reduce_max(x, axes=(0,)), r.transpose(x, axes=(1, 0)), r.reduce_max(y, axes=(1,)),
        r.sub(y, r.broadcast(total, shape=(3, size), axes=(1,))), r.reverse(total, axes=(0,)),
        r.concatenate(y, y, axis=1), r.pad(y, low=(0, 1), high=(1, 2), between=(0, 0), value=4.0),
    )  # fmt: skip
    ((symbol, _),) = size.terms
    rng = np.random.default_rng(n)
    values = [random_array(rng, s, dt.float32, wild=False) for s in ((n, 33), (3, n))]
    for cuts in (1, 2):
        found = native(region, values, {symbol: n}, cuts)
        for a, b in zip(found, reference(region, values), strict=True):
            assert_same_bits(a, b, str(region))
