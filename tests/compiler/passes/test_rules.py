"""Every rule that is written as algebra, for every dtype it claims: it fires, and bits are as it says.

The graph of a pattern is run as it stands and as the rule makes it, over numbers that tell: all patterns of
bits of small formats, random signed wide ones, NaN, infinities, both zeros.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.compiler.arrays import assert_close, assert_same_bits, random_array
from trilobite.base import dtypes as dt
from trilobite.base.errors import TrilobiteError
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.rules import arithmetic, choice, pointwise
from trilobite.compiler.graph.passes.simplify import TABLE, simplify
from trilobite.compiler.graph.rewrite import Counters, Pattern, Rule, by_head, literal, parse_pattern, rewrite
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.ir.verify import verify

N = 301
DTYPES = sorted(dt.ALL, key=str)
ALGEBRA = [r for r in (*arithmetic.RULES, *choice.RULES) if r.name != "add(x, 0) -> x"]
NUMBERS = (1.0, -1.0, 2.0, 3.0, -0.25, 0.0, -0.0, 7.0, 0.1, float("inf"), float("nan"), 1e30, 1e-30)


def leaves(p: Pattern) -> set[str]:
    return {p.head} if p.inner is None else set().union(*map(leaves, p.inner))


def graph_for(rule: Rule, dtype: dt.DType, numbers: dict[str, float]) -> Graph:
    """The rule's pattern over operands of one dtype (`p` is a truth)."""
    pattern = parse_pattern(rule.pattern)
    letters = sorted(leaves(pattern) & set("xyzp"))
    types = [TensorType((N,), dt.bool_ if letter == "p" else dtype) for letter in letters]

    def build(p: Pattern, env: dict[str, Any], beside: dt.DType) -> Any:
        if p.inner is not None:
            parts = [build(q, env, dtype) if _is_open(q) else None for q in p.inner]
            near = next((v.dtype for v in reversed(parts) if v is not None), dtype)
            full = [build(q, env, near) if v is None else v for q, v in zip(p.inner, parts, strict=True)]
            return table[p.head](*full)
        if p.head in env:
            return env[p.head]
        return table["full"](shape=(N,), dtype=beside, value=_number(p, beside, numbers))

    return record_graph(lambda *v: [build(pattern, dict(zip(letters, v, strict=True)), dtype)], types)


def _is_open(p: Pattern) -> bool:
    return bool(leaves(p) & set("xyzp"))


def _number(p: Pattern, dtype: dt.DType, numbers: dict[str, float]) -> Any:
    if p.head in numbers:
        return numbers[p.head]
    element = literal(p.head, dt.bool_ if p.head in ("true", "false") else dtype)
    if element is None:
        raise NoSuchNumber(f"{dtype} has no {p.head}")
    return element.item() if dtype.kind in "biuc" else float(element.astype(np.float64))


class NoSuchNumber(TrilobiteError):
    """A dtype does not have a literal of the pattern."""


def operand(rng: np.random.Generator, t: TensorType) -> Any:
    """All patterns of bits of an 8-bit format, or random numbers."""
    if dt.bits(t.dtype) == 8:
        words = rng.permutation(256).astype(np.uint8).view(t.dtype)
        return np.concatenate([words, random_array(rng, (N - 256,), t.dtype)])
    return random_array(rng, (N,), t.dtype)


def cases(rule: Rule) -> Any:
    letters = sorted(leaves(parse_pattern(rule.pattern)) & set("cd"))
    numbers = NUMBERS if len(letters) < 2 else NUMBERS[1:8]
    for dtype in DTYPES:
        for values in itertools.product(numbers, repeat=len(letters)):
            try:
                yield dtype, values, graph_for(rule, dtype, dict(zip(letters, values, strict=True)))
            except (TrilobiteError, OverflowError, ValueError):
                break  # the operation does not take this dtype, or the dtype has no such number


def fires(rule: Rule) -> list[str]:
    """Check a rule on its own; the dtypes it fired for."""
    rng = np.random.default_rng(len(rule.name))
    rules = by_head([rule], pointwise.NUMBERS)
    fired: dict[str, int] = {}
    for dtype, values, before in cases(rule):
        counters = Counters()
        after = rewrite(before, rules, counters)
        if not counters[rule.name]:
            continue
        verify(after)
        fired[dtype.name] = fired.get(dtype.name, 0) + 1
        arrays = [operand(rng, t) for t in before.input_types]
        (found,), (expected,) = run(after, arrays), run(before, arrays)
        what = f"{rule.name} for {dtype} with {values}"
        if rule.exact:
            assert_same_bits(found, expected, what)
        else:
            assert_close(found, expected, ulps=4, what=what)
    return sorted(fired)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("rule", ALGEBRA, ids=[f"{r.name}{'' if r.exact else ' ~'}" for r in ALGEBRA])
def test_a_rule_holds_for_every_dtype_it_claims(rule: Rule) -> None:
    assert fires(rule)


@pytest.mark.parametrize("name", ["exp", "exp2", "abs", "cosh"])
def test_zero_is_added_to_what_is_never_negative_zero(name: str) -> None:
    """x + 0.0 is x there; elsewhere -0.0 becomes 0.0, and the sum stays."""

    def added(inner: str) -> Graph:
        def body(x: Any) -> list[Any]:
            return [table["add"](table[inner](x), table["full"](shape=(N,), dtype=dt.float32, value=0.0))]

        return record_graph(body, [TensorType((N,), dt.float32)])

    assert [e.primitive.name for e in dce(simplify(added(name))).equations] == [name]
    assert [e.primitive.name for e in dce(simplify(added("sin"))).equations] == ["sin", "full", "add"]
    x = random_array(np.random.default_rng(3), (N,), dt.float32)
    assert_same_bits(run(simplify(added(name)), [x])[0], run(added(name), [x])[0])


REORDERED = {
    "add(add(x, c), d) -> add(x, add(c, d))": lambda x, c, d: abs(x) + abs(c) + abs(d),
    "mul(mul(x, c), d) -> mul(x, mul(c, d))": lambda x, c, d: abs(x * c * d),
    "add(mul(x, c), mul(x, d)) -> mul(x, add(c, d))": lambda x, c, d: abs(x * c) + abs(x * d),
}


@pytest.mark.parametrize("rule", arithmetic.REASSOCIATE, ids=lambda r: r.name)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64])
def test_another_order_stays_within_roundings_of_the_terms(rule: Rule, dtype: dt.DType) -> None:
    """Against the exact value, within 4 units of the sum of magnitudes; what is infinite or NaN stays so."""
    rng = np.random.default_rng(5)
    fired, u = 0, float(np.finfo(dtype).eps) / 2
    for c, d in itertools.product(NUMBERS, repeat=2):
        before = graph_for(rule, dtype, {"c": c, "d": d})
        counters = Counters()
        after = rewrite(before, by_head([rule], pointwise.NUMBERS), counters)
        fired += counters[rule.name]
        if not counters[rule.name]:
            continue
        x = random_array(rng, (N,), dtype)
        found = run(after, [x])[0].astype(np.longdouble)
        with np.errstate(all="ignore"):
            terms = REORDERED[rule.name](*(np.asarray(v, dtype).astype(np.longdouble) for v in (x, c, d)))
            wide = run(graph_for(rule, dt.float64, {"c": c, "d": d}), [x.astype(np.float64)])[0]
            largest = float(np.finfo(dtype).max)
            near = abs(found - wide) <= 4 * u * terms + float(np.finfo(dtype).smallest_subnormal)
            same = (found == wide) | (np.isnan(found) & np.isnan(wide)) | (abs(wide) >= largest * (1 - u))
        assert (near | same).all(), (c, d, x[~(near | same)])
    assert fired


def test_order_is_kept_unless_asked_for() -> None:
    for rule in arithmetic.REASSOCIATE:
        graph = graph_for(rule, dt.float32, {"c": 3.0, "d": 5.0})
        counters = Counters()
        simplify(graph, counters)
        assert rule.name not in counters
        simplify(graph, counters, reassociate=True)
        assert counters[rule.name] == 1


def test_no_rule_has_a_twin() -> None:
    seen: dict[tuple[str, dt.DType], str] = {}
    for rule in TABLE:
        for dtype in rule.on:
            if rule.when is None and isinstance(rule.result, str):
                assert seen.setdefault((rule.pattern, dtype), rule.name) == rule.name
