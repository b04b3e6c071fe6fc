"""Convolutions of many small groups: groups that share vectors, rows found once for all groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.conv.convolutions import check, lowered, random, region, types_of
from tests.compiler.conv.test_convolution import Geometry
from trilobite.base.dtypes import DType, float32, float64
from trilobite.compiler.targets.cpu.contraction.tiling import tilings
from trilobite.ir.primitive import table
from trilobite.native.host import features

Array = np.ndarray[Any, Any]
WIDE = {"int8": "int32", "float16": "float16"}


def case(
    rng: np.random.Generator, groups: int, depth: int, columns: int, merged: int, dtype: DType
) -> tuple[Any, list[Array], int]:
    """A convolution whose panels hold `merged` groups each; its operands, and how many terms sums have."""
    g = Geometry(rng, int(rng.integers(1, 3)), groups)
    g.channels, g.filters = groups * depth, groups * columns
    result = np.dtype(WIDE.get(dtype.name, dtype.name))
    lanes = tilings(features(), dtype, result)[-1].columns
    x, w = random(rng, g.x, dtype), random(rng, g.w, dtype)
    panels = table["conv_panels"].evaluate(w, groups=groups // merged, lanes=lanes, transposed=False)
    attributes = {**g.window, "dtype": result, "columns": columns * merged}
    graph = region("conv_last", types_of([x, panels]), attributes)
    return graph, [x, panels], depth * int(np.prod(g.kernel))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("groups", "depth", "columns", "merged"),
    [
        (8, 4, 4, 4), (8, 4, 4, 2), (6, 2, 2, 3), (4, 1, 2, 4), (6, 3, 3, 2), (4, 2, 4, 2), (4, 4, 1, 4),
        (5, 4, 4, 1), (3, 8, 8, 1), (2, 16, 5, 1), (3, 20, 8, 1), (2, 7, 16, 1), (3, 5, 40, 1), (2, 2, 2, 2),
    ],
)  # fmt: skip
def test_groups_are_what_float64_gives(groups: int, depth: int, columns: int, merged: int, seed: int) -> None:
    rng = np.random.default_rng([seed, groups, depth, columns])
    if columns * merged > features().lanes(4):
        merged = 1
    check(*case(rng, groups, depth, columns, merged, float32))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "int32"])
def test_every_kind_of_number(dtype: str) -> None:
    rng = np.random.default_rng(8)
    merged = 2 if np.dtype(dtype) != float64 or features().lanes(8) >= 4 else 1
    check(*case(rng, 6, 2, 2, merged, np.dtype(dtype)))
    check(*case(rng, 3, 8, 8, 1, np.dtype(dtype)))


def test_what_is_not_finite_stays_in_its_group() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, 32, 9, 8)).astype(np.float32)
    x[0, 5], x[0, 17, 3, 3] = np.inf, np.nan
    conv = tb.nn.Conv2d(32, 32, 3, padding=1, groups=8)
    found = tb.jit(conv)(tb.tensor(x)).detach().numpy()
    finite = np.isfinite(found).all((0, 2, 3)).reshape(8, 4)
    assert [i for i in range(8) if not finite[i].all()] == [1, 4]


@pytest.mark.parametrize("after", [1, 20])
@pytest.mark.parametrize(("channels", "groups"), [(32, 8), (40, 5), (24, 12), (48, 2), (20, 5), (104, 13)])
def test_networks_of_groups_are_the_plain_ones(channels: int, groups: int, after: int) -> None:
    """With short and long epilogues, and a step of training."""
    rng = np.random.default_rng(4)
    first = tb.nn.Conv2d(6, channels, 1)
    conv = tb.nn.Conv2d(channels, channels, 3, 2, 1, groups=groups)
    x = tb.tensor(rng.standard_normal((2, 6, 11, 10)).astype(np.float32))

    def loss(x: tb.Tensor) -> tb.Tensor:
        y = conv(first(x).relu())
        for i in range(after):
            y = y * (1 + i / 64) + 0.125
        return (y.relu() ** 2).mean()

    step = tb.value_and_grad(loss)
    plain, fast = (tb.jit(step, target=target)(x) for target in ("reference", "cpu"))
    for a, b in zip(plain, fast, strict=True):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=2e-4, atol=1e-5)


def test_one_text_serves_groups_of_many_channels() -> None:
    rng = np.random.default_rng(11)
    cases = [case(rng, groups, depth, columns, 1, float32) for groups, depth, columns in
             ((2, 40, 50), (3, 33, 70), (5, 17, 41))]  # fmt: skip
    texts = {s.kernel.text for graph, *_ in cases for s in lowered(graph).steps if s.kernel.name == "conv"}
    assert len(texts) <= 2  # one for each rank
