"""Walks the table: every primitive has every rule or says why not, and its rules agree with each other and
with numbers.

Bounds: slopes equal five-point differences to 1e-6; ⟨u, Jv⟩ = ⟨Jᵀu, v⟩ to 1e-10; batched equals a loop to
1e-12; recorded equals eager bit for bit; float32, float16 and bfloat16 stay within `BOUNDS` of float64.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import samples_elementwise
from derivative_checks import batched, listed, normal, pull, push
from samples import BOUNDS as MORE
from samples import samples

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import is_complex, is_inexact
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Absent, Primitive, result_types, table
from trilobite.ir.text import host_functions, parse, show
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import type_of
from trilobite.ir.verify import verify

Array = np.ndarray[Any, Any]
NAMES = sorted(n for n in table if n in samples)  # that none is missing is a test of its own
SMOOTH = [n for n in NAMES if not isinstance(table[n].jvp, Absent) and n != "stop_gradient"]
BOTH_WAYS = [n for n in SMOOTH if not isinstance(table[n].vjp, Absent)]


def cases(name: str, seed: int = 0) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    rng = np.random.default_rng([seed, *name.encode()])
    for operands, attributes in samples[name](rng):
        yield [np.asarray(o) for o in operands], attributes


def smooth_cases(name: str) -> Iterator[tuple[Callable[..., Any], list[Array]]]:
    """Samples whose inexact operands are all double, as functions of their operands."""
    for operands, attributes in cases(name):
        inexact = [o for o in operands if is_inexact(o.dtype)]
        outs = listed(table[name].evaluate(*operands, **attributes))
        precise = all(
            o.dtype in (dt.float64, dt.complex128) for o in (*inexact, *outs) if is_inexact(o.dtype)
        )
        finite = all(np.isfinite(o).all() for o in outs)
        if inexact and precise and finite and any(is_inexact(o.dtype) for o in outs):
            yield partial(table[name], **attributes), operands


# -- the rules are there -------------------------------------------------------------------------------------


def test_every_primitive_has_samples() -> None:
    assert sorted(samples) == sorted(table)


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_is_there_or_says_why_not(name: str) -> None:
    p = table[name]
    operands = 1 if p.multiple else len(p.operands)
    for mode, whole in (("jvp", p.whole_jvp), ("vjp", p.whole_vjp or p.linearize)):
        rule = getattr(p, mode)
        if isinstance(rule, Absent):
            assert len(rule.why) > 10
        elif whole is None:
            assert len(rule) == operands == len(p.operands), f"{mode} of {name}"
    assert not isinstance(p.batch, Absent) or len(p.batch.why) > 10
    assert callable(p.type) and callable(p.evaluate) and callable(p.cost)


def test_a_missing_rule_is_noticed() -> None:
    with pytest.raises(TypeError):
        Primitive("nothing", "x", type=lambda x: x, evaluate=lambda x: x)  # type: ignore[call-arg]
    assert "nothing" not in table


ONE_AFTER_ANOTHER = """
from importlib import import_module
from trilobite.base.errors import IRError
from trilobite.ir.primitives import FAMILIES, table
here = lambda: list(dict.keys(table))  # what has been imported
assert "svd" in table and "svd" in list(table) and "nothing" not in table and table.get("nothing") is None
print(here())
print(table["svd"], "svdvals" in here(), "conv" in here(), table.get("conv"), "conv_input_grad" in here())
for family, names in FAMILIES.items():
    import_module(f"trilobite.ir.primitives.{family}")
    assert set(names.split()) <= set(here()), family
print(len(here()) == len(table) == len(table.values()) == len(dict(table)))
table.declare("math", ["nowhere"])
try:
    table["nowhere"]
except IRError as error:
    print(error)
"""


def test_the_table_knows_all_names_and_imports_what_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", ONE_AFTER_ANOTHER], capture_output=True, text=True)
    found = ["[]", "<primitive svd> True False <primitive conv> True", "True"]
    found.append("math does not define the primitive 'nowhere', as the table says")
    assert done.stdout.splitlines() == found, done.stderr


# -- types, recordings, costs --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_type_rule_says_what_evaluate_gives(name: str) -> None:
    for operands, attributes in cases(name):
        outs = listed(table[name].evaluate(*operands, **attributes))
        types = result_types(table[name], [type_of(o) for o in operands], attributes)
        assert [type_of(o) for o in outs] == list(types)
        assert all(type(o) is np.ndarray for o in outs)


@pytest.mark.parametrize("name", NAMES)
def test_recorded_run_has_the_bits_of_the_eager_one(name: str) -> None:
    for operands, attributes in cases(name):
        graph = record_graph(
            lambda *v, a=attributes: listed(table[name](*v, **a)), [type_of(o) for o in operands]
        )
        verify(graph)
        assert parse(show(graph), host=host_functions(graph)) == graph
        for got, want in zip(run(graph, operands), listed(table[name](*operands, **attributes)), strict=True):
            assert got.dtype == want.dtype and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_operands_are_not_changed(name: str) -> None:
    for operands, attributes in cases(name):
        before = [o.copy() for o in operands]
        for o in operands:
            o.flags.writeable = False
        table[name].evaluate(*operands, **attributes)
        for o, b in zip(operands, before, strict=True):
            assert o.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", sorted(set(samples_elementwise.samples) - {"bitcast"}))
def test_elementwise_results_have_memory_of_their_own(name: str) -> None:
    """Eager operations hand them on without asking."""
    for operands, attributes in cases(name):
        out = table[name].evaluate(*operands, **attributes)
        assert not any(np.shares_memory(out, o) for o in operands)


@pytest.mark.parametrize("name", NAMES)
def test_cost_is_a_finite_number(name: str) -> None:
    for operands, attributes in cases(name):
        types = [type_of(o) for o in operands]
        cost = table[name].cost(types, result_types(table[name], types, attributes), attributes)
        assert math.isfinite(cost) and cost >= 0


# -- derivatives ---------------------------------------------------------------------------------------------


def direction(rng: np.random.Generator, x: Array) -> Any:
    """A step in proportion to each element, so that no step leaves a domain."""
    return np.asarray(normal(rng, x) * np.where(x == 0, 1.0, np.abs(x))) if is_inexact(x.dtype) else None


def moved(operands: Sequence[Array], tangents: Sequence[Any], by: float) -> list[Array]:
    return [np.asarray(o if t is None else o + by * t) for o, t in zip(operands, tangents, strict=True)]


def check_slopes(
    fn: Callable[..., Any], operands: Sequence[Array], rng: np.random.Generator
) -> tuple[Any, Any, Any]:
    """jvp against differences; returns results, tangents and slopes."""
    tangents = [direction(rng, o) for o in operands]
    outs, slopes = push(fn, operands, tangents)
    h = 1e-4
    f = {k: listed(fn(*moved(operands, tangents, k * h))) for k in (-2, -1, 1, 2)}
    for i, (out, slope) in enumerate(zip(outs, slopes, strict=True)):
        if slope is None:
            continue
        assert slope.shape == out.shape and slope.dtype == out.dtype
        estimate = (8 * (f[1][i] - f[-1][i]) - (f[2][i] - f[-2][i])) / (12 * h)
        size = np.abs(slope) + np.abs(estimate)
        slack = 1e-6 * size + 3e-9 * max(1e-3, np.abs(out).max(initial=0.0), size.max(initial=0.0))
        assert (np.abs(slope - estimate) <= slack).all(), (
            f"output {i}: {slope} against differences {estimate}"
        )
    return outs, tangents, slopes


def products(a: Sequence[Any], b: Sequence[Any]) -> tuple[float, float]:
    """The real inner product of two lists, and the size of its terms."""
    terms = [
        np.real(np.conj(x) * y).ravel() for x, y in zip(a, b, strict=True) if x is not None and y is not None
    ]
    line = np.concatenate([np.zeros(1), *terms])
    return float(line.sum()), float(np.abs(line).sum())


def check_adjoint(fn: Callable[..., Any], operands: Sequence[Array], rng: np.random.Generator) -> list[Any]:
    """Both modes against each other; returns the cotangents that were sent."""
    outs, tangents, slopes = check_slopes(fn, operands, rng)
    cotangents = [normal(rng, o) if is_inexact(o.dtype) else None for o in outs]
    results, back = pull(fn, operands)
    for a, b in zip(results, outs, strict=True):
        np.testing.assert_array_equal(a, b)
    received = back(cotangents)
    for r, o in zip(received, operands, strict=True):
        assert r is None or type_of(r) == type_of(o)
    (left, size), (right, other) = products(cotangents, slopes), products(received, tangents)
    assert abs(left - right) <= 1e-10 * max(size, other, 1e-300), f"<u, Jv> = {left}, <J'u, v> = {right}"
    return cotangents


@pytest.mark.parametrize("name", SMOOTH)
def test_forward_mode_equals_differences(name: str) -> None:
    rng = np.random.default_rng(1)
    for fn, operands in smooth_cases(name):
        check_slopes(fn, operands, rng)


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_both_modes_to_second_order(name: str) -> None:
    rng = np.random.default_rng(2)
    for fn, operands in smooth_cases(name):
        cotangents = check_adjoint(fn, operands, rng)
        sent = [c for c in cotangents if c is not None]

        def reverse(*values: Any, fn: Any = fn, n: int = len(operands), cts: Any = cotangents) -> list[Any]:
            given = iter(values[n:])
            received = pull(fn, values[:n])[1]([None if c is None else next(given) for c in cts])
            return [r for r in received if r is not None]

        check_adjoint(reverse, [*operands, *sent], rng)


def test_stop_gradient_is_a_constant_to_both_modes() -> None:
    x = np.array([1.5, -2.0])
    assert push(table["stop_gradient"], [x], [x])[1][0].tolist() == [0, 0]
    assert pull(table["stop_gradient"], [x])[1]([x])[0].tolist() == [0, 0]


# -- batching ------------------------------------------------------------------------------------------------


def rows(values: Sequence[Array], mapped: Sequence[bool], i: int) -> list[Array]:
    return [np.asarray(v[i]) if m else v for v, m in zip(values, mapped, strict=True)]


def assert_same(got: Any, want: Any) -> None:
    assert type_of(got) == type_of(want)
    if not is_inexact(got.dtype):
        np.testing.assert_array_equal(got, want)
        return
    wide = np.complex128 if is_complex(got.dtype) else np.float64
    a, b = got.astype(wide), want.astype(wide)
    size = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * size)


def loop(fn: Callable[..., Any], values: Sequence[Array], mapped: Sequence[bool], size: int) -> list[Array]:
    found = [listed(fn(*rows(values, mapped, i))) for i in range(size)]
    return [np.stack(column) for column in zip(*found, strict=True)]


def mappings(n: int) -> list[list[bool]]:
    """All mapped, and each one alone."""
    alone = [[i == k for i in range(n)] for k in range(n)]
    return [[True] * n, *(alone if n > 1 else [])]


@pytest.mark.parametrize("name", [n for n in NAMES if not isinstance(table[n].batch, Absent)])
def test_batched_equals_a_loop(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    many = [list(cases(name, seed)) for seed in range(3)]
    for case in zip(*many, strict=True):
        attributes = case[0][1]
        fn = partial(table[name], **attributes)
        for mapped in mappings(len(case[0][0])):
            pairs = zip(zip(*(c[0] for c in case), strict=True), mapped, strict=True)
            values = [np.stack(column) if m else column[0] for column, m in pairs]
            want = loop(fn, values, mapped, 3)
            for got, w in zip(batched(fn, values, mapped, 3), want, strict=True):
                assert_same(got, w)


@pytest.mark.parametrize("name", [n for n in NAMES if not isinstance(table[n].batch, Absent)])
def test_batched_twice_equals_two_loops(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    many = [list(cases(name, seed)) for seed in range(4)]
    for case in zip(*many, strict=True):
        fn = partial(table[name], **case[0][1])
        n = len(case[0][0])
        # The outer batch maps every operand, the inner one every other; so all four kinds of operand meet.
        inner = [i % 2 == 0 for i in range(n)]
        both = [np.stack(c).reshape(2, 2, *c[0].shape) for c in zip(*(c[0] for c in case), strict=True)]
        values = [v if m else v[:, 0] for v, m in zip(both, inner, strict=True)]
        got = batched(lambda *v, f=fn, m=inner: batched(f, v, m, 2), values, [True] * n, 2)
        want = loop(lambda *v, f=fn, m=inner: loop(f, v, m, 2), values, [True] * n, 2)
        for g, w in zip(got, want, strict=True):
            assert_same(g, w)


# -- precision -----------------------------------------------------------------------------------------------

# How far a result may lie from that of the same operands in double: factor·eps·size. The size is that of the
# result, or "terms": the same primitive over absolute values, the sum of the magnitudes that were added.
BOUNDS: dict[str, tuple[float, str]] = {
    "reduce_sum": (8, "terms"), "dot": (8, "terms"), "cumulative": (8, "terms"), "scatter": (4, "terms"),
    "scatter_along": (4, "terms"), "reduce_prod": (16, "result"), "scatter_reduce": (8, "result"),
    "scatter_reduce_along": (8, "result"), **MORE,
}  # fmt: skip
OWN_GRID = {
    "bitcast": "bits depend on the dtype", "nextafter": "a step is as long as the dtype makes it",
    "callback": "Python code promises the dtypes of its results",
    "custom_call": "the routine of the tests computes as NumPy promotes",
}  # fmt: skip


def in_dtype(attributes: dict[str, Any], dtype: Any) -> dict[str, Any]:
    return {k: dtype if k == "dtype" else v for k, v in attributes.items()}


def sizes(name: str, operands: Sequence[Array], attributes: dict[str, Any], exact: Array) -> Array:
    if BOUNDS.get(name, (4, "result"))[1] == "result" or attributes.get("kind") == "logsumexp":
        return np.abs(exact) + (1.0 if attributes.get("kind") == "logsumexp" else 0.0)
    positive = [np.abs(o) if is_inexact(o.dtype) else o for o in operands]
    return np.asarray(table[name].evaluate(*positive, **in_dtype(attributes, dt.float64)))


@pytest.mark.parametrize("dtype", [dt.float32, dt.float16, dt.bfloat16], ids=str)
@pytest.mark.parametrize("name", [n for n in NAMES if n not in OWN_GRID])
def test_small_floats_agree_with_double(name: str, dtype: Any) -> None:
    eps = float(np.finfo(dtype).eps) if dtype != dt.bfloat16 else 2.0**-7
    largest, tiny = (6.5e4, 6e-8) if dtype == dt.float16 else (3.38e38, 1e-40)
    factor = BOUNDS.get(name, (4, "result"))[0]
    for operands, attributes in cases(name):
        if not _all_double(operands) or any(
            isinstance(v, (Graph, tuple)) and _has_graph(v) for v in attributes.values()
        ):
            continue
        low = [o.astype(dtype) if o.dtype == dt.float64 else o for o in operands]
        high = [o.astype(np.float64) if o.dtype == dtype else o for o in low]
        got = listed(table[name].evaluate(*low, **in_dtype(attributes, dtype)))
        exact = listed(table[name].evaluate(*high, **in_dtype(attributes, dt.float64)))
        for g, e in zip(got, exact, strict=True):
            if not is_inexact(e.dtype):
                np.testing.assert_array_equal(g, e)
                continue
            bound = factor * eps * sizes(name, high, attributes, e) + tiny
            inside = np.abs(e) < largest * (1 - factor * eps)
            miss = np.abs(np.subtract(g.astype(e.dtype), e, where=inside, out=np.zeros(e.shape, e.dtype)))
            assert (miss <= bound)[inside].all(), (
                f"{g} against {e}: off by {miss / (eps * np.abs(e) + 1e-300)} eps"
            )
            assert (g.astype(e.dtype) == e)[np.isinf(e)].all()


def _all_double(operands: Sequence[Array]) -> bool:
    floats = [o for o in operands if is_inexact(o.dtype)]
    return bool(floats) and all(o.dtype == dt.float64 for o in floats)


def _has_graph(value: Any) -> bool:
    return isinstance(value, Graph) or (isinstance(value, tuple) and any(map(_has_graph, value)))
