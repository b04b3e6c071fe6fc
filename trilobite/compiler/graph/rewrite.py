"""The rule machinery: one walk over a graph that replaces equations by tables of rules.

Enters: a graph and rules. A rule is a line of data: a pattern such as `mul(x, 1)`, what stands for it (`x`,
or a function where attributes matter), for which dtypes, and whether bits stay equal. Leaves: a graph with
the same meaning; what fired is counted under the rule's text. Regions of cond, while and scan are rewritten
too, calls and fusions are left alone. What becomes unused stays where it is: removing it is dce's business.

In a pattern `x y z p` are any values (the same letter twice: the same value), `c d` numbers that are the same
everywhere, literals such as `1`, `-0.0`, `inf`, `ones` that number itself, to the bit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL, DType, bool_, is_complex, is_integer
from trilobite.base.errors import IRError
from trilobite.base.locations import UNKNOWN
from trilobite.base.quiet import quiet
from trilobite.base.records import dataclass
from trilobite.compiler.graph.draft import Draft
from trilobite.compiler.graph.regions import on_every_graph, uses
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.primitives.cast import by_value
from trilobite.ir.primitives.common import integer_range
from trilobite.ir.types import TensorType

Counters = Counter[str]


class _Uncounted(Counters):
    """What a pass counts for nobody: forgotten at once."""

    def __setitem__(self, key: str, value: int) -> None:
        pass

    def update(self, *counts: Any, **named: Any) -> None:
        pass


UNCOUNTED: Counters = _Uncounted()
Element = np.ndarray[Any, Any]  # of no dimensions
_VALUES, _NUMBERS = frozenset("xyzp"), frozenset("cd")
_FUEL = 64  # firings that one equation may cause; the tables terminate far below, which tests check

# -- patterns ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pattern:
    """A tree: an operation over patterns, or a leaf (a letter, or a literal)."""

    head: str
    inner: tuple[Pattern, ...] | None = None

    @cached_property
    def kind(self) -> str:
        if self.inner is not None:
            return "operation"
        return "value" if self.head in _VALUES else "number" if self.head in _NUMBERS else "literal"


_TOKEN = re.compile(r"\s*([\w.+-]+|[(),*])")


@cache
def parse_pattern(text: str) -> Pattern:
    tokens = _TOKEN.findall(text)
    found, end = _parse(tokens, 0)
    if end != len(tokens):
        raise IRError(f"a rule's text does not end where it should: {text!r}")
    return found


def _parse(tokens: Sequence[str], at: int) -> tuple[Pattern, int]:
    head = tokens[at]
    if at + 1 == len(tokens) or tokens[at + 1] != "(":
        return Pattern(head), at + 1
    inner: list[Pattern] = []
    at += 2
    while tokens[at] != ")":
        part, at = _parse(tokens, at + (tokens[at] == ","))
        inner.append(part)
    return Pattern(head, tuple(inner)), at + 1


_WORDS: Mapping[str, Callable[[DType], Any]] = {
    "true": lambda d: True,
    "false": lambda d: False,
    "ones": lambda d: True if d == bool_ else integer_range(d)[1] if integer_range(d)[0] == 0 else -1,
    "lowest": lambda d: False if d == bool_ else integer_range(d)[0] if is_integer(d) else -np.inf,
    "highest": lambda d: True if d == bool_ else integer_range(d)[1] if is_integer(d) else np.inf,
}


@cache
def literal(text: str, dtype: DType) -> Element | None:
    """The literal as an element of a dtype; None if the dtype does not have that number."""
    if text in ("true", "false") and dtype != bool_:
        return None
    number = _WORDS[text](dtype) if text in _WORDS else float(text) if re.search(r"[.n]", text) else int(text)
    found: Element | None = element_of(number, dtype)
    return found


@quiet
def element_of(number: Any, dtype: DType) -> Element | None:
    """A number as an element; None if the dtype rounds it."""
    found = np.asarray(by_value(np.asarray(number), dtype))
    back = found if is_complex(dtype) else found.astype(np.int64 if is_integer(dtype) else np.float64)
    if is_integer(dtype) and dtype.name == "uint64":
        back = found
    return found if bool(back == number) else None


def same_bits(a: Element, b: Element) -> bool:
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


# -- rules ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """`pattern` becomes `result`, for first operands of these dtypes and where `when` holds."""

    pattern: str
    result: str | Callable[[Match], Var | None]
    on: frozenset[DType] = ALL
    exact: bool = True  # the same bits, every NaN alike; otherwise within rounding of the meaning
    when: Callable[[Match], bool] | None = None

    @cached_property
    def name(self) -> str:
        shown = self.result if isinstance(self.result, str) else self.result.__name__.strip("_")
        return f"{self.pattern} -> {shown}"

    @cached_property
    def tree(self) -> Pattern:
        return parse_pattern(self.pattern)

    @property
    def head(self) -> str:
        return self.tree.head

    @cached_property
    def needs(self) -> tuple[tuple[int, str], ...]:
        """Operands that a quick look can refuse: which operation must make them; none: a number."""
        kinds = ((i, p, p.kind) for i, p in enumerate(self.tree.inner or ()))
        return tuple((i, p.head if kind == "operation" else "") for i, p, kind in kinds if kind != "value")


class Rules:
    """Rules under the operation they begin with; those under `*` are tried on every equation, last."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.heads: dict[str, list[Rule]] = {}
        for rule in rules:
            self.heads.setdefault(rule.head, []).append(rule)
        self._fitting: dict[tuple[str, DType | None], tuple[Rule, ...]] = {}

    def fitting(self, name: str, dtype: DType | None) -> tuple[Rule, ...]:
        """The rules for an operation whose first operand has this dtype."""
        found = self._fitting.get((name, dtype))
        if found is None:
            rules = (*self.heads.get(name, ()), *self.heads.get("*", ()))
            found = tuple(r for r in rules if dtype is None or dtype in r.on)
            self._fitting[name, dtype] = found
        return found


def by_head(*groups: Sequence[Rule]) -> Rules:
    return Rules([r for group in groups for r in group])


class Match:
    """An equation that a pattern fits, and the means to write what replaces it."""

    def __init__(self, rewriter: Rewriter, equation: Equation, found: Mapping[str, Var]) -> None:
        self.rewriter, self.equation, self.found = rewriter, equation, found

    def __getitem__(self, letter: str) -> Var:
        return self.found[letter]

    @property
    def type(self) -> TensorType:
        return self.equation.outputs[0].type

    @property
    def attributes(self) -> Mapping[str, Any]:
        return self.equation.attributes

    def maker(self, v: Var) -> Equation | None:
        """The equation that makes a value; None for inputs of the graph."""
        return self.rewriter.makers.get(v)

    def inner(self, operand: int = 0) -> Equation:
        """The equation that makes an operand, where the pattern says there is one."""
        return self.rewriter.makers[self.equation.inputs[operand]]

    def number(self, v: Var) -> Element | None:
        """The element of a value that is the same everywhere."""
        return self.rewriter.numbers.get(v)

    def make(self, name: str, *inputs: Var, **attributes: Any) -> Var:
        return self.rewriter.make(name, inputs, attributes)

    def full(self, element: Element, like: TensorType | None = None) -> Var:
        return self.rewriter.full(element, like or self.type)


# -- the walk ------------------------------------------------------------------------------------------------


class Rewriter(Draft):
    """A graph being written anew, equation by equation."""

    def __init__(self, graph: Graph, rules: Rules, counters: Counters) -> None:
        super().__init__(graph)
        self.rules, self.counters = rules, counters
        self.makers: dict[Var, Equation] = {}
        self.numbers: dict[Var, Element] = {}
        self.location = UNKNOWN
        self.fuel = 0

    @cached_property
    def readers(self) -> Counter[Var]:
        """How often each value of the graph is read, before anything is rewritten."""
        return uses(self.graph)

    def run(self) -> Graph:
        for e in self.graph.equations:
            self.location, self.fuel = e.location, _FUEL
            current = self.current(e)
            found = self._replacement(current)
            if found is None:
                self._append(current)
            else:
                self.now[e.outputs[0]] = found
        return self.finished()

    def _append(self, e: Equation) -> None:
        self.equations.append(e)
        for v in e.outputs:
            self.makers[v] = e
        element = _uniform(e, self.numbers)
        if element is not None:
            self.numbers[e.outputs[0]] = element

    def _replacement(self, e: Equation) -> Var | None:
        """What the first rule that fits gives, or None."""
        if e.primitive.multiple or e.primitive.effect:
            return None
        dtype = e.inputs[0].type.dtype if e.inputs else None
        for rule in self.rules.fitting(e.primitive.name, dtype):
            if rule.needs and not self._may_fit(rule.needs, e.inputs):
                continue
            found = self._apply(rule, e)
            if found is not None:
                self._check(rule, found, e)
                self.counters[rule.name] += 1
                return found
        return None

    def _may_fit(self, needs: Sequence[tuple[int, str]], inputs: Sequence[Var]) -> bool:
        for i, name in needs:
            if not name:
                if inputs[i] not in self.numbers:
                    return False
            else:
                maker = self.makers.get(inputs[i])
                if maker is None or maker.primitive.name != name:
                    return False
        return True

    def _check(self, rule: Rule, found: Var, e: Equation) -> None:
        if found.type != e.outputs[0].type:
            raise IRError(
                f"the rule {rule.name} gives {found.type}", where=str(e.location), expected=e.outputs[0].type
            )

    def _apply(self, rule: Rule, e: Equation) -> Var | None:
        found = dict[str, Var]()
        if rule.tree.inner is not None and not self._fits(rule.tree.inner, e.inputs, found):
            return None
        match = Match(self, e, found)
        if self.fuel == 0 or (rule.when is not None and not rule.when(match)):
            return None
        self.fuel -= 1
        if isinstance(rule.result, str):
            out = self._write(parse_pattern(rule.result), match)
        else:
            out = rule.result(match)
        self.fuel += out is None
        return out

    def _fits(self, patterns: Sequence[Pattern], values: Sequence[Var], found: dict[str, Var]) -> bool:
        if len(patterns) != len(values):
            return False
        for p, v in zip(patterns, values, strict=True):  # noqa: SIM110  a call per operand less
            if not self._fits_one(p, v, found):
                return False
        return True

    def _fits_one(self, p: Pattern, v: Var, found: dict[str, Var]) -> bool:
        kind = p.kind
        if kind == "value":
            return found.setdefault(p.head, v) is v
        if kind == "operation":
            e = self.makers.get(v)
            if e is None or e.primitive.name != p.head:
                return False
            return p.inner is not None and self._fits(p.inner, e.inputs, found)
        element = self.numbers.get(v)
        if element is None:
            return False
        if kind == "number":
            return same_bits(self.numbers[found.setdefault(p.head, v)], element)
        wanted = literal(p.head, element.dtype)
        return wanted is not None and same_bits(wanted, element)

    def _write(self, p: Pattern, match: Match) -> Var | None:
        if p.inner is None:
            if p.head in match.found:
                return match[p.head]
            element = literal(p.head, match.type.dtype)
            return None if element is None else self.full(element, match.type)
        inner = [self._write(q, match) for q in p.inner]
        known = [v for v in inner if v is not None]
        return self.make(p.head, known, {}) if len(known) == len(inner) else None

    # -- new equations ---------------------------------------------------------------------------------------

    def make(self, name: str, inputs: Sequence[Var], attributes: Mapping[str, Any]) -> Var:
        """One result of a new equation, itself rewritten if a rule fits."""
        e = Equation.of(name, inputs, attributes, self.location)
        found = self._replacement(e)
        if found is not None:
            return found
        self._append(e)
        return e.outputs[0]

    def full(self, element: Element, like: TensorType) -> Var:
        """The element everywhere: a `full`, or a constant where no number spells its bits (NaN's kinds)."""
        attributes = filled(element, like)
        if attributes is not None:
            return self.make("full", (), attributes)
        scalar = self.make("constant", (), {"value": Dense(element)})
        return (
            scalar if not like.shape else self.make("broadcast", (scalar,), {"shape": like.shape, "axes": ()})
        )


def filled(element: Element, like: TensorType) -> dict[str, Any] | None:
    """The attributes of the `full` that has these bits everywhere; None if there is none."""
    number = python_number(element)
    back = table["full"].evaluate(shape=(), dtype=element.dtype, value=number)
    return (
        {"shape": like.shape, "dtype": element.dtype, "value": number} if same_bits(back, element) else None
    )


def python_number(element: Element) -> Any:
    dtype = element.dtype
    if dtype == bool_ or is_complex(dtype):
        return element.item()
    return int(element) if is_integer(dtype) else float(element.astype(np.float64))


_SAME_NUMBER = frozenset({"broadcast", "reshape", "transpose", "slice", "reverse", "stop_gradient"})
_FEW = 64  # elements of a constant that are looked at


def _uniform(e: Equation, numbers: Mapping[Var, Element]) -> Element | None:
    """The element that all of the result's elements are, if that is plain to see."""
    name = e.primitive.name
    if name == "full":
        found = table["full"].evaluate(**{**e.attributes, "shape": ()})
        return np.asarray(found)
    if name in _SAME_NUMBER:
        return numbers.get(e.inputs[0])
    if name == "constant":
        array = e.attributes["value"].array
        if 0 < array.size <= _FEW:
            first = array.reshape(-1)[:1]
            return first.reshape(()) if array.tobytes() == first.tobytes() * array.size else None
    return None


def rewrite(graph: Graph, rules: Rules, counters: Counters) -> Graph:
    """The graph with the rules applied wherever they fit."""
    return on_every_graph(graph, lambda g: Rewriter(g, rules, counters).run())
