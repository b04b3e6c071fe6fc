"""Symbolic sizes at their bounds: the same results whatever lies behind the real sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits, assert_within_rounding, inputs_of, rounding_spread
from tests.compiler.random_graphs import random_graph
from trilobite.base.dtypes import is_float
from trilobite.compiler.graph.bounded import bound
from trilobite.compiler.graph.bounded.scope import Scope
from trilobite.compiler.graph.passes.inline import inline
from trilobite.ir.evaluate import run, sizes_of
from trilobite.ir.graph import Graph
from trilobite.ir.types import Affine, Factors, Floor, Symbol, TensorType
from trilobite.ir.verify import verify


def at_bounds(t: TensorType, value: Any, rng: np.random.Generator) -> Any:
    """The value with anything at all behind it."""
    shape = tuple(d if isinstance(d, int) else d.bounds()[1] for d in t.shape)
    out = rng.integers(0, 255, (*shape, t.dtype.itemsize), np.uint8).view(t.dtype).reshape(shape)
    if t.dtype == np.bool_:
        out = rng.integers(0, 2, shape).astype(np.bool_)
    if is_float(t.dtype):
        out[...] = np.nan
    out[tuple(slice(n) for n in value.shape)] = value
    return out


def through_bounds(graph: Graph, values: list[Any], rng: np.random.Generator) -> list[Any]:
    made = bound(inline(graph))
    assert not isinstance(made, str), made
    verify(made.graph)
    sizes = sizes_of(graph, values)
    given = [at_bounds(t, v, rng) for t, v in zip(graph.input_types, values, strict=True)]
    found = run(made.graph, [*given, *(np.asarray(d.value(sizes), np.int64) for d in made.sizes)])
    real = [tuple(d if isinstance(d, int) else d.value(sizes) for d in t.shape) for t in graph.output_types]
    return [x[tuple(slice(n) for n in shape)] for x, shape in zip(found, real, strict=True)]


@pytest.mark.parametrize("seed", [*range(60), 530])
def test_a_random_graph(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_random_graphs(block: int) -> None:
    for seed in range(1000 + 200 * block, 1200 + 200 * block):
        check(seed)


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sample = random_graph(seed, symbolic=True)
    for wild in (False, True):
        values = inputs_of(sample.graph, rng, wild)
        want = run(sample.graph, values)
        spread = rounding_spread(sample.graph, values, rng) if any(sample.rough) else None
        with np.errstate(all="ignore"):
            got = through_bounds(sample.graph, list(values), rng)
        for i, rough in enumerate(sample.rough):
            if rough:
                assert spread is not None
                assert_within_rounding(got[i], want[i], spread[i], f"seed {seed}, result {i}")
            else:
                assert_same_bits(got[i], want[i], f"seed {seed}, result {i}")


SIZES = {"a": 3, "b": 5, "c": 7, "d": 2}


@pytest.mark.parametrize(
    "text", ["a", "2*a+b+4", "a*b", "a*b*c", "a*b*c*d", "a*b*c+3*d", "floor(a*b*c+1, 4)", "11"]
)
def test_sizes_of_a_run_are_computed_from_those_of_its_inputs(text: str) -> None:
    """Sums, products of up to four, and quotients rounded down."""
    symbols = {name: Symbol(name, 1, 64) for name in SIZES}
    size = {name: Affine(0, [(s, 1)]) for name, s in symbols.items()}

    def product(names: str) -> Any:
        return Affine(0, [(Symbol(names, of=Factors(tuple(symbols[n] for n in names.split("*")))), 1)])

    d: Any = {
        "a": size["a"], "2*a+b+4": Affine(4, [(symbols["a"], 2), (symbols["b"], 1)]), "a*b": product("a*b"),
        "a*b*c": product("a*b*c"), "a*b*c*d": product("a*b*c*d"),
        "a*b*c+3*d": Affine(0, [*product("a*b*c").terms, (symbols["d"], 3)]),
        "floor(a*b*c+1, 4)": Affine(0, [(Symbol("q", of=Floor(Affine(1, product("a*b*c").terms), 4)), 1)]),
        "11": 11,
    }[text]  # fmt: skip
    scope = Scope({size[n]: np.asarray(v, np.int64) for n, v in SIZES.items()})
    wants = {"a": 3, "2*a+b+4": 15, "a*b": 15, "a*b*c": 105, "a*b*c*d": 210, "a*b*c+3*d": 111,
             "floor(a*b*c+1, 4)": 26, "11": 11}  # fmt: skip
    assert int(np.asarray(scope.live(d))) == wants[text]
