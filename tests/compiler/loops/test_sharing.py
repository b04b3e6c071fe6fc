"""Outputs that share an input's buffer: said only where it is right, and right where it is said."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits
from tests.compiler.loops.regions import Region, execute, fusion_of, made, normalised, reference
from tests.compiler.loops.test_random import Maker, arrays_of
from trilobite.compiler.targets.cpu.nests.lower import lower
from trilobite.ir.graph import Graph


def pairs(build: Any, *types: Any) -> tuple[tuple[int, int], ...]:
    region, _ = made(build, *types)
    return lower(fusion_of(region)).in_place


def test_elementwise_overwrites() -> None:
    assert pairs(lambda r, x, y: r.add(x, y), (7, 33), (7, 33)) == ((0, 0), (0, 1))
    both = pairs(lambda r, x, y: (r.add(x, y), r.sub(x, y)), (7, 33), (7, 33))
    assert both == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert pairs(lambda r, x: r.cast(x, dtype=np.dtype("int32")), (7, 33)) == ((0, 0),)


def test_what_is_read_elsewhere_is_not_overwritten() -> None:
    assert pairs(lambda r, x: r.reverse(x, axes=(0,)), (33,)) == ()
    assert pairs(lambda r, x: r.transpose(x, axes=(1, 0)), (9, 9)) == ()
    assert pairs(lambda r, x: r.add(x, r.reverse(x, axes=(1,))), (9, 9)) == ()
    assert pairs(lambda r, x: r.cast(x, dtype=np.dtype("float64")), (7, 33)) == ()


def test_rows_may_be_overwritten_by_their_own_results() -> None:
    assert pairs(lambda r, x, g: normalised(r, x, g, (1,)), (64, 130), (130,))[0] == (0, 0)


def in_place(region: Graph, values: list[Any], pair: tuple[int, int], cuts: int) -> list[Any]:
    lowering = lower(fusion_of(region))
    inputs = [v.copy() for v in values]
    outputs = [np.zeros(t.shape, t.dtype) for t in region.output_types]
    k, i = pair
    shape, dtype = region.output_types[k].shape, region.output_types[k].dtype
    outputs[k] = inputs[i].reshape(-1).view(dtype).reshape(shape)
    execute(lowering, inputs, outputs, cuts=cuts)
    return outputs


@pytest.mark.parametrize("seed", range(80))
def test_sharing_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    maker = Maker(rng)
    for _ in range(rng.integers(1, 5)):
        maker.grow()
    region = maker.graph()
    values = arrays_of(region, rng)
    expected = reference(region, values)
    for pair in lower(fusion_of(region)).in_place:
        for found, wanted in zip(in_place(region, values, pair, 1 + seed % 3), expected, strict=True):
            zero = np.zeros((), wanted.dtype)
            if wanted.dtype.kind == "f":
                found, wanted = found + zero, wanted + zero
            assert_same_bits(found, wanted, f"{seed} {pair}\n{region}")


def test_softmax_in_its_own_memory() -> None:
    r = Region()
    x = r.input((9, 37))
    top = r.reduce_max(x, axes=(1,))
    e = r.exp(r.sub(x, r.spread(top, (9, 37), 1)))
    region = r.graph(r.div(e, r.spread(r.reduce_sum(e, axes=(1,)), (9, 37), 1)))
    value = np.random.default_rng(0).normal(size=(9, 37)).astype(np.float32)
    assert lower(fusion_of(region)).in_place == ((0, 0),)
    (found,) = in_place(region, [value], (0, 0), 2)
    np.testing.assert_allclose(found, reference(region, [value])[0], rtol=1e-6)


@pytest.mark.parametrize("axes", list(permutations(range(4))))
def test_rows_of_rows_in_another_order(axes: tuple[int, ...]) -> None:
    """A row that is written must lie within no other row of the same unit that is read later."""
    shape = (2, 3, 3, 3)
    r = Region()
    x, y = r.input(tuple(shape[axes.index(k)] for k in range(4))), r.input(shape)
    both = r.add(r.transpose(x, axes=axes), y)
    e = r.exp(r.sub(both, r.spread(r.reduce_max(both, axes=(3,)), shape, 3)))
    region = r.graph(r.div(e, r.spread(r.reduce_sum(e, axes=(3,)), shape, 3)))
    rng = np.random.default_rng(0)
    values = arrays_of(region, rng)
    apart = [np.zeros(shape, np.float32)]
    lowering = lower(fusion_of(region))
    execute(lowering, values, apart)
    np.testing.assert_allclose(apart[0], reference(region, values)[0], rtol=1e-5)
    assert ((0, 0) in lowering.in_place) == (axes == (0, 1, 2, 3))
    for pair in lowering.in_place:
        assert_same_bits(in_place(region, values, pair, 2)[0], apart[0])


@pytest.mark.parametrize("start", [-3, 0, 17, 99])
def test_a_cache_is_renewed_in_place(start: int) -> None:
    """Where input and output are one buffer, only the new rows are written."""
    r = Region()
    cache, new, at, zero = r.input((40, 16)), r.input((2, 16)), r.input((), "int32"), r.input((), "int64")
    region = r.graph(r.dynamic_update_slice(cache, r.neg(new), at, zero))
    lowering = lower(fusion_of(region))
    assert lowering.in_place == ((0, 0),)
    assert "unless x0 is y0" in lowering.steps[0].kernel.notes and lowering.steps[1].flops < 200
    rng = np.random.default_rng(start + 5)
    values = [rng.normal(size=(40, 16)).astype(np.float32), rng.normal(size=(2, 16)).astype(np.float32),
              np.asarray(start, np.int32), np.asarray(7, np.int64)]  # fmt: skip
    expected = reference(region, values)[0]
    assert_same_bits(in_place(region, values, (0, 0), 1)[0], expected)
    apart = [np.zeros((40, 16), np.float32)]
    execute(lowering, values, apart)
    assert_same_bits(apart[0], expected)


def test_a_cache_that_is_read_afterwards_is_not_overwritten() -> None:
    def build(r: Region, x: Any, y: Any) -> Any:
        new = r.update_slice(x, y, start=(1, 0), stop=(3, 16), step=(1, 1))
        return new, r.sub(new, x)

    assert pairs(build, (40, 16), (2, 16)) == ((1, 0),)  # the difference may take the old cache's place
