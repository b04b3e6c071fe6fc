"""Sizes made of others: quotients that are rounded down, and products."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.base.errors import IRError, ShapeError
from trilobite.compiler.graph.fingerprint import fingerprint
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.text import parse, show
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import Affine, TensorType, bind_symbols, dim, substitute
from trilobite.ir.verify import verify

N, M = dim("n", min=1, max=64), dim("m", min=2, max=9)


Meaning = Callable[[int, int], int]


def grown(draw: random.Random, depth: int) -> tuple[Any, Meaning]:
    """A random size, and what it is for n and m."""
    if depth == 0:
        leaves = [(N, lambda n, m: n), (M, lambda n, m: m), (N + 3, lambda n, m: n + 3)]
        return draw.choice(leaves)
    size, f = grown(draw, depth - 1)
    other, g = grown(draw, 0)
    k = draw.randint(2, 5)
    return draw.choice(
        [
            (size // k, lambda n, m: f(n, m) // k),
            (size * k - 1, lambda n, m: f(n, m) * k - 1),
            (size + other, lambda n, m: f(n, m) + g(n, m)),
            (size * other, lambda n, m: f(n, m) * g(n, m)),
            (size - other * k, lambda n, m: f(n, m) - g(n, m) * k),
        ]
    )


@pytest.mark.parametrize("seed", range(60))
def test_a_size_is_what_python_computes_within_its_bounds(seed: int) -> None:
    size, meaning = grown(random.Random(seed), 1 + seed % 4)
    low, high = size.bounds() if isinstance(size, Affine) else (size, size)
    for n, m in product((1, 2, 7, 31, 64), (2, 5, 9)):
        sizes = bind_symbols([((N, M), (n, m))])
        assert substitute(size, sizes) == meaning(n, m)
        assert low <= meaning(n, m) <= high


def test_equal_sizes_have_equal_forms() -> None:
    assert (N - 1) // 2 + 1 == (N + 1) // 2
    assert ((N + 1) // 2 + 1) // 2 == (N + 3) // 4
    assert (6 * N + 4) // 3 == 2 * N + 1
    assert (N + M) * (N - M) == N * N - M * M
    assert N * M * 6 // (M * 2) == 3 * N
    assert (N * M) % M == 0
    assert (2 * N) // 4 * 2 != N
    with pytest.raises(ShapeError, match="not a multiple of"):
        (N * N + M) // N


def halved(x: Any) -> list[Any]:
    window = {"stride": (2,), "low": (1,), "high": (1,), "x_dilation": (1,), "w_dilation": (1,)}
    w = table["full"](shape=(2, 2, 3), dtype=dt.float64, value=0.5)
    y = table["conv"](x, w, groups=1, dtype=dt.float64, **window)
    return [table["reshape"](table["exp"](y), shape=(y.shape[0] * y.shape[2], 2))]


@pytest.fixture
def graph() -> Any:
    return record_graph(halved, [TensorType((M, 2, N), dt.float64)])


def test_one_recording_serves_all_sizes(graph: Any) -> None:
    verify(graph)
    for m, n in ((2, 1), (3, 8), (9, 33)):
        x = np.random.default_rng(n).standard_normal((m, 2, n))
        fixed = record_graph(halved, [TensorType(x.shape, dt.float64)])
        (got,), (want,) = run(graph, [x]), run(fixed, [x])
        assert got.shape == want.shape == (m * ((n + 1) // 2), 2)
        np.testing.assert_array_equal(got, want)


def test_the_text_form_declares_them(graph: Any) -> None:
    text = show(graph)
    assert "q_n_p_1_over_2: 1..32 = floor(n+1, 2)" in text
    assert "= product(m, q_n_p_1_over_2)" in text
    assert parse(text) == graph
    assert show(parse(text)) == text
    assert fingerprint(parse(text)) is not None
    with pytest.raises(IRError, match="floor of"):
        parse(text.replace("floor(n+1, 2)", "floor(n+1, 0)"))


def test_what_a_size_is_made_of_counts(graph: Any) -> None:
    """Two graphs of one text but for a definition are two."""
    other = parse(show(graph).replace("floor(n+1, 2)", "floor(n+1, 3)"))
    assert other != graph
    assert fingerprint(other) != fingerprint(graph)


def test_a_region_may_know_only_the_quotient() -> None:
    q = (N + 1) // 2
    inner = record_graph(lambda x: [table["exp"](x)], [TensorType((q, 3), dt.float64)])
    verify(inner)
    x = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_array_equal(run(inner, [x])[0], np.exp(x))
    with pytest.raises(ShapeError, match="does not fit"):
        run(inner, [np.ones((33, 3))])


@pytest.mark.parametrize(("start", "step"), [(0, 2), (0, 3), (1, 2), (1, 4)])
def test_every_few_elements_of_any_number(start: int, step: int) -> None:
    graph = record_graph(
        lambda x: [table["slice"](x, start=(start,), stop=(N + 2,), step=(step,))],
        [TensorType((N + 2,), dt.float64)],
    )
    verify(graph)
    for n in (1, 2, 6, 7):
        x = np.arange(n + 2.0)
        np.testing.assert_array_equal(run(graph, [x])[0], x[start::step])
