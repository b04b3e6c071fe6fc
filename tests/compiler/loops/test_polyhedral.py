"""Exact legality beside brute force: random affine nests, random steps. A step that keeps every pair of
conflicting accesses in order is accepted and gives the interpreter's bits; any other is refused.

Brute force runs the loops and writes down each iteration: which statement it is with which values of the
loops as they were first written (statements read these, so that steps carry them along), and what it touches.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

pytest.importorskip("islpy")

from tests.compiler.arrays import assert_same_bits
from tests.compiler.loops.test_affine import NAMES, random_index
from tests.compiler.loops.test_schedule import by_interpreter, by_machine
from trilobite import schedules as sc
from trilobite.base.dtypes import int32
from trilobite.base.errors import IRError
from trilobite.compiler.targets.cpu.loops.index import (
    Index,
    Quotient,
    Remainder,
    atom_index,
    evaluate,
    variable,
)
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Load,
    Loop,
    Nest,
    Node,
    Position,
    Statement,
    Target,
    loops,
)
from trilobite.compiler.targets.cpu.loops.polyhedral import model, search, shadows
from trilobite.compiler.targets.cpu.loops.polyhedral.relations import Relations
from trilobite.compiler.targets.cpu.loops.schedule import Schedule
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType

Rng = np.random.Generator


@pytest.fixture(autouse=True)
def _brief_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nests that were tiled before may use up any time that a search is given."""
    monkeypatch.setattr(search, "SECONDS", 1.0)


SCALAR = TensorType((), int32)


# -- random nests ------------------------------------------------------------------------------------------


class Maker:
    """Draws one nest over two arrays, one of which is read and written."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.names = list(NAMES[: rng.integers(1, 4)])
        self.sizes = {name: int(rng.integers(1, 6)) for name in self.names}
        self.extents = {"x": [1, 1], "u": [1, 1]}
        self.count = 0

    def place(self, buffer: str, names: list[str]) -> tuple[Index, ...]:
        out = []
        for axis in range(2):
            index, extent = random_index(self.rng, names, self.sizes)
            if self.rng.random() < 0.15:
                by = int(self.rng.integers(2, 4))
                index = atom_index((Quotient if self.rng.random() < 0.5 else Remainder)(index, by))
                extent = max(extent, by)  # as far as bounds of loops show
            self.extents[buffer][axis] = max(self.extents[buffer][axis], extent)
            out.append(index)
        return tuple(out)

    def load(self, buffer: str, names: list[str]) -> Load:
        load = Load(buffer, self.place(buffer, names))
        if self.rng.random() < 0.2:
            guard, _ = random_index(self.rng, names, self.sizes)
            load = replace(load, guards=(guard - int(self.rng.integers(0, 4)),))
        return load

    def statement(self, names: list[str]) -> Statement:
        combine = str(self.rng.choice(["add", "maximum"])) if self.rng.random() < 0.3 else None
        second = "x" if combine is not None or self.rng.random() < 0.5 else "u"
        loads = [self.load("u" if combine is None else "x", names), self.load(second, names)]
        leaves = (*loads, *(Position(i, int32) for i in self.identity(names)))
        body = random_body(str(self.rng.choice(["add", "sub", "mul"])), len(leaves))
        return Statement(leaves, body, (Target("u", self.place("u", names), combine),))

    def identity(self, names: list[str]) -> Iterator[Index]:
        """Which statement this is, and the loops around it."""
        yield Index(self.count)
        self.count += 1
        yield from map(variable, names)

    def loop(self, depth: int) -> Loop:
        name, around = self.names[depth], self.names[: depth + 1]
        extent, start = [Index(self.sizes[name])], []
        if depth and self.rng.random() < 0.25:
            other = variable(self.names[depth - 1])
            extent += [other + 1] if self.rng.random() < 0.5 else []
            start = [other] if len(extent) == 1 else []
        body: list[Node] = [self.loop(depth + 1)] if depth + 1 < len(self.names) else []
        if not body:
            body = [self.statement(around) for _ in range(self.rng.integers(1, 3))]
        elif self.rng.random() < 0.15:
            body.insert(int(self.rng.integers(2)), self.statement(around))
        return Loop(name, tuple(extent), tuple(body), start=tuple(start))

    def nest(self) -> Nest:
        body: list[Node] = [self.loop(0)]
        if self.rng.random() < 0.25:
            renamed = {name: f"{name}{name}" for name in self.names}
            first, self.names = self.names, list(renamed.values())
            self.sizes |= {renamed[name]: self.sizes[name] for name in first}
            body.append(self.loop(0))
        buffers = tuple(Buffer(name, int32, tuple(shape)) for name, shape in self.extents.items())
        return Nest("random", buffers, tuple(body))


def random_body(primitive: str, leaves: int) -> Graph:
    """The first two joined by a primitive, and all others added."""
    inputs = [Var(SCALAR) for _ in range(leaves)]
    equations: list[Equation] = []
    value = inputs[0]
    for k, each in enumerate(inputs[1:]):
        out = Var(SCALAR)
        equations.append(Equation(table[primitive if k == 0 else "add"], (value, each), {}, (out,)))
        value = out
    return Graph(inputs, equations, (value,), "statement")


# -- brute force -------------------------------------------------------------------------------------------

Touch = tuple[str, tuple[int, ...], str]  # buffer, element, how


@dataclass(frozen=True)
class Iteration:
    key: tuple[int, ...]
    at: Mapping[str, int]  # the loops as they are now
    touched: tuple[Touch, ...]


def iterations(nodes: tuple[Node, ...], at: Mapping[str, int]) -> Iterator[Iteration]:
    """Every statement of every iteration, in the order in which they run."""

    def value(i: Index) -> int:
        return evaluate(i, at, {}, lambda load: 0)

    for node in nodes:
        if isinstance(node, Loop):
            first = max([0, *map(value, node.start)])
            for k in range(first, min(map(value, node.extent))):
                yield from iterations(node.body, {**at, node.var: k})
        else:
            assert isinstance(node, Statement)
            key = tuple(value(leaf.index) for leaf in node.leaves if isinstance(leaf, Position))
            reads = [load for load in node.loads() if all(value(g) >= 0 for g in load.guards)]
            touched = [(a.buffer, tuple(map(value, a.index)), "read") for a in reads]
            touched += [(t.buffer, tuple(map(value, t.index)), t.combine or "write") for t in node.targets]
            yield Iteration(key, at, tuple(touched))


def conflicts(run: list[Iteration], commuting: bool = True) -> Iterator[tuple[int, int]]:
    """Pairs of iterations that touch an element in ways that do not commute, by their places in a run."""
    by_place: dict[Any, list[tuple[int, str]]] = {}
    for n, iteration in enumerate(run):
        for buffer, element, how in iteration.touched:
            by_place.setdefault((buffer, element), []).append((n, how))
    for found in by_place.values():
        for (n, a), (m, b) in combinations(found, 2):
            fixed = a != b or a == "write" or (not commuting and a != "read")
            if n != m and fixed:
                yield n, m


def keeps_order(before: list[Iteration], after: list[Iteration]) -> bool:
    place = {iteration.key: n for n, iteration in enumerate(after)}
    assert len(place) == len(after) and sorted(place) == sorted(iteration.key for iteration in before), (
        "iterations lost"
    )
    return all(place[before[n].key] < place[before[m].key] for n, m in conflicts(before))


def carries(run: list[Iteration], around: list[str], var: str, commuting: bool) -> bool:
    """Do different iterations of a loop, within one iteration of those around it, conflict?"""
    for n, m in conflicts(run, commuting):
        a, b = run[n].at, run[m].at
        shared = var in a and var in b and all(a[v] == b[v] for v in around)
        if shared and a[var] != b[var]:
            return True
    return False


# -- steps -------------------------------------------------------------------------------------------------


class Unchecked(Schedule):
    """Takes every step whose loops have the right form."""

    def _met(self, *_: Any, **__: Any) -> None:
        pass


def random_rows(rng: Rng, names: list[str], taken: set[str]) -> dict[str, Index]:
    """A unimodular matrix: a permutation, some signs turned, rows added to others; under names that no loop
    has yet.
    """
    rows = [variable(str(v)) * int(rng.choice([1, 1, 1, -1])) for v in rng.permutation(names)]
    for _ in range(rng.integers(0, 4)):
        if len(rows) > 1:
            to, by = (int(k) for k in rng.choice(len(rows), 2, replace=False))
            rows[to] = rows[to] + rows[by] * int(rng.integers(-2, 3))
    free = next(name for name in ("r", "s", "rows", "order") if not any(t.startswith(name) for t in taken))
    return {f"{free}{k}": row + int(rng.integers(-2, 3)) for k, row in enumerate(rows)}


def perfect(nest: Nest) -> list[str]:
    """The loops from the outside, as long as each is all there is."""
    names, body = [], nest.body
    while len(body) == 1 and isinstance(body[0], Loop):
        names.append(body[0].var)
        body = body[0].body
    return names


def check_transform(rng: Rng, nest: Nest) -> Nest | None:
    names = perfect(nest)
    names = names[: int(rng.integers(1, len(names) + 1))]
    rows = random_rows(rng, names, {each.var for each in loops(nest.body)})
    before = list(iterations(nest.body, {}))
    after = sorted(before, key=lambda t: [evaluate(r, t.at, {}, lambda load: 0) for r in rows.values()])
    legal = keeps_order(before, after)
    try:
        found = Schedule(nest).transform(rows).nest
    except IRError as error:
        if "loops of another form" in str(error):  # legal or not, isl writes what the loop IR cannot say
            return None
        assert "cannot be the order of iterations" in str(error), f"{error}\n{rows}\n{nest}"
        assert not legal, f"refused, but legal: {rows}\n{error}\n{nest}"
        return None
    assert legal, f"accepted, but illegal: {rows}\n{nest}"
    assert [t.key for t in iterations(found.body, {})] == [t.key for t in after], f"{rows}\n{nest}\n{found}"
    return found


def check_step(nest: Nest, step: Callable[[Schedule], Any], legal: Callable[[Nest], bool]) -> Nest | None:
    """A step is accepted if and only if brute force finds it legal. What has not the form that a step asks
    for is refused in either case, and not judged.
    """
    try:
        unchecked = Unchecked(nest)
        step(unchecked)
    except IRError:
        with pytest.raises(IRError):
            step(Schedule(nest))
        return None
    wanted, s = legal(unchecked.nest), Schedule(nest)
    try:
        step(s)
    except IRError as error:
        assert not wanted, f"refused, but legal: {error}\n{nest}\n{unchecked.nest}"
        return None
    assert wanted, f"accepted, but illegal:\n{nest}\n{s.nest}"
    return s.nest


def check_order(nest: Nest, step: Callable[[Schedule], Any]) -> Nest | None:
    run = list(iterations(nest.body, {}))
    return check_step(nest, step, lambda after: keeps_order(run, list(iterations(after.body, {}))))


def check_tiles(nest: Nest, *sizes: int) -> Nest | None:
    """An order that was found is legal; a search that found none says so."""
    try:
        found = Schedule(nest).auto_tile(*sizes).nest
    except IRError as error:
        assert any(
            why in str(error)
            for why in ("no affine order", "cannot be tiled", "loops of another form", "leave out iterations")
        )
        return None
    assert keeps_order(list(iterations(nest.body, {})), list(iterations(found.body, {}))), f"{nest}\n{found}"
    return found


def check_kind(rng: Rng, nest: Nest) -> Nest | None:
    """Vector and parallel loops: no two iterations of them may conflict."""
    run, names = list(iterations(nest.body, {})), perfect(nest)
    if rng.random() < 0.5:
        legal = not carries(run, [], names[0], commuting=False)
        return check_step(nest, lambda s: s.parallelise(names[0]), lambda _: legal)
    whole = [each.var for each in loops(nest.body)] == names
    combined = carries(run, names[:-1], names[-1], False) and not carries(run, names[:-1], names[-1], True)
    if not whole or combined:  # lanes that combine are asked for more than order
        return None
    legal = not carries(run, names[:-1], names[-1], commuting=True)
    return check_step(nest, lambda s: s.vectorise(names[-1], 4), lambda _: legal)


def judged(seed: int) -> Iterator[tuple[Nest, Nest | None]]:
    """A nest after another, each with what a step made of it; None where it was refused."""
    rng = np.random.default_rng([17, seed])
    nest = Maker(rng).nest()
    for _ in range(3):
        names = [each.var for each in loops(nest.body)]
        if not names:  # loops of one iteration are no longer there
            return
        order, size = [str(v) for v in rng.permutation(names)], int(rng.integers(1, 5))
        var, others = str(rng.choice(names)), [str(v) for v in rng.choice(names, 2)]
        kind = int(rng.integers(6))
        if kind == 0 and len(nest.body) == 1:
            found = check_transform(rng, nest)
        elif kind == 1:
            found = check_order(nest, lambda s, order=order: s.reorder(*order))
        elif kind == 2:
            found = check_order(nest, lambda s, var=var, size=size: s.split(var, size))
        elif kind == 3:
            found = check_order(nest, lambda s, others=others: s.compute_at(*others))
        elif kind == 4 and len(nest.body) == 1:
            found = check_kind(rng, nest)
        else:
            found = check_tiles(nest, size, size + 1)
        yield nest, found
        if found is not None and all(each.kind == "serial" for each in loops(found.body)):
            nest = found


def check(seed: int, native: bool) -> tuple[int, int]:
    """How many steps were accepted and refused; results are compared after all of them."""
    first: Nest | None = None
    last: Nest | None = None
    counts = [0, 0]
    for before, after in judged(seed):
        first, last = first or before, after or before
        counts[after is None] += 1
    assert first is not None and last is not None
    want = by_interpreter(first)
    for a, b in zip(by_interpreter(last), want, strict=True):
        assert_same_bits(a, b, f"seed {seed}\n{first}\n{last}")
    if native:
        for a, b in zip(by_machine(last), want, strict=True):
            assert_same_bits(a, b, f"seed {seed}, native\n{first}\n{last}")
    return counts[0], counts[1]


@pytest.mark.parametrize("part", range(4))
def test_steps_are_legal_if_and_only_if_brute_force_says_so(part: int) -> None:
    counts = np.sum([check(seed, seed % 10 == 0) for seed in range(50 * part, 50 * part + 50)], axis=0)
    assert counts.min() >= 25, "both legal and illegal steps were met"


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_nests_beside_brute_force(part: int) -> None:
    for seed in range(1000 + 500 * part, 1500 + 500 * part):
        check(seed, seed % 20 == 0)


@pytest.mark.parametrize("most", [0, 6, 64])
def test_a_scheduler_is_told_of_every_pair_that_must_stay_in_order(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shadows hold all pairs, and only such as are in order as written, whatever is given up for them."""
    monkeypatch.setattr(shadows, "MOST", most)
    for seed in range(40):
        found = Relations(Maker(np.random.default_rng([18, seed])).nest())
        told = shadows.shadow(found.dependences)
        assert found.dependences.is_subset(told), seed
        told = told.intersect_domain(found.domain).intersect_range(found.domain)
        assert told.is_subset(found.as_written.lex_lt_union_map(found.as_written)), seed


@pytest.mark.parametrize("seed", [1278, 1295, 1544, 1743, 2746])
def test_nests_that_were_tiled_before_are_tiled_in_bounded_time(seed: int) -> None:
    """Eight loops deep, with minima and quotients for bounds: isl alone did not come back from these."""
    check(seed, native=False)


def test_a_search_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the other process itself; the next search has a new one."""
    nest, jacobi = Maker(np.random.default_rng([17, 1544])).nest(), sc.Schedule(sweeps(3, 5))
    jacobi.auto_tile(2)
    before = search._started[0].process
    with monkeypatch.context() as inside:
        inside.setattr(search, "SECONDS", 0.02)
        with pytest.raises(IRError, match=r"no affine order was found[\s\S]*took more than 0\.02 seconds"):
            Schedule(nest).auto_tile(4, 5)
    assert before.returncode == -signal.SIGPROF
    assert str(sc.Schedule(sweeps(3, 5)).auto_tile(2)) == str(jacobi)


@pytest.mark.parametrize("seed", [1179, 2676, 4556, 8062, 9007, 9220, 9570, 10976])
def test_loops_in_rare_forms(seed: int) -> None:
    """An index i - 3 (i div 3); loops named k_2_2 and, cut in parts, k_2; only iterations with two cases; a
    statement that never runs; quotients and remainders of numbers.
    """
    check(seed, native=True)


# -- by hand -----------------------------------------------------------------------------------------------


def sweeps(iterations: int, points: int) -> Nest:
    """Jacobi's relaxation of a line: two statements in loops beside each other, which tiles must fuse."""
    x, y = sc.variables("x y")
    a, b = sc.array("a", (points + 2,)), sc.array("b", (points + 2,))
    mean = sc.loop("x", points, b[x + 1].set((a[x] + a[x + 1] + a[x + 2]) * 0.25))
    back = sc.loop("y", points, a[y + 1].set(b[y + 1] * 2.0))
    return sc.nest("jacobi", (a, b), sc.loop("t", iterations, mean, back))


@pytest.mark.parametrize(("first", "second"), [(0, 4), (4, 0), (0, 0)])
def test_statements_that_never_run_are_no_hindrance(first: int, second: int) -> None:
    x, y = sc.variables("x y")
    a = sc.array("a", (6, 6))
    one = sc.loops({"x": 4, "y": first}, a[x, y].set(a[x, y + 1] * 2.0))
    two = sc.loops({"x": 4, "y": second}, a[x, y + 1].set(a[x + 1, y] * 0.5))
    nest = sc.nest("some", (a,), sc.loop("t", 3, one, two))
    tiled = sc.Schedule(nest).auto_tile(2)
    found = np.random.default_rng(5).standard_normal((6, 6)).astype(np.float32)
    want = found.copy()
    sc.Schedule(nest).interpret(want)
    tiled.interpret(found)
    assert_same_bits(found, want, str(tiled))


@pytest.mark.parametrize("sizes", [(4,), (3, 8), (32, 5)])
def test_loops_beside_each_other_are_fused_skewed_and_tiled(sizes: tuple[int, ...]) -> None:
    nest = sweeps(9, 21)
    s = sc.Schedule(nest).auto_tile(*sizes)
    assert any(each.var.endswith("_t_o") for each in loops(s.nest.body)), str(s)
    start = [np.random.default_rng(4).standard_normal(23).astype(np.float32) for _ in range(2)]
    runs = [[a.copy() for a in start] for _ in range(3)]
    sc.Schedule(nest).interpret(*runs[0])
    s.interpret(*runs[1])
    s.compile()(*runs[2])
    for other in runs[1:]:
        for a, b in zip(other, runs[0], strict=True):
            assert_same_bits(a, b, str(s))


def line(points: int = 8) -> sc.Schedule:
    t, x = sc.variables("t x")
    u = sc.array("u", (points + 2, 8))
    return sc.Schedule(sc.nest("line", (u,), sc.loops({"t": 4, "x": points}, u[x, t].set(u[x + 2, t] * 2.0))))


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (
            lambda s, t, x: s.transform({"a": t * 2, "b": x}),
            "rows over the loops t, x lose or repeat iterations",
        ),
        (lambda s, t, x: s.transform({"a": t + x}), "lose or repeat iterations"),
        (lambda s, t, x: s.split("x", 2).transform({"x_i": t}), "there is a loop 'x_i'"),
        (lambda s, t, x: s.vectorise("x", 2).transform({"a": t, "b": x}), "cannot run in vectors"),
        (lambda s, t, x: s.unroll("x").auto_tile(), "the loops of line cannot be tiled"),
        (lambda s, t, x: s.transform({"b": x * -1, "a": t}), "reorder a read of u.*t: 0, x: 2"),
        (lambda s, t, x: s.transform({"a": sc.variables("z")[0]}), "there is no loop 'z'"),
        (lambda s, t, x: s.auto_tile(4, 0), "blocks of 0"),
    ],
)  # fmt: skip
def test_refusals(step: Callable[..., Any], why: str) -> None:
    with pytest.raises(IRError, match=why):
        step(line(), *sc.variables("t x"))


def test_without_islpy_steps_that_need_it_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "find_spec", lambda name: None)
    with pytest.raises(IRError, match=r"islpy is not installed\n.*polyhedral") as raised:
        line().auto_tile()
    assert "pip install 'trilobite[polyhedral]'" in str(raised.value)


def test_distances_that_are_not_known_are_decided_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even places are read and odd ones written: no two iterations meet, which distances do not show."""
    x = sc.variables("x")[0]
    u = sc.array("u", (40,))
    nest = sc.nest("odd", (u,), sc.loop("x", 9, u[x * 2 + 1].set(u[x * 4] * 2.0)))
    sc.Schedule(nest).vectorise("x", 4)
    monkeypatch.setattr(model, "find_spec", lambda name: None)
    with pytest.raises(IRError, match=r"not known .any. are found with the extra `polyhedral`"):
        sc.Schedule(nest).vectorise("x", 4)
