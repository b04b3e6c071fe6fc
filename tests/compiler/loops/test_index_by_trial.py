"""Ranges, quotients and distances of indices beside all their values, tried one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from trilobite.compiler.targets.cpu.loops import dependence
from trilobite.compiler.targets.cpu.loops.dependence import _may_meet, _solve
from trilobite.compiler.targets.cpu.loops.index import (
    Index,
    Quotient,
    Remainder,
    atom_index,
    bounds,
    divided,
    evaluate,
    ratio,
    variable,
)

NAMES = ("i", "j", "k")


def no_load(load: Any) -> int:
    raise AssertionError(load)


def values(index: Index, ranges: dict[str, int]) -> list[int]:
    names = list(ranges)
    return [
        evaluate(index, dict(zip(names, point, strict=True)), {}, no_load)
        for point in product(*(range(ranges[n]) for n in names))
    ]


def drawn(rng: Any, ranges: dict[str, int], low: int = -3) -> Index:
    out = Index(int(rng.integers(low, 9)))
    for name in ranges:
        if rng.random() < 0.8:
            out = out + variable(name) * int(rng.integers(low, 9))
    return out


@pytest.mark.parametrize("seed", range(40))
def test_bounds_hold_all_values_and_both_are_met(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranges = {n: int(rng.integers(1, 6)) for n in NAMES[: rng.integers(1, 4)]}
    index = drawn(rng, ranges)
    found = values(index, ranges)
    assert bounds(index, ranges) == (min(found), max(found))
    if min(found) >= 0:
        ends = np.array([min(found), max(found)])
        rest = ends % 3 if ends[0] // 3 == ends[1] // 3 else (0, 2)  # exact within a period
        for wrapped, want in ((Quotient(index, 3), ends // 3), (Remainder(index, 3), rest)):
            low, high = bounds(atom_index(wrapped), ranges) or (-1, -1)
            seen = values(atom_index(wrapped), ranges)
            assert low <= min(seen) and max(seen) <= high
            assert (low, high) == tuple(want)
    assert bounds(index + variable("nowhere"), ranges) is None
    assert bounds(variable("nowhere") * 0 + index, ranges) == (min(found), max(found))


@pytest.mark.parametrize("seed", range(60))
def test_quotients_and_rests_are_those_of_every_value(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    ranges = {n: int(rng.integers(1, 6)) for n in NAMES[: rng.integers(1, 4)]}
    by = int(rng.integers(1, 8))
    index = (
        drawn(rng, ranges, 0)
        if seed % 3
        else sum((variable(n) * int(by ** rng.integers(0, 3)) for n in ranges), Index(0))
    )
    whole = values(index, ranges)
    if min(whole) < 0:
        return
    quotient, rest = divided(index, by, ranges)
    assert values(quotient, ranges) == [v // by for v in whole]
    assert values(rest, ranges) == [v % by for v in whole]


def test_a_variable_below_its_divisor_is_its_own_rest() -> None:
    for extent, by in ((4, 4), (3, 4), (5, 4)):
        quotient, rest = divided(variable("i") + variable("j") * by, by, {"i": extent, "j": 3})
        plain = not any(isinstance(atom, (Quotient, Remainder)) for atom, _ in (*quotient.terms, *rest.terms))
        assert plain == (extent <= by)


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [(6, 3, 2), (7, 3, None), (0, 3, 0), (6, 0, None), (-6, 3, -2), (3, 6, None), (0, 0, None)],
)
def test_ratios_of_numbers(a: int, b: int, found: int | None) -> None:
    assert ratio(a, b) == found


@pytest.mark.parametrize("seed", range(60))
def test_all_distances_are_found(seed: int) -> None:
    rng = np.random.default_rng(300 + seed)
    ranges = {n: int(rng.integers(1, 6)) for n in NAMES[: rng.integers(1, 4)]}
    terms = [(n, int(rng.choice([-3, -2, -1, 1, 2, 3, 5]))) for n in ranges]
    total = int(rng.integers(-9, 10))
    names = [n for n, _ in terms]
    wanted = {
        point
        for point in product(*(range(1 - ranges[n], ranges[n]) for n in names))
        if sum(c * d for (_, c), d in zip(terms, point, strict=True)) == total
    }
    found = _solve(sorted(terms, key=lambda t: -abs(t[1])), total, ranges)
    if found is None:
        assert len(wanted) > dependence.MOST or max(ranges.values()) > dependence.MOST // 2
        return
    assert {tuple(s[n] for n in names) for s in found} == wanted and len(found) == len(wanted)


@pytest.mark.parametrize("seed", range(40))
def test_indices_that_never_meet_share_no_value(seed: int) -> None:
    rng = np.random.default_rng(500 + seed)
    ranges = {n: int(rng.integers(1, 5)) for n in NAMES[:2]}
    x, y = drawn(rng, ranges), drawn(rng, ranges) + int(rng.integers(0, 20))
    spans = [(min(v), max(v)) for v in (values(x, ranges), values(y, ranges))]
    overlap = spans[0][0] <= spans[1][1] and spans[1][0] <= spans[0][1]
    assert _may_meet(x, y, ranges) == overlap and _may_meet(x, x, ranges)
    assert _may_meet(x, y + variable("nowhere"), ranges)
