"""Column sums several rows at a time: fewer trips of each accumulator to memory and back.

Enters and leaves: a nest. A loop over rows around a loop along them whose results are all combined into the
same places becomes one that takes `ROWS` rows per iteration, joined pairwise first, and what remains row
by row.
"""

from __future__ import annotations

from dataclasses import replace

from trilobite.compiler.targets.cpu.loops.index import Index, variable
from trilobite.compiler.targets.cpu.loops.ir import (
    Loop,
    Nest,
    Node,
    Statement,
    Target,
    rewritten,
    substituted,
)
from trilobite.compiler.targets.cpu.loops.transform import extent_of
from trilobite.compiler.targets.cpu.nests.scalars import Scalars
from trilobite.ir.graph import Var
from trilobite.ir.primitive import table

ROWS = 4
LARGEST = 24  # equations of a body that is written out several times


def jammed(nest: Nest) -> Nest:
    return replace(nest, body=rewritten(nest.body, _change))


def _change(node: Node) -> tuple[Node, ...]:
    if not isinstance(node, Loop) or node.kind != "serial" or len(node.body) != 1:
        return (node,)
    inner, n = node.body[0], extent_of(node)
    if not isinstance(inner, Loop) or len(inner.body) != 1 or not isinstance(n, int) or n < 2 * ROWS:
        return (node,)
    s = inner.body[0]
    if not isinstance(s, Statement) or len(s.body.equations) > LARGEST or not _sums(s, node.var):
        return (node,)
    if any(node.var in e.variables for e in inner.extent):
        return (node,)
    whole = n // ROWS
    out: list[Node] = [Loop(node.var, (Index(whole),), (replace(inner, body=(_joined(s, node.var),)),))]
    if n % ROWS:
        rest = f"{node.var}_r"
        place = {node.var: variable(rest) + whole * ROWS, inner.var: variable(f"{inner.var}_r")}
        body = substituted(inner.body, place)
        out.append(Loop(rest, (Index(n % ROWS),), (replace(inner, var=f"{inner.var}_r", body=body),)))
    return tuple(out)


def _sums(s: Statement, var: str) -> bool:
    """Is everything combined, into places that do not move with the rows?"""
    return all(t.combine is not None and all(var not in i.variables for i in t.index) for t in s.targets)


def _joined(s: Statement, var: str) -> Statement:
    """One statement for several rows."""
    scalars = Scalars()
    rows = [_copied(s.substituted({var: variable(var) * ROWS + k}), scalars) for k in range(ROWS)]
    results = [_pairwise(scalars, [row[j] for row in rows], t) for j, t in enumerate(s.targets)]
    return scalars.statement(results, s.targets)


def _copied(s: Statement, scalars: Scalars) -> list[Var]:
    env: dict[Var, Var] = {}
    for leaf, v in zip(s.leaves, s.body.inputs, strict=True):
        env[v] = scalars.leaf(leaf, v.type.dtype)
    for e in s.body.equations:
        out = e.outputs[0]
        env[out] = scalars.apply(e.primitive, [env[v] for v in e.inputs], out.type.dtype, e.attributes)
    return [env[v] for v in s.body.outputs]


def _pairwise(scalars: Scalars, values: list[Var], t: Target) -> Var:
    while len(values) > 1:
        values = [
            scalars.apply(table[str(t.combine)], (a, b), a.type.dtype, {})
            for a, b in zip(values[::2], values[1::2], strict=True)
        ]
    return values[0]
