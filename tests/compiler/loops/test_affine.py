"""Random affine nests under random steps: what is accepted keeps every bit of the interpreter's results, and
no pair of iterations that meet is overlooked. That a refused step really is illegal is not asked: the test of
dependence is on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits
from tests.compiler.loops.test_schedule import by_interpreter, by_machine
from trilobite.base.dtypes import int32
from trilobite.base.errors import IRError
from trilobite.compiler.targets.cpu.loops.combine import scalar_graph
from trilobite.compiler.targets.cpu.loops.dependence import (
    Access,
    Dependence,
    accesses,
    dependences,
    starts,
    turns_over,
)
from trilobite.compiler.targets.cpu.loops.index import Index, evaluate, variable
from trilobite.compiler.targets.cpu.loops.ir import Buffer, Load, Loop, Nest, Node, Statement, Target, loops
from trilobite.compiler.targets.cpu.loops.schedule import Schedule

Rng = np.random.Generator
NAMES = ("i", "j", "k")
ANY: Any = None  # accesses whose order no question here is about


def random_index(rng: Rng, names: list[str], sizes: dict[str, int]) -> tuple[Index, int]:
    """A place, and the extent of an axis that holds all its values; offsets keep it from being negative."""
    place, low, high = Index(0), 0, 0
    for name in rng.permutation(names)[: rng.integers(1, 3)]:
        c = int(rng.choice([1, 1, 1, -1, 2]))
        place = place + variable(str(name)) * c
        ends = sorted((0, c * (sizes[str(name)] - 1)))
        low, high = low + ends[0], high + ends[1]
    offset = int(rng.integers(0, 3))
    return place - low + offset, high - low + offset + 1


def random_nest(rng: Rng) -> Nest:
    """Two or three loops around one or two statements over two arrays, one of which is read and written."""
    names = list(NAMES[: rng.integers(2, 4)])
    sizes = {name: int(rng.integers(2, 6)) for name in names}
    extents = {"x": [1, 1], "u": [1, 1]}

    def place(buffer: str) -> tuple[Index, ...]:
        out = []
        for axis in range(2):
            index, extent = random_index(rng, names, sizes)
            extents[buffer][axis] = max(extents[buffer][axis], extent)
            out.append(index)
        return tuple(out)

    statements: list[Node] = []
    for _ in range(rng.integers(1, 3)):
        leaves = (Load("u", place("u")), Load(str(rng.choice(["x", "u"])), place("x")))
        if leaves[1].buffer == "u":
            extents["u"] = [max(pair) for pair in zip(extents["u"], extents["x"], strict=True)]
        combine = "add" if rng.random() < 0.3 else None
        leaves = leaves if combine is None else (Load("x", place("x")), Load("x", place("x")))
        body = scalar_graph(str(rng.choice(["add", "sub", "mul"])), int32)
        statements.append(Statement(leaves, body, (Target("u", place("u"), combine),)))
    body_: tuple[Node, ...] = tuple(statements)
    for name in reversed(names):
        body_ = (Loop(name, (Index(sizes[name]),), body_),)
    buffers = tuple(Buffer(name, int32, tuple(shape)) for name, shape in extents.items())
    return Nest("random", buffers, body_)


def random_step(rng: Rng, s: Schedule) -> None:
    vars_ = [each.var for each in loops(s.nest.body)]
    steps: list[Callable[[], Any]] = [
        lambda: s.split(str(rng.choice(vars_)), int(rng.integers(1, 5))),
        lambda: s.reorder(*(str(v) for v in rng.permutation(vars_))),
        lambda: s.reorder(*(str(v) for v in rng.permutation(vars_))),
        lambda: s.skew(vars_[-2:][0], vars_[-1], int(rng.integers(1, 3))),
        lambda: s.fuse(vars_[-2:][0], vars_[-1]),
        lambda: s.vectorise(vars_[-1], 4),
        lambda: s.parallelise(vars_[0]),
        lambda: s.unroll(vars_[-1]),
    ]
    steps[int(rng.integers(len(steps)))]()


def try_one(seed: int, native: bool) -> tuple[int, int]:
    """How many steps were accepted and refused."""
    rng = np.random.default_rng(seed)
    nest = random_nest(rng)
    s, accepted, refused = Schedule(nest), 0, 0
    for _ in range(4):
        before = s.nest
        try:
            random_step(rng, s)
            accepted += 1
        except IRError:
            refused += 1
            s.nest = before
    want, got = by_interpreter(nest), by_interpreter(s.nest)
    for a, b in zip(got, want, strict=True):
        assert_same_bits(a, b, f"seed {seed}: {s.steps}\n{nest}\n{s.nest}")
    if native:
        for a, b in zip(by_machine(s.nest), want, strict=True):
            assert_same_bits(a, b, f"seed {seed}, native: {s.steps}\n{nest}\n{s.nest}")
    return accepted, refused


def check_distances(seed: int) -> None:
    """Every pair of iterations that meet has a dependence that covers it."""
    nest = random_nest(np.random.default_rng([7, seed]))
    sizes = {each.var: int(str(each.extent[0].constant)) for each in loops(nest.body)}
    names = list(sizes)
    iterations = list(product(*(range(n) for n in sizes.values())))
    known: dict[tuple[Access, Access], list[Any]] = {}
    for d in dependences(nest):
        known.setdefault((d.first, d.second), []).append(tuple(t for _, t in d.distance))
    found = list(accesses(nest.body))
    places = {
        (n, t): _place(a, dict(zip(names, t, strict=True))) for n, a in enumerate(found) for t in iterations
    }
    for (n, a), (k, b) in product(enumerate(found), repeat=2):
        if a.buffer != b.buffer or not (a.write or b.write) or a is b:
            continue
        for t, u in product(iterations, repeat=2):
            if t < u and places[n, t] == places[k, u]:
                far = tuple(y - x for x, y in zip(t, u, strict=True))
                covered = any(
                    all(e is None or e == f for e, f in zip(each, far, strict=True))
                    for each in known.get((a, b), [])
                )
                assert covered, f"seed {seed}: {a} at {t} before {b} at {u}\n{nest}"


def _place(a: Access, at: dict[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(i, at, {}, lambda load: 0) for i in a.index)


def test_random_steps_on_random_nests() -> None:
    counts = np.sum([try_one(seed, seed % 10 == 0) for seed in range(200)], axis=0)
    assert counts.min() >= 100, "both legal and illegal steps were met"


def test_no_pair_of_turns_is_overlooked() -> None:
    for seed in range(40):
        check_distances(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_nests(part: int) -> None:
    for seed in range(200 + 500 * part, 700 + 500 * part):
        try_one(seed, seed % 20 == 0)
    for seed in range(40 + 50 * part, 90 + 50 * part):
        check_distances(seed)


@pytest.mark.parametrize("around", [(), (0,), (None,), (1,), (0, 2)])
def test_an_exchange_of_loops_turns_over_what_some_iterations_would(around: tuple[int | None, ...]) -> None:
    """Of all pairs that a distance allows (an unknown one any): in order before, out of it after."""
    for distance in product((-2, -1, 0, 1, 2, None), repeat=2):
        names = [*(f"l{n}" for n in range(len(around))), "i", "j"]
        d = Dependence(ANY, ANY, tuple(zip(names, (*around, *distance), strict=True)))
        pairs = list(product(*(range(-2, 3) if each is None else (each,) for each in (*around, *distance))))
        before = [p for p in pairs if p > (0,) * len(p)]
        wanted = any((*p[:-2], p[-1], p[-2]) < (0,) * len(p) for p in before)
        assert turns_over(d, "i", "j") == wanted, (around, distance)
        assert not turns_over(d, "i", "elsewhere") and not turns_over(d, "elsewhere", "j")


@pytest.mark.parametrize("distance", list(product((-1, 0, 1, None), repeat=3)))
def test_a_loop_separates_what_no_outer_one_does(distance: tuple[int | None, ...]) -> None:
    names = ("i", "j", "k")
    d = Dependence(ANY, ANY, tuple(zip(names, distance, strict=True)))
    for n, name in enumerate(names):
        assert starts(d, name) == all(each in (0, None) for each in distance[:n])
