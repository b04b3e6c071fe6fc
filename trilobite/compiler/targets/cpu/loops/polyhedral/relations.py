"""A whole nest as relations of isl: iterations, the order in which they run, and which must stay in order.

Enters: a nest of plain loops with affine bounds. Leaves: `Relations`. Two iterations depend on each other
if they touch one element and one of them writes; two that combine into it by the same primitive do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.loops.dependence import Access, Dependence, accesses
from trilobite.compiler.targets.cpu.loops.index import Index
from trilobite.compiler.targets.cpu.loops.ir import Nest, Node
from trilobite.compiler.targets.cpu.loops.polyhedral.model import Placed, affine, islpy, placed


@dataclass
class Relations:
    nest: Nest

    def __post_init__(self) -> None:
        self.isl = islpy()
        self.context = self.isl.Context()
        self.placed = placed(self.nest)
        self.accesses = list(accesses(self.nest.body))

    def relation(self, rows: Sequence[str]) -> Any:
        """A union of maps from their texts."""
        return self.isl.UnionMap.read_from_str(self.context, f"{{ {'; '.join(rows)} }}")

    def row(self, k: int, to: str, holds: Sequence[str] = ()) -> str:
        """From the iterations of statement k to something."""
        p = self.placed[k]
        names = p.names()
        iterations = " and ".join((*p.iterations(names), *holds)) or "0 = 0"
        return f"S{k}[{', '.join(names.values())}] -> {to} : {iterations}"

    @cached_property
    def domain(self) -> Any:
        return self.relation([self.row(k, "[]") for k in range(len(self.placed))]).domain()

    def order(self, times: Sequence[Sequence[str]]) -> Any:
        """From the iterations of each statement to when they run, as a vector over `v0, v1, ...`."""
        longest = max(map(len, times))
        full = ([*time, *["0"] * (longest - len(time))] for time in times)
        return self.relation([self.row(k, f"[{', '.join(time)}]") for k, time in enumerate(full)])

    @cached_property
    def as_written(self) -> Any:
        return self.order([written_time(p) for p in self.placed])

    def generated(self, body: tuple[Node, ...], calls: Sequence[tuple[int, list[Index]]]) -> Any:
        """The order in which loops run that were written for these iterations: copies of statements in
        order of their text, each with the statement and the iteration that it is.
        """
        copies = placed(replace(self.nest, body=body))
        longest = max((2 * len(p.loops) + 1 for p in copies), default=1)
        iterations, times = [], []
        for c, (p, (k, at)) in enumerate(zip(copies, calls, strict=True)):
            names = p.names()
            copy, holds = f"N{c}[{', '.join(names.values())}]", " and ".join(p.iterations(names)) or "0 = 0"
            iteration = ", ".join(str(affine(i, names)) for i in at)
            time = [*written_time(p), *["0"] * longest][:longest]
            iterations.append(f"{copy} -> S{k}[{iteration}] : {holds}")
            times.append(f"{copy} -> [{', '.join(time)}] : {holds}")
        return self.relation(iterations).reverse().apply_range(self.relation(times))

    def runs_all(self, order: Any) -> bool:
        """Does it run every iteration, and each once?"""
        return bool(order.domain().is_equal(self.domain) and order.is_single_valued())

    # -- what must stay in order ---------------------------------------------------------------------------

    @cached_property
    def dependences(self) -> Any:
        """From an iteration to every later one that must stay behind it."""
        out = self.isl.UnionMap.read_from_str(self.context, "{ }")
        for first, second in self._ordered_kinds():
            out = out.union(first.apply_range(second.reverse()))
        return out.intersect(self.as_written.lex_lt_union_map(self.as_written)).coalesce()

    def _ordered_kinds(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of what is touched in ways that do not commute: read, written, combined by a primitive."""
        kinds: dict[str, list[str]] = {}
        for a in self.accesses:
            kinds.setdefault(_kind(a), []).append(self._touched(a))
        touched = {kind: self.relation(rows) for kind, rows in kinds.items()}
        for first, a in touched.items():
            for second, b in touched.items():
                if first != second or first == "write":
                    yield a, b

    def _touched(self, a: Access) -> str:
        p = self.placed[a.order]
        names, shape = p.names(), self.nest.buffer(a.buffer).shape
        index: list[str] = []
        holds: list[str] = []
        for axis, (i, extent) in enumerate(zip(a.index, shape, strict=True)):
            text = affine(i, names)
            if text is None:  # it may be any element
                text = f"e{axis}"
                holds += (
                    [f"{text} >= 0", f"{text} < {extent}"] if isinstance(extent, int) else [f"{text} >= 0"]
                )
            index.append(text)
        holds += [f"{t} >= 0" for t in (affine(g, names) for g in a.guards) if t is not None]
        number = [b.name for b in self.nest.buffers].index(a.buffer)
        return self.row(a.order, f"B{number}[{', '.join(index)}]", holds)

    # -- what an order breaks ------------------------------------------------------------------------------

    def broken(self, order: Any) -> Dependence | None:
        """A dependence whose second iteration would run before its first, or beside it."""
        wrong = self.dependences.intersect(order.lex_ge_union_map(order))
        if wrong.is_empty():
            return None
        pair = wrong.sample()
        (first, at), (second, then) = (self._turn(side) for side in (pair.domain(), pair.range()))
        return self._dependence(first, at, second, then)

    def _turn(self, side: Any) -> tuple[int, list[int]]:
        point = side.sample_point()
        (whole,) = self.isl.Set.from_union_set(self.isl.UnionSet.from_point(point)).get_basic_sets()
        number = int(whole.get_tuple_name()[1:])
        count = len(self.placed[number].loops)
        inner = whole.sample_point()
        at = [inner.get_coordinate_val(self.isl.dim_type.set, k).to_python() for k in range(count)]
        return number, at

    def _dependence(self, first: int, at: list[int], second: int, then: list[int]) -> Dependence:
        """The accesses by which two iterations meet, and how far apart these are."""
        loops = (self.placed[first].loops, self.placed[second].loops)
        common = [a.var for a, b in zip(*loops, strict=False) if a == b]
        far = tuple((var, y - x) for var, x, y in zip(common, at, then, strict=False))
        pairs = [
            Dependence(a, b, far)
            for a in self.accesses
            for b in self.accesses
            if (a.order, b.order) == (first, second) and a.buffer == b.buffer and (a.write or b.write)
        ]
        return next((d for d in pairs if not d.reordable and self._meet(d, at, then)), pairs[0])

    def _meet(self, d: Dependence, at: list[int], then: list[int]) -> bool:
        rows = [
            self._touched(a) + "".join(f" and v{k} = {x}" for k, x in enumerate(iteration))
            for a, iteration in ((d.first, at), (d.second, then))
        ]
        first, second = (self.relation([row]).range() for row in rows)
        return not first.intersect(second).is_empty()


def _kind(a: Access) -> str:
    return "read" if not a.write else "write" if a.combine is None else f"combined by {a.combine}"


def written_time(p: Placed) -> list[str]:
    """When a statement runs as the text stands: places and iterations in turn."""
    out = [str(p.places[0])]
    for k in range(len(p.loops)):
        out += [f"v{k}", str(p.places[k + 1])]
    return out
