"""The table of ONNX operators: one row per operator and version that changed its meaning.

A row's function takes the node and its operands and gives the results. Operands at the places in `known`
come as NumPy arrays, because they decide shapes (axes, sizes, paddings); all others come as tensors, traced
or not; a missing optional operand is None. Functions of `host` rows see Python values (strings, lists,
arrays) and run outside of compiled graphs. Nothing here knows how a graph is cut into steps.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from trilobite.base.records import dataclass

Function = Callable[..., Any]
Limit = Callable[[Any], str]


@dataclass(frozen=True)
class Row:
    """One operator from one version on."""

    op: str
    since: int
    function: Function
    domain: str = ""
    known: frozenset[int] = frozenset()
    host: bool = False
    pure: bool = True  # equal operands give equal results: not so for random numbers
    makes: bool = False  # the result may be much larger than the operands
    subgraphs: bool = False  # a step of its own, with programs for its bodies
    raw: bool = False  # operands come as the program has them: known ones stay known
    gives: str = "same"  # numbers: tensors whatever it reads; host: never tensors; same: as its operands
    limit: Limit | None = None  # what a node asks for that the function does not do

    def takes(self, count: int) -> bool:
        """May a node of this operator have so many operands?"""
        kinds = inspect.signature(self.function).parameters.values()
        named = [p for p in kinds if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD][1:]
        least = sum(p.default is inspect.Parameter.empty for p in named)
        any_more = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in kinds)
        return least <= count and (any_more or count <= len(named))

    def beyond(self, node: Any) -> str:
        """What the node asks for that the row does not do; nothing if all of it."""
        if not self.takes(len(node.inputs)):
            return f"{len(node.inputs)} operands"
        return self.limit(node) if self.limit else ""


def only(*absent: int, **values: Any) -> Limit:
    """A limit: no operands at these places, and no other values of attributes than these."""

    def limit(node: Any) -> str:
        place = next((i for i in absent if i < len(node.inputs) and node.inputs[i]), None)
        if place is not None:
            return f"an operand at place {place}"
        found = ((k, node.attribute(k, v)) for k, v in values.items() if node.attribute(k, v) != v)
        return next((f"{name} = {value!r}" for name, value in found), "")

    return limit


rows: dict[tuple[str, str], list[Row]] = {}
"""(domain, operator) -> rows, oldest first."""
later: dict[str, Callable[[], None]] = {}
"""Domains whose rows are entered when the first of them is looked for."""


def operator(
    *names: str,
    since: int = 1,
    domain: str = "",
    known: tuple[int, ...] = (),
    host: bool = False,
    pure: bool = True,
    makes: bool = False,
    subgraphs: bool = False,
    raw: bool = False,
    gives: str = "",
    limit: Limit | None = None,
) -> Callable[[Function], Function]:
    """Enter a function into the table under one or more operator names."""

    def enter(function: Function) -> Function:
        for name in names:
            kind = gives or ("host" if host or subgraphs else "same")
            row = Row(
                name,
                since,
                function,
                domain,
                frozenset(known),
                host,
                pure,
                makes,
                subgraphs,
                raw,
                kind,
                limit,
            )
            family = rows.setdefault((domain, name), [])
            family.append(row)
            family.sort(key=lambda r: r.since)
        return function

    return enter


def find(domain: str, op: str, version: int) -> Row | None:
    """The newest row that is not newer than the model's operator set."""
    if domain in later:
        later[domain]()
        later.pop(domain, None)  # behind it: another thread that finds it gone finds the rows
    fitting = [r for r in rows.get((domain, op), ()) if r.since <= version]
    return fitting[-1] if fitting else None


_LOOPS = "a loop around its bodies: run the decoder alone, one token at a time"
_WAYS_OUT = {
    ("com.microsoft.nchwc", ""): "weights in the order of one processor: save the model at a lower level of "
    "optimisation",
    ("com.microsoft", "EPContext"): "compiled code of an accelerator: take the model that it was made of",
    **{
        ("com.microsoft", name): _LOOPS
        for name in ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")
    },
}


def way_out(domain: str, op: str) -> str:
    """What to do about an operator that cannot be supported, if anything is known to help."""
    found = _WAYS_OUT.get((domain, op)) or _WAYS_OUT.get((domain, ""))
    return f" ({found})" if found else ""
