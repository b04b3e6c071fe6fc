"""A nest in isl's text: which iterations a statement has, what they touch, and when they run.

Enters: a nest. Leaves: constraints over `v0, v1, ...`, the loops around a statement from the outside, and
sets and relations made of them. Bounds and places that are not affine (loaded integers, products of
symbolic sizes) say nothing: a set may then have more iterations than really run, never fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from trilobite.base.errors import IRError
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.loops.index import Index, Indirect, Quotient
from trilobite.compiler.targets.cpu.loops.ir import Loop, Micro, Nest, Node, Statement

Names = Mapping[str, str]  # loop variable -> isl's name for it


def installed() -> bool:
    """Can sets be computed with?"""
    return find_spec("islpy") is not None


def islpy() -> Any:
    """The package, imported when first needed."""
    if not installed():
        raise IRError(
            "the order of iterations cannot be changed as a whole: islpy is not installed",
            expected="the extra `polyhedral`",
            remedy="pip install 'trilobite[polyhedral]', or use split, skew and reorder",
        )
    import islpy as package

    return package


def parts(items: Any) -> list[Any]:
    """One of isl's lists."""
    return [items.get_at(k) for k in range(len(items))]


@dataclass(frozen=True)
class Placed:
    """A statement, the loops around it from the outside, and where each of these stands in the text."""

    statement: Statement
    loops: tuple[Loop, ...]
    places: tuple[int, ...]

    def names(self, letter: str = "v") -> dict[str, str]:
        return {each.var: f"{letter}{k}" for k, each in enumerate(self.loops)}

    def iterations(self, names: Names) -> list[str]:
        """What holds for the loops' variables where the statement runs."""
        out: list[str] = []
        for each in self.loops:
            var = names[each.var]
            out.append(f"{var} >= 0")
            out += [f"{var} >= {t}" for t in _known(each.start, names)]
            out += [f"{var} < {t}" for t in _known(each.extent, names)]
        return out


def placed(nest: Nest) -> list[Placed]:
    """Every statement in order of the text, as `dependence.accesses` numbers them."""
    return list(_placed(nest.body, (), ()))


def _placed(nodes: tuple[Node, ...], around: tuple[Loop, ...], places: tuple[int, ...]) -> Iterator[Placed]:
    for k, node in enumerate(nodes):
        if isinstance(node, Loop):
            yield from _placed(node.body, (*around, node), (*places, k))
        elif isinstance(node, Micro):
            yield from _placed(node.meaning, around, places)
        else:
            yield Placed(node, around, (*places, k))


def affine(index: Index, names: Names) -> str | None:
    """isl's text of an index; None where it is not affine in the loops with fixed numbers."""
    if not isinstance(index.constant, int):
        return None
    parts = [str(index.constant)]
    for atom, c in index.terms:
        if not isinstance(c, int) or isinstance(atom, Indirect):
            return None
        if isinstance(atom, str):
            parts.append(f"{c}*{names[atom]}")
            continue
        inner = affine(atom.index, names)
        if inner is None or not isinstance(atom.by, int):
            return None
        whole = f"floor(({inner})/{atom.by})"
        parts.append(f"{c}*{whole}" if isinstance(atom, Quotient) else f"{c}*({inner} - {atom.by}*{whole})")
    return " + ".join(parts)


def _known(indices: Sequence[Index], names: Names) -> Iterator[str]:
    return (t for t in (affine(i, names) for i in indices) if t is not None)


def is_affine(nest: Nest) -> bool:
    """Are the iterations of all loops known exactly?"""
    return all(
        affine(i, p.names()) is not None
        for p in placed(nest)
        for each in p.loops
        for i in (*each.start, *each.extent)
    )
