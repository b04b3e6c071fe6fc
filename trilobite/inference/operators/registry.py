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

    def takes(self, count: int) -> bool:
        """May a node of this operator have so many operands?"""
        kinds = inspect.signature(self.function).parameters.values()
        named = [p for p in kinds if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD][1:]
        least = sum(p.default is inspect.Parameter.empty for p in named)
        any_more = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in kinds)
        return least <= count and (any_more or count <= len(named))


rows: dict[tuple[str, str], list[Row]] = {}
"""(domain, operator) -> rows, oldest first."""


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
) -> Callable[[Function], Function]:
    """Enter a function into the table under one or more operator names."""

    def enter(function: Function) -> Function:
        for name in names:
            kind = gives or ("host" if host or subgraphs else "same")
            row = Row(
                name, since, function, domain, frozenset(known), host, pure, makes, subgraphs, raw, kind
            )
            family = rows.setdefault((domain, name), [])
            family.append(row)
            family.sort(key=lambda r: r.since)
        return function

    return enter


def find(domain: str, op: str, version: int) -> Row | None:
    """The newest row that is not newer than the model's operator set."""
    fitting = [r for r in rows.get((domain, op), ()) if r.since <= version]
    return fitting[-1] if fitting else None
