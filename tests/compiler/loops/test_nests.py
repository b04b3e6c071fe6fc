"""Reductions and rows against the NumPy rules; what is refused; symbolic sizes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits, random_array
from tests.compiler.loops.regions import Region, fusion_of, made, native, normalised, reference, same
from trilobite.base import dtypes as dt
from trilobite.base.errors import DeviceError
from trilobite.compiler.targets.cpu.nests.classes import classify
from trilobite.compiler.targets.cpu.nests.lower import accepts, lower, lowered
from trilobite.ir.primitive import table
from trilobite.ir.types import dim
from trilobite.native import objects
from trilobite.native.host import AARCH64, SSE2

REAL = sorted(dt.ALL - dt.COMPLEX, key=lambda d: d.name)
NUMBERS = [d for d in REAL if d != dt.bool_]


# -- reductions --------------------------------------------------------------------------------------------

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((37, 119), (1,)), ((37, 119), (0,)), ((37, 119), (0, 1)), ((5, 7, 3), (0, 2)), ((5, 7, 3), (1,)),
    ((5, 7, 3), ()), ((), ()), ((3, 0), (1,)), ((0, 3), (0,)), ((0, 3), (1,)), ((1, 1), (0, 1)),
    ((9, 1), (1,)), ((1, 9), (0,)), ((2, 3, 4, 5), (0, 2)), ((2, 3, 4, 5), (1, 3)), ((2, 5001), (0,)),
    ((70001,), (0,)), ((7, 3, 5000), (0,)), ((7, 5000, 3), (0,)), ((3, 2, 70, 90), (1,)),
    ((3, 70001), (1,)), ((4099, 9), (0,)),
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


def test_empty_rows_beside_their_reductions() -> None:
    def build(r: Region, x: Any) -> Any:
        top = r.reduce_max(x, axes=(1,))
        return top, r.sub(x, r.spread(top, (3, 0), 1)), r.neg(top)

    same(build, (3, 0))


def test_small_floats_accumulate_in_float32() -> None:
    r = Region()
    x = r.input((2, 4096), "float16")
    region = r.graph(r.reduce_sum(x, axes=(1,)), r.reduce_prod(x, axes=(1,)))
    value = np.ones((2, 4096), np.float16)
    found = native(region, [value])
    assert (found[0] == 4096).all() and (found[1] == 1).all()  # in float16, 2048 + 1 is 2048


# -- rows, normalisation ----------------------------------------------------------------------------------


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


def _softmax(r: Region, x: Any) -> Any:
    rows, columns = x.type.shape

    def along(v: Any) -> Any:
        return r.broadcast(v, shape=(rows, columns), axes=(0,))

    e = r.exp(r.sub(x, along(r.reduce_max(x, axes=(1,)))))
    return r.div(e, along(r.reduce_sum(e, axes=(1,))))


def test_the_dearest_pass_asks_for_the_next_row() -> None:
    """Of large arrays: what the first pass will read there, and what the last one will write here."""
    (step,) = lower(fusion_of(same(_softmax, ((600, 130), "float32")))).steps
    assert ", ahead x0[130*o0 + p1_1 + 130], y0[130*o0 + p1_1]" in step.kernel.notes
    assert "call void @llvm.prefetch" in step.kernel.text
    (small,) = lower(fusion_of(same(_softmax, ((60, 130), "float32")))).steps
    assert "ahead" not in small.kernel.notes


@pytest.mark.parametrize("shape", [(600, 130), (70, 1001)])
def test_softmax_of_large_rows(shape: tuple[int, int]) -> None:
    """With a row of NaN, one that reaches infinity, and masked elements; nothing behind the end is read."""
    region = same(_softmax, (shape, "float32"))
    x = (30 * np.random.default_rng(2).standard_normal(shape)).astype(np.float32)
    x[3, 5], x[4, 7], x[5, ::2], x[-1, 9:] = np.nan, np.inf, -np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        (want,) = reference(region, [x])
    (found,) = native(region, [x], cuts=3)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_allclose(found, want, rtol=3e-6, atol=1e-37)


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
    assert classify(table["dot"]) == classify(table["sort"]) == classify(table["cumulative"]) == "opaque"


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
        r.concatenate(y, y, axis=1), r.concatenate(*[x] * 6, axis=0),
        r.pad(y, low=(0, 1), high=(1, 2), between=(0, 0), value=4.0),
    )  # fmt: skip
    ((symbol, _),) = size.terms
    rng = np.random.default_rng(n)
    values = [random_array(rng, s, dt.float32, wild=False) for s in ((n, 33), (3, n))]
    for cuts in (1, 2):
        found = native(region, values, {symbol: n}, cuts)
        for a, b in zip(found, reference(region, values), strict=True):
            assert_same_bits(a, b, str(region))


@pytest.mark.parametrize("n", [1, 3, 2048, 5000])
def test_columns_of_symbolic_length(n: int) -> None:
    """The upper bound is far away: accumulators are a strip, not a row."""
    size = dim("n", max=2**30)
    r = Region()
    x = r.input((5, size), "int32")
    region = r.graph(r.reduce_sum(x, axes=(0,)))
    (step,) = lower(fusion_of(region)).steps
    assert step.kernel.scratch < 1 << 20
    value = random_array(np.random.default_rng(n), (5, n), dt.int32)
    ((symbol, _),) = size.terms
    assert_same_bits(native(region, [value], {symbol: n})[0], reference(region, [value])[0])


@pytest.mark.parametrize("host", [SSE2, AARCH64], ids=["sse2", "aarch64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "bool"])
def test_nests_compile_for_plain_machines(host: Any, dtype: str) -> None:
    def build(r: Region, x: Any, i: Any) -> Any:
        moved = r.pad(r.transpose(x, axes=(1, 0)), low=(1, 1), high=(1, 1), between=(0, 0), value=1.0)
        return moved, r.gather(x, i, axis=0), r.reduce_max(x, axes=(1,)), r.argmax(x, axis=0)

    region, _ = made(build, ((40, 50), dtype), ((3,), "int32"))
    for step in lowered(region, host).steps:
        assert len(objects.compile_object(step.kernel.text, step.kernel.level, host)) > 100


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 5), (17, 8), (33, 40)])
def test_products_of_symbolic_sizes(n: int, m: int) -> None:
    """Scores of attention: two symbolic axes beside each other, and one squared."""
    a, b = dim("n", max=64), dim("m", max=64)
    r = Region()
    x, y = r.input((3, a, b)), r.input((2, a, a), "int32")
    low = r.reduce_min(x, axes=(2,))
    region = r.graph(
        r.sub(x, r.spread(low, (3, a, b), 2)), r.transpose(x, axes=(2, 1, 0)), r.reduce_max(x, axes=(1,)),
        r.transpose(y, axes=(0, 2, 1)), r.reduce_sum(y, axes=(0,)), r.concatenate(y, y, axis=1),
    )  # fmt: skip
    sizes = {a.terms[0][0]: n, b.terms[0][0]: m}
    rng = np.random.default_rng(n)
    values = [random_array(rng, (3, n, m), dt.float32, wild=False), random_array(rng, (2, n, n), dt.int32)]
    for found, expected in zip(native(region, values, sizes, 2), reference(region, values), strict=True):
        assert_same_bits(found, expected)
