"""Which rank this is, what one rank sends to another, and waiting for all: `index`, `send`, `receive`,
`barrier`.

A token, a number that says nothing, stands for what has no value: a send gives one, a receive takes one. So
that tapes find them, what comes back to a send is received where it was sent to, in reverse order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, float32, int64
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.ir import ranks
from trilobite.ir.primitive import Absent, Attributes, Primitive, Value, table
from trilobite.ir.primitives.cluster import batched, by_all, check_groups
from trilobite.ir.primitives.common import free
from trilobite.ir.ranks import Array, Groups
from trilobite.ir.types import Dim, TensorType

TOKEN = TensorType((), float32)


def _index_type(groups: Groups) -> TensorType:
    check_groups("cluster_index", groups)
    return TensorType((), int64)


index: Primitive = Primitive(
    "cluster_index", "", type=_index_type,
    evaluate=lambda groups: np.asarray(ranks.position(groups), np.int64), jvp=(), vjp=(),
    batch=Absent("it has no operands, so there is nothing to map over"), cost=free, effect=True,
    doc="which member of its group this rank is",
)  # fmt: skip


def _check_token(name: str, token: TensorType) -> None:
    if token != TOKEN:
        raise ShapeError(
            f"{name} after {token}", where=user_location(), expected=f"a token: a number of type {TOKEN}"
        )


def _nothing() -> Value:
    return table["full"](shape=(), dtype=float32, value=0.0)


def _send(x: Array, to: int, tag: int) -> Array:
    ranks.transport().send(x, to, tag, user_location())
    return np.zeros((), np.float32)


def _send_jvp(t: Value, *, to: int, tag: int) -> Value:
    return send(t, to=to, tag=tag)


def _send_vjp(t: Value, x_type: TensorType, *, to: int, tag: int) -> Value:
    return receive(t, shape=x_type.shape, dtype=x_type.dtype, source=to, tag=tag)


def _other(name: str, rank: int) -> None:
    if rank < 0:
        raise ArgumentError(f"{name} rank {rank}", where=user_location(), expected="a rank: 0 or more")


def _send_type(x: TensorType, to: int, tag: int) -> TensorType:
    _other("cluster_send to", to)
    return TOKEN


send: Primitive = Primitive(
    "cluster_send", "x", type=_send_type, evaluate=_send, jvp=(_send_jvp,), vjp=(_send_vjp,),
    batch=batched("cluster_send"), cost=free, effect=True,
    doc="x for the rank `to`, who receives it; gives a token, whose derivative is received from there",
)  # fmt: skip


def _receive_type(token: TensorType, shape: Any, dtype: DType, source: int, tag: int) -> TensorType:
    _check_token("cluster_receive", token)
    _other("cluster_receive from", source)
    return TensorType(tuple(shape), dtype)


def _receive(token: Array, shape: Any, dtype: DType, source: int, tag: int) -> Array:
    return ranks.transport().receive(TensorType(tuple(shape), dtype), source, tag, user_location())


def _receive_jvp(t: Value, *, shape: Any, dtype: DType, source: int, tag: int) -> Value:
    return receive(_nothing(), shape=shape, dtype=dtype, source=source, tag=tag)


def _receive_vjp(t: Value, *, source: int, tag: int) -> Value:
    return send(t, to=source, tag=tag)


receive: Primitive = Primitive(
    "cluster_receive", "token", type=_receive_type, evaluate=_receive, jvp=(_receive_jvp,),
    vjp=(_receive_vjp,), cost=free, effect=True,
    batch=Absent("what is received has the type that its attributes say, with or without a batch"),
    doc="what the rank `source` sends; the token says after what",
)  # fmt: skip


def _barrier_type(token: TensorType, groups: Groups, about: str = "") -> TensorType:
    check_groups("cluster_barrier", groups)
    _check_token("cluster_barrier", token)
    return TOKEN


def _barrier_batch(
    size: Dim, values: Sequence[Value], mapped: Sequence[bool], attributes: Attributes
) -> Value:
    return table["add"](values[0], table["broadcast"](
        barrier(_nothing(), **attributes), shape=values[0].shape, axes=()))  # fmt: skip


barrier: Primitive = Primitive(
    "cluster_barrier", "token", type=_barrier_type,
    evaluate=by_all("cluster_barrier", lambda arrays, attributes: [x.copy() for x in arrays]),
    jvp=(lambda t: t,), vjp=(lambda t: t,), batch=_barrier_batch, cost=free, effect=True,
    doc="the token, once all members are there and mean the same (`about`)",
)  # fmt: skip
