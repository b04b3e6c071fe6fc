"""What one element of a value is: the scalar computation behind it, down to memory.

Enters: a region, which of its values stand in memory (`Source`), an element's index. Leaves: a scalar in a
`Scalars`. Data movement becomes indices, guards and choices; nothing is materialised here. Rules are
generators that ask for elements of their operands, so a deep region does not recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.emit.scalar import RULES as RULES_OF_SCALARS
from trilobite.compiler.targets.cpu.emit.scalar import WITH_ATTRIBUTES
from trilobite.compiler.targets.cpu.loops.index import Index, Indirect, Ranges, atom_index, bounds
from trilobite.compiler.targets.cpu.loops.ir import Load, Position
from trilobite.compiler.targets.cpu.nests.scalars import Scalars
from trilobite.ir.graph import Equation, Var
from trilobite.ir.types import Dim

Indices = tuple[Index, ...]
Ask = tuple[Var, Indices, Indices]  # an operand, the element's index, guards under which it is wanted
Rule = Generator[Ask, Var, Var]
RuleOf = Callable[["Reader", Equation, Indices, Indices], Rule]


class CannotRead(Exception):
    """An element has no scalar computation of this form; the text says why."""


@dataclass(frozen=True)
class Source:
    """Where a value stands. An axis with a `row_index` may be read only at that index: the row that is being
    computed. A buffer that holds such a row alone (`whole` false) has the other axes only.
    """

    buffer: str
    row_index: tuple[Index | None, ...] = ()
    whole: bool = True


class Reader:
    def __init__(
        self,
        producers: Mapping[Var, Equation],
        sources: Mapping[Var, Source],
        ranges: Ranges,
        scalars: Scalars,
    ) -> None:
        self.producers, self.sources, self.ranges, self.scalars = producers, sources, ranges, scalars
        self._known: dict[Ask, Var] = {}
        self.touched: set[Var] = set()  # sources that were read

    def element(self, v: Var, index: Indices, guards: Indices = ()) -> Var:
        """The scalar that is element `index` of v."""
        first: Ask = (v, index, guards)
        stack: list[tuple[Ask, Rule]] = []
        answer = self._begin(first, stack)
        while stack:
            ask, rule = stack[-1]
            try:
                question = rule.send(answer) if answer is not None else next(rule)
            except StopIteration as end:
                stack.pop()
                answer = self._known[ask] = end.value
                continue
            answer = self._begin(question, stack)
        assert answer is not None
        return answer

    def _begin(self, ask: Ask, stack: list[tuple[Ask, Rule]]) -> Var | None:
        """The answer if it is known; else the rule that will find it goes on the stack."""
        if ask in self._known:
            return self._known[ask]
        v, index, guards = ask
        source = self.sources.get(v)
        if source is not None:
            self._known[ask] = self._read(v, source, index, guards)
            return self._known[ask]
        e = self.producers.get(v)
        from trilobite.compiler.targets.cpu.nests import movement  # which asks for elements of operands here

        if e is None:
            raise CannotRead("a value that nothing in the region computes is not in memory")
        if e.primitive.name in ("iota", "full"):
            self._known[ask] = self._made(e, index)
            return self._known[ask]
        rule = movement.RULES.get(e.primitive.name, _elementwise if is_elementwise(e) else None)
        if rule is None:
            raise CannotRead(f"{e.primitive.name} has no elements that could be computed alone")
        stack.append((ask, rule(self, e, index, guards)))
        return None

    def _made(self, e: Equation, index: Indices) -> Var:
        """An element that no operand is read for."""
        dtype = e.outputs[0].type.dtype
        if e.primitive.name == "full":
            return self.scalars.number(e.attributes["value"], dtype)
        return self.scalars.leaf(Position(index[e.attributes["axis"]], dtype), dtype)

    def _read(self, v: Var, source: Source, index: Indices, guards: Indices) -> Var:
        self.touched.add(v)
        if any(t is not None and t != i for t, i in zip(source.row_index, index, strict=False)):
            raise CannotRead("another row of a value is read than the one that is being computed")
        if not source.whole:
            index = tuple(i for t, i in zip(source.row_index, index, strict=True) if t is None)
        return self.scalars.leaf(Load(source.buffer, index, guards), v.type.dtype)

    def needed(self, guards: Sequence[Index]) -> tuple[Indices, bool]:
        """The guards that may fail, and whether one of them always does."""
        kept, never = [], False
        for g in guards:
            span = bounds(g, self.ranges)
            if span is None or span[0] < 0:
                kept.append(g)
                never = never or (span is not None and span[1] < 0)
        return tuple(kept), never


def place_of(scalars: Scalars, value: Var, highest: Dim) -> Index:
    """A place along an axis that is loaded, held between 0 and the highest."""
    leaf = scalars.reads.get(value)
    if not isinstance(leaf, Load):
        raise CannotRead("a computed place that does not stand in memory")
    return atom_index(Indirect(leaf, 0, highest))


_GRIDS = {"quantise", "requantise", "quantise_product", "requantise_single", "dequantise"}
_OTHER = _GRIDS | {"full", "constant", "lookup"}
ELEMENTWISE = frozenset(RULES_OF_SCALARS.keys() | WITH_ATTRIBUTES.keys()) - _OTHER


def is_elementwise(e: Equation) -> bool:
    return e.primitive.name in ELEMENTWISE


def _elementwise(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    operands: list[Var] = []
    for x in e.inputs:
        operands += [(yield x, index, guards)]
    return r.scalars.apply(e.primitive, operands, e.outputs[0].type.dtype, e.attributes)
