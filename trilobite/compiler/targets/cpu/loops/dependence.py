"""Which iterations of loops must stay in order: dependences between the accesses of a nest.

Enters: a nest. Leaves: `Dependence`s: two accesses of one buffer, at least one of them a write, and by how
many iterations of each common loop the second comes after the first (`None`: by any number). A pair is left
out only if no two iterations can meet. Indices that are not linear in the loop variables meet everywhere. Two
accesses that combine by the same primitive do not order each other: that is what combining means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Literal

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.loops.index import Index, Quotient, Remainder, atom_index, bounds
from trilobite.compiler.targets.cpu.loops.ir import Loop, Micro, Nest, Node, Statement, ranges_of, statements

MOST = 64  # distances of one pair that are told apart

Sign = Literal["= 0", "> 0", "< 0", "!= 0"]  # of a distance


@dataclass(frozen=True)
class Access:
    """A read or a write of a buffer, with the loops around it, outermost first."""

    buffer: str
    index: tuple[Index, ...]
    write: bool
    combine: str | None
    loops: tuple[str, ...]
    order: int  # of its statement in the text
    statement: Statement
    guards: tuple[Index, ...] = ()  # of a read: memory is touched only where none of these is negative


@dataclass(frozen=True)
class Dependence:
    """`second` must run after `first` if it runs `distance` iterations later, or in the same iterations but
    later in the text.
    """

    first: Access
    second: Access
    distance: tuple[tuple[str, int | None], ...]

    @property
    def reordable(self) -> bool:
        """Both combine by one primitive, so either may come first."""
        return self.first.combine is not None and self.first.combine == self.second.combine

    def reversed(self) -> Dependence:
        """Seen from the other access."""
        far = tuple((v, None if iterations is None else -iterations) for v, iterations in self.distance)
        return Dependence(self.second, self.first, far)

    def __str__(self) -> str:
        iterations = (
            ", ".join(f"{v}: {'any' if d is None else d}" for v, d in self.distance) or "the same iteration"
        )
        return f"{_word(self.first)} before {_word(self.second)} ({iterations})"


def _word(a: Access) -> str:
    return f"{'write' if a.write else 'read'} of {a.buffer}[{', '.join(map(str, a.index))}]"


# -- accesses ----------------------------------------------------------------------------------------------


def accesses(nodes: tuple[Node, ...], around: tuple[str, ...] = ()) -> Iterator[Access]:
    """Every access, in order of the text."""
    counter = iter(range(1 << 30))
    yield from _accesses(nodes, around, counter)


def _accesses(nodes: tuple[Node, ...], around: tuple[str, ...], counter: Iterator[int]) -> Iterator[Access]:
    for node in nodes:
        if isinstance(node, Loop):
            yield from _accesses(node.body, (*around, node.var), counter)
        elif isinstance(node, Micro):
            yield from _accesses(node.meaning, around, counter)
        else:
            k = next(counter)
            for load in node.loads():
                yield Access(load.buffer, load.index, False, None, around, k, node, load.guards)
            for t in node.targets:
                yield Access(t.buffer, t.index, True, t.combine, around, k, node)


def dependences(nest: Nest) -> list[Dependence]:
    """All of a nest, each pair in the order in which its iterations run."""
    ranges = {v: d for v, d in ranges_of(nest.body).items() if isinstance(d, int)}
    found = list(accesses(nest.body))
    out: list[Dependence] = []
    for i, a in enumerate(found):
        for b in found[i:]:
            if a.buffer == b.buffer and (a.write or b.write):
                out += _between(a, b, ranges)
    return out


def _between(a: Access, b: Access, ranges: Mapping[str, int]) -> Iterator[Dependence]:
    common = [v for v, w in zip(a.loops, b.loops, strict=False) if v == w]
    for distance in distances(a, b, common, ranges):
        first = next((d for d in distance if d != 0), 0)
        same_place = a is b or (a.order == b.order and not a.write)
        vector = tuple(zip(common, distance, strict=True))
        if first is None or first > 0:
            yield Dependence(a, b, vector)
        if first is None or first < 0:
            yield Dependence(a, b, vector).reversed()
        if first == 0 and not same_place and a is not b:
            yield Dependence(a, b, vector)


# -- when two accesses meet --------------------------------------------------------------------------------


def distances(
    a: Access, b: Access, common: Sequence[str], ranges: Mapping[str, int]
) -> list[tuple[int | None, ...]]:
    """By how many iterations of the common loops b may meet what a touches; none: they never meet."""
    first, second = rejoined(a.index), rejoined(b.index)
    if len(first) != len(second):
        return [(None,) * len(common)]
    solutions: list[dict[str, int]] = [{}]
    # Axes of few variables first: what they say of those is known when axes of several are solved.
    for x, y in sorted(zip(first, second, strict=True), key=lambda each: len(each[0].terms)):
        if not _may_meet(x, y, ranges):
            return []
        found: list[dict[str, int]] = []
        for s in solutions:
            solved = _uniform(x, y, common, ranges, s)
            found += [s] if solved is None else [{**s, **t} for t in solved]
        solutions = found
        if not solutions:
            return []
        if len(solutions) > MOST:
            return [(None,) * len(common)]
    return list(dict.fromkeys(tuple(_distance(v, s, ranges) for v in common) for s in solutions))


def rejoined(index: tuple[Index, ...]) -> tuple[Index, ...]:
    """Axes indexed by quotient and remainder of one number, as one axis indexed by that number: two accesses
    agree in both if and only if they agree in it.
    """
    for x in index:
        atom = x.terms[0][0] if len(x.terms) == 1 else None
        if not isinstance(atom, Quotient) or x != atom_index(atom):
            continue
        rest = atom_index(Remainder(atom.index, atom.by))
        if rest in index:
            return rejoined(tuple(atom.index if y is x else y for y in index if y != rest))
    return index


def _distance(v: str, solution: Mapping[str, int], ranges: Mapping[str, int]) -> int | None:
    return 0 if ranges.get(v) == 1 else solution.get(v)


def _may_meet(x: Index, y: Index, ranges: Mapping[str, int]) -> bool:
    """Do the values that two indices can have overlap?"""
    if x == y:
        return True
    first, second = bounds(x, ranges), bounds(y, ranges)
    if first is None or second is None:
        return True
    return first[0] <= second[1] and second[0] <= first[1]


def _uniform(
    x: Index, y: Index, common: Sequence[str], ranges: Mapping[str, int], known: Mapping[str, int]
) -> list[dict[str, int]] | None:
    """Distances that make indices equal that differ by a constant alone, where some are known; None: that
    says nothing.
    """
    if x.terms != y.terms or not isinstance(x.constant, int) or not isinstance(y.constant, int):
        return None
    terms: list[tuple[str, int]] = []
    for atom, c in x.terms:
        if not isinstance(atom, str) or not isinstance(c, int) or atom not in common:
            return None
        terms.append((atom, c))
    total = x.constant - y.constant - sum(c * known[v] for v, c in terms if v in known)
    terms = [(v, c) for v, c in terms if v not in known]
    if len(terms) > 1 and any(v not in ranges for v, _ in terms):
        return None
    terms.sort(key=lambda t: -abs(t[1]))
    # a at i touches c*i + x; b at i + d touches c*(i + d) + y: equal if c*d = x - y.
    return _solve(terms, total, ranges)


def _solve(
    terms: list[tuple[str, int]], total: int, ranges: Mapping[str, int]
) -> list[dict[str, int]] | None:
    """All d with sum(c * d) = total and |d| below the extents; None if there are too many."""
    if not terms:
        return [{}] if total == 0 else []
    (v, c), rest = terms[0], terms[1:]
    if not rest:
        fits = total % c == 0 and abs(total // c) < ranges.get(v, 1 << 62)
        return [{v: total // c}] if fits else []
    reach = sum(abs(k) * (ranges[w] - 1) for w, k in rest)
    ends = sorted(((total - reach) * (1 if c > 0 else -1), (total + reach) * (1 if c > 0 else -1)))
    limit = ranges[v] - 1
    first, last = max(-(-ends[0] // abs(c)), -limit), min(ends[1] // abs(c), limit)
    if last - first > MOST:
        return None
    out: list[dict[str, int]] = []
    for d in range(first, last + 1):
        inner = _solve(rest, total - c * d, ranges)
        if inner is None:
            return None
        out += [{v: d, **s} for s in inner]
    return out if len(out) <= MOST else None


# -- what loops carry --------------------------------------------------------------------------------------


def carried(nest: Nest, var: str) -> list[Dependence]:
    """Dependences between different iterations of a loop, within one iteration of every loop around it."""
    return [d for d in dependences(nest) if carries(d, var)]


def carries(d: Dependence, var: str) -> bool:
    for v, iterations in d.distance:
        if v == var:
            return iterations != 0
        if iterations not in (0, None):
            return False
    return False


def turns_before(d: Dependence, var: str) -> dict[str, Sign]:
    """The loops around one, all at the same iteration."""
    return {v: "= 0" for v in takewhile(lambda v: v != var, (v for v, _ in d.distance))}


def carried_by(d: Dependence, var: str) -> dict[str, Sign]:
    """Different iterations of a loop, within one iteration of every loop around it."""
    return {**turns_before(d, var), var: "!= 0"}


def turns_over(d: Dependence, outer: str, inner: str) -> bool:
    """Would exchanging two loops run the second access before the first?"""
    distance = dict(d.distance)
    if outer not in distance or inner not in distance:
        return False
    for v, iterations in d.distance:
        if v == outer:
            break
        if iterations not in (0, None):
            return False  # an outer loop keeps them in order
    a, b = distance[outer], distance[inner]
    return (a is None or a > 0) and (b is None or b < 0)


def starts(d: Dependence, var: str) -> bool:
    """Are all loops around `var` at the same iteration, or may they be?"""
    for v, iterations in d.distance:
        if v == var:
            return True
        if iterations not in (0, None):
            return False
    return True


def folds(d: Dependence, node: Loop) -> bool:
    """Do all lanes of a loop combine into one element, which they have for themselves? Lanes that combine
    into elements of their own, some of which may be the same, would lose what the others add.
    """
    s, buffer = list(statements((node,))), d.first.buffer
    alone = sum(t.buffer == buffer for each in s for t in each.targets) == 1
    read = any(load.buffer == buffer for each in s for load in each.loads())
    return alone and not read and not any(node.var in i.variables for i in d.first.index)
