"""A small graph as rows of NumPy's inner loops, which machine code runs in one call.

Enters: the equations of a `Part` (`calls.py`) and what is known of them ahead. Leaves: a `Run` with the bits
of NumPy's calls, or None where an equation has no such loop. Arrays that are not row-major or aligned take
the way through NumPy, which `otherwise` is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.framework.own_memory import own
from trilobite.framework.replay import loop_rules, place_rules, window_rules
from trilobite.framework.replay.block_rules import noted
from trilobite.framework.replay.loop_rows import NoLoop, Rows, Seen
from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitives.common import OWN
from trilobite.native.ownership import is_locked
from trilobite.native.ufunc_loops import Table

Array = np.ndarray[Any, Any]
Run = Callable[[list[Array]], Sequence[Array]]
RULES: dict[str, Any] = {**loop_rules.RULES, **place_rules.RULES, **window_rules.RULES}
_BY_MEMORY = frozenset({"reduce_max", "reduce_min", "pow", "atan2"})
"""Whose bits depend on how operands lie: which of 0 and -0 comes first, whether an exponent stands still."""
_MOST_ROWS = 512  # beyond, the loops themselves take longer than the way into NumPy


def in_loops(
    inputs: Sequence[Var], equations: Sequence[Equation], known: dict[Var, Array], results: Sequence[Var],
    otherwise: Run,
) -> Run | None:  # fmt: skip
    """The equations as one call of machine code, if all of them have loops."""
    types = [v.type for v in (*inputs, *results, *(v for e in equations for v in e.outputs))]
    if not is_locked() or any(t.dtype.num >= OWN or not _solid(t.shape) for t in types):
        return None
    made = [v for v in dict.fromkeys(results) if v not in inputs and v not in known]
    try:
        table = _table(Rows(inputs, made, known), equations)
    except NoLoop:
        return None
    copies = not any(e.primitive.name in _BY_MEMORY for e in equations)
    return _run(table, inputs, made, known, results, otherwise, copies)


def _solid(shape: tuple[Any, ...]) -> bool:
    return all(type(d) is int and d > 0 for d in shape)


def _row_major(arrays: list[Array]) -> list[Array]:
    return [a if a.flags.carray else a.copy("C") for a in arrays]


def _run(
    table: Table, inputs: Sequence[Var], made: Sequence[Var], known: dict[Var, Array], results: Sequence[Var],
    otherwise: Run, copies: bool,
) -> Run:  # fmt: skip
    """`copies`: arrays that are not row-major may be copied, and what comes of them is the same."""
    empty, walk, alive = np.empty, table.walk, table
    rooms = [(v.type.shape, v.type.dtype) for v in made]
    if len(rooms) == 1 and len(results) == 1:
        ((shape, dtype),) = rooms

        def one(arrays: list[Array]) -> Sequence[Array]:
            outs = [empty(shape, dtype)]
            if walk(arrays, outs) and not (copies and walk(_row_major(arrays), outs) == 0):
                return [own(otherwise(arrays)[0], arrays)]
            return outs

        vars(one).update(alive=alive, fresh=1)
        return one
    found = [_found(v, inputs, made, known) for v in results]
    order = None if found == [(i, None) for i in range(len(made))] else found
    fresh = _fresh(found)

    def run(arrays: list[Array]) -> Sequence[Array]:
        outs = [empty(shape, dtype) for shape, dtype in rooms]
        if walk(arrays, outs) and not (copies and walk(_row_major(arrays), outs) == 0):
            return [own(x, arrays) if i < fresh else x for i, x in enumerate(otherwise(arrays))]
        if order is None:
            return outs
        return [outs[i] if of is None else of if i < 0 else arrays[i] for i, of in order]

    vars(run).update(alive=alive, fresh=fresh)
    return run


def _fresh(found: Sequence[tuple[int, Any]]) -> int:
    """How many of the first results are arrays of their own: no operand, no constant, nothing twice."""
    seen: set[int] = set()
    for i, of in found:
        if of is not None or i in seen:
            break
        seen.add(i)
    return len(seen)


def _found(v: Var, inputs: Sequence[Var], made: Sequence[Var], known: dict[Var, Array]) -> tuple[int, Any]:
    """Where a result is: a filled array, a constant (-1 and itself), or an operand."""
    if v in known:
        return -1, known[v]
    return (made.index(v), None) if v in made else (list(inputs).index(v), True)


def _table(rows: Rows, equations: Sequence[Equation]) -> Table:
    for e in equations:
        found = _value(rows, e)
        for out, value in zip(e.outputs, (found,) if isinstance(found, Seen) else found, strict=True):
            rows.seen[out] = rows.placed(out, value)
        if len(rows.rows) > _MOST_ROWS:
            raise NoLoop
    return Table(rows.rows, rows.inputs, len(rows.made), rows.fixed)


def _value(rows: Rows, e: Equation) -> Seen | tuple[Seen, ...]:
    xs = [rows.seen[v] for v in e.inputs]
    own = RULES.get(e.primitive.name)
    if own is not None:
        return own(rows, xs, e)  # type: ignore[no-any-return]
    rule: Any = e.primitive.evaluate
    rule = getattr(rule, "plain", rule)
    if hasattr(rule, "block"):
        return noted(rows, xs, e, rule.block)
    rule = getattr(rule, "for_numpys_dtypes", rule)
    if not isinstance(rule, np.ufunc) or e.attributes or e.primitive.eager is not None:
        raise NoLoop
    return rows.ufunc(rule, xs, e.outputs[0])
