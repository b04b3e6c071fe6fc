"""Operators whose attributes are graphs.

An If whose condition follows from shapes, a Scan and a Loop whose rounds are counted are traced in their
place; all others are steps of their own, which `program/control.py` runs.
"""

from __future__ import annotations

from typing import Any

from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator


@operator("If", subgraphs=True, raw=True, gives="host")
def if_known(node: Node, condition: Any, *outer: Any) -> Any:
    """The branch that a known condition names, recorded like the nodes around it."""
    from trilobite.inference.program.inline import traced

    taken = node.attributes["then_branch" if condition.array.all() else "else_branch"]
    return tuple(traced(taken, dict(zip(node.taken(), outer, strict=True))))


@operator("Scan", subgraphs=True, raw=True)
def scan(node: Node, *operands: Any) -> Any:
    from trilobite.inference.program.inline import scanned

    return tuple(scanned(node, operands))


@operator("Loop", subgraphs=True, raw=True)
def counted_loop(node: Node, *operands: Any) -> Any:
    from trilobite.inference.program.inline import repeated

    return tuple(repeated(node, operands))


@operator("SequenceMap", subgraphs=True)
def own_step(node: Node, *_: Any) -> Any:
    raise AssertionError(f"{node.label()} is a step of its own")
