"""Dependences in a form that a scheduler can read in bounded time.

Enters: pairs of iterations that must stay in order. Leaves: pairs of which these are a part, described
without hidden variables; by distances alone where a statement depends on itself. isl's scheduler wants them
so, and eliminates hidden variables by the method of Fourier and Motzkin, whose work may square with every
variable: deep nests never came back, and isl's limit of operations did not end them. Here a variable whose
elimination would combine more than `MOST` pairs of constraints is given up together with what holds for it,
and of inequalities the simplest `ROWS` stay. More pairs of iterations than needed may forbid an order that
was legal, never allow one that was not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd
from typing import Any

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.loops.polyhedral.model import islpy, parts

MOST = 64
ROWS = 10  # inequalities of one part: for each of them isl eliminates a variable once more

Row = tuple[int, ...]  # one coefficient for each variable, and the constant


@dataclass(frozen=True)
class System:
    """What holds for whole numbers: rows that are zero, and rows that are not negative."""

    zero: tuple[Row, ...]
    positive: tuple[Row, ...]
    width: int  # how many variables there are

    def apart(self, count: int) -> System:
        """Of the first variables and as many others behind them: the distances instead of the others, which
        come to stand first.
        """

        def row(each: Row) -> Row:
            v, w, more = each[:count], each[count : 2 * count], each[2 * count :]
            return (*w, *(a + b for a, b in zip(v, w, strict=True)), *more)

        return System(tuple(map(row, self.zero)), tuple(map(row, self.positive)), self.width)

    def without(self, hidden: Sequence[int]) -> System:
        """What holds for the others, whatever the hidden variables are."""
        system, left = self, list(hidden)
        while left:
            k = min(left, key=system._pairs)
            left.remove(k)
            system = system._eliminated(k)
        return system

    def _pairs(self, k: int) -> int:
        if any(row[k] for row in self.zero):
            return 0
        lower = sum(row[k] > 0 for row in self.positive)
        return lower * sum(row[k] < 0 for row in self.positive)

    def _eliminated(self, k: int) -> System:
        equal = min((row for row in self.zero if row[k]), key=lambda row: abs(row[k]), default=None)
        if equal is not None:
            zero = tuple(_combined(row, equal, k) for row in self.zero if row is not equal)
            return System(zero, _bounds(_combined(row, equal, k) for row in self.positive), self.width)
        kept = [row for row in self.positive if row[k] == 0]
        if self._pairs(k) <= MOST:
            lower, upper = ([row for row in self.positive if row[k] * sign > 0] for sign in (1, -1))
            kept += [_combined(a, b, k) for a in lower for b in upper]
        return System(self.zero, _bounds(kept), self.width)

    def simplest(self, count: int) -> System:
        """As many inequalities, those of the fewest variables and the smallest numbers."""
        rows = sorted(self.positive, key=lambda row: (sum(map(bool, row[:-1])), sum(map(abs, row[:-1])), row))
        return System(self.zero, tuple(rows[:count]), self.width)

    def texts(self, names: Sequence[str]) -> Iterator[str]:
        for rows, holds in ((self.zero, "="), (self.positive, ">=")):
            for row in rows:
                terms = [f"{c} * ({name})" for c, name in zip(row, names, strict=False) if c]
                yield f"{' + '.join([*terms, str(row[-1])])} {holds} 0"


def _combined(row: Row, other: Row, k: int) -> Row:
    """Without variable k: a positive multiple of a row, and some of another."""
    by, times = abs(other[k]), -row[k] if other[k] > 0 else row[k]
    return tuple(by * a + times * b for a, b in zip(row, other, strict=True))


def _bounds(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Each direction once, with the closest bound that whole numbers allow."""
    closest: dict[Row, int] = {}
    for *terms, constant in rows:
        factor = gcd(*terms) or 1
        direction = tuple(c // factor for c in terms)
        bound = constant // factor
        if any(direction) or bound < 0:
            closest[direction] = min(closest.get(direction, bound), bound)
    return tuple((*direction, bound) for direction, bound in closest.items())


def shadow(pairs: Any) -> Any:
    """What a scheduler is told of a union of maps."""
    isl = islpy()
    found = isl.UnionMap.read_from_str(pairs.get_ctx(), "{ }")
    for part in parts(pairs.get_map_list()):
        for piece in part.get_basic_maps():
            found = found.union(_piece(isl, piece))
    return found.coalesce()


def _piece(isl: Any, pairs: Any) -> Any:
    sides = (isl.dim_type.in_, isl.dim_type.out)
    first, second = map(pairs.get_tuple_name, sides)
    counts = [pairs.dim(side) for side in sides]
    v, w = ([f"{letter}{k}" for k in range(n)] for letter, n in zip("vw", counts, strict=True))
    system, seen = _system(isl, pairs), [*v, *w]
    hidden = range(len(seen), system.width)
    if first == second:
        seen = [f"{b} - {a}" for a, b in zip(v, w, strict=True)]
        system, hidden = system.apart(len(v)), range(len(v), system.width)
    holds = " and ".join(system.without(hidden).simplest(ROWS).texts(seen)) or "0 = 0"
    text = f"{{ {first}[{', '.join(v)}] -> {second}[{', '.join(w)}] : {holds} }}"
    found = isl.Map.read_from_str(pairs.get_ctx(), text)
    return found.intersect(isl.Map.lex_lt(found.get_space().domain())) if first == second else found


def _system(isl: Any, pairs: Any) -> System:
    """The iterations of both sides, and behind them the quotients of which the pairs speak."""
    whole = pairs.wrap().flatten().lift().flatten()
    rows: dict[bool, list[Row]] = {True: [], False: []}
    for each in whole.get_constraints():
        terms = [each.get_coefficient_val(isl.dim_type.set, k) for k in range(whole.dim(isl.dim_type.set))]
        row = tuple(c.to_python() for c in (*terms, each.get_constant_val()))
        rows[each.is_equality()].append(row)
    return System(tuple(rows[True]), _bounds(rows[False]), whole.dim(isl.dim_type.set))
