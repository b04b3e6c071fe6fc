"""`while`: repeat a body as long as a test holds.

Operands: constants of the test, constants of the body, carries; the attribute `consts` says how many of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.dtypes import int32
from trilobite.base.errors import IRError
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Absent, Attributes, Primitive, Value, table
from trilobite.ir.primitives.call import graph_flops
from trilobite.ir.primitives.cond import pick
from trilobite.ir.transforms.batch import Unmapped, lead
from trilobite.ir.transforms.forward import materialise
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.transforms.regions import batch_graph, fixpoint, forward_graph
from trilobite.ir.types import Dim, TensorType, type_of


def _while_type(
    *types: TensorType, test: Graph, body: Graph, consts: tuple[int, int]
) -> tuple[TensorType, ...]:
    carry = types[sum(consts) :]
    if tuple(body.output_types) != tuple(carry) or [str(t) for t in test.output_types] != ["bool[]"]:
        raise IRError(
            f"while: the body turns {list(carry)} into {list(body.output_types)}",
            expected="the same types, and a bool test",
        )
    return tuple(carry)


def _while(*values: Value, test: Graph, body: Graph, consts: tuple[int, int]) -> tuple[Value, ...]:
    a, b = consts
    for_test, for_body, carry = values[:a], values[a : a + b], list(values[a + b :])
    while bool(run(test, [*for_test, *carry])[0]):
        carry = run(body, [*for_body, *carry])
    return tuple(carry)


def _while_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    (a, b), test, body = attrs["consts"], attrs["test"], attrs["body"]
    carry, carry_t = primals[a + b :], tangents[a + b :]
    const_active = [t is not None for t in tangents[a : a + b]]
    active = fixpoint(
        [t is not None for t in carry_t], lambda now: forward_graph(body, [*const_active, *now])[1]
    )
    derived, out_active = forward_graph(body, [*const_active, *active])
    n, extra = len(carry), sum(active)

    def new_body(*values: Value) -> list[Value]:
        consts, const_t = values[:b], values[b : b + sum(const_active)]
        x, t = values[b + sum(const_active) :][:n], values[b + sum(const_active) + n :]
        outs = run(derived, [*consts, *x, *const_t, *t])
        rest = iter(outs[n:])
        found = [next(rest) if a_ else None for a_ in out_active]
        return outs[:n] + [materialise(f, o) for f, o, w in zip(found, outs[:n], active, strict=True) if w]

    def new_test(*values: Value) -> list[Value]:
        return run(test, values[: a + n])

    const_ts = [t for t in tangents[a : a + b] if t is not None]
    carry_ts = [materialise(t, c) for t, c, w in zip(carry_t, carry, active, strict=True) if w]
    consts_now = [*primals[a : a + b], *const_ts]
    state = [*carry, *carry_ts]
    types = [type_of(v) for v in (*consts_now, *state)]
    step = record_graph(new_body, types, body.name)
    check = record_graph(new_test, [type_of(v) for v in (*primals[:a], *state)], test.name)
    outs = while_(*primals[:a], *consts_now, *state, test=check, body=step, consts=(a, len(consts_now)))
    rest = iter(outs[n : n + extra])
    return tuple(outs[:n]), tuple(next(rest) if w else None for w in active)


def _while_batch(
    size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes
) -> tuple[Any, ...]:
    (a, b), test, body = attrs["consts"], attrs["test"], attrs["body"]
    m_test, m_body = list(mapped[:a]), list(mapped[a : a + b])
    carry_mapped = fixpoint(mapped[a + b :], lambda now: batch_graph(body, size, [*m_body, *now])[1])
    varies = batch_graph(test, size, [*m_test, *carry_mapped])[1][0]
    if varies:
        carry_mapped = [True] * len(carry_mapped)
    carry = [
        v if m or not w else lead(v, size)
        for v, m, w in zip(values[a + b :], mapped[a + b :], carry_mapped, strict=True)
    ]
    new_test, _ = batch_graph(test, size, [*m_test, *carry_mapped])
    new_body, _ = batch_graph(body, size, [*m_body, *carry_mapped], carry_mapped)
    consts = list(values[: a + b])
    if not varies:
        outs = while_(*consts, *carry, test=new_test, body=new_body, consts=(a, b))
        return tuple(o if m else Unmapped(o) for o, m in zip(outs, carry_mapped, strict=True))
    return _while_until_all_done(consts, carry, new_test, new_body, a)


def _while_until_all_done(
    consts: list[Value], carry: list[Value], test: Graph, body: Graph, a: int
) -> tuple[Any, ...]:
    """Elements that are done keep their value while the others go on."""
    n_consts = len(consts)

    def any_left(*values: Value) -> list[Value]:
        (left,) = run(test, [*values[:a], *values[n_consts:]])
        number = table["reduce_max"](table["cast"](left, dtype=int32), axes=(0,))
        return [table["gt"](number, table["full"](shape=(), dtype=int32, value=0))]

    def masked(*values: Value) -> list[Value]:
        old = values[n_consts:]
        (left,) = run(test, [*values[:a], *old])
        new = run(body, [*values[a:n_consts], *old])
        return [pick(left, x, y) for x, y in zip(new, old, strict=True)]

    types = [type_of(v) for v in (*consts, *carry)]
    checked, step = record_graph(any_left, types, test.name), record_graph(masked, types, body.name)
    # Both regions see all constants, so each gets a copy of them.
    out: tuple[Any, ...] = while_(
        *consts, *consts, *carry, test=checked, body=step, consts=(n_consts, n_consts)
    )
    return out


while_ = Primitive(
    "while",
    "x",
    type=_while_type,
    evaluate=_while,
    whole_jvp=_while_jvp,
    batch=_while_batch,
    vjp=Absent(
        "the number of steps is not known in advance, so reverse mode cannot keep them; use scan or fori_loop"
    ),
    cost=lambda i, o, attrs: graph_flops(attrs["body"]),
    multiple=True,
    doc="repeat the body as long as the test holds",
)
