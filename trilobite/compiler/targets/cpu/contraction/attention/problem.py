"""What attention is asked for: sizes, mask and options, read from a call of the composite.

Enters: a `call` equation named `attention`, `attention.fwd` or `attention.bwd`. Leaves: a `Problem`, or the
reason why the kernels here do not run it; then the composite's body is compiled like any other code.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from trilobite.base.dtypes import bool_, float32, float64
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.gemm.tiling import Plan, plan_for, plan_of
from trilobite.ir.graph import Equation
from trilobite.ir.types import Affine, Dim, TensorType
from trilobite.native.host import Host

HALVES: dict[str, Literal["whole", "forward", "backward"]] = {
    "attention": "whole",
    "attention.fwd": "forward",
    "attention.bwd": "backward",
}
_FEW = 4  # queries; below, most lanes of a block of queries would be idle


class Refused(Exception):
    """Why a call is not for these kernels."""


@dataclass(frozen=True)
class Spread:
    """Which part of a mask belongs to a head: number `head // repeats % period`. With a period of 1 there is
    one part for all; a part is one row of keys, or one for each query.
    """

    repeats: int = 1
    period: int | None = 1  # None: as many as there are heads
    by_query: bool = False


@dataclass(frozen=True)
class Problem:
    """Heads are the leading axes taken together; several query heads may share one key head."""

    half: Literal["whole", "forward", "backward"]
    plan: Plan
    heads: Dim  # of queries, all leading axes together
    group: int  # query heads per key head
    queries: Dim
    keys: Dim
    features: int
    value_features: int
    scale: float
    causal: bool
    mask: TensorType | None
    spread: Spread

    @property
    def dtype(self) -> object:
        return self.plan.accumulator

    @property
    def form(self) -> Problem:
        """All that decides a kernel's text: sizes are words of the kernel."""
        mask = None if self.mask is None else TensorType((), self.mask.dtype)
        spread = Spread(1, 1 if self.spread.period == 1 else None, self.spread.by_query)
        return replace(self, heads=1, queries=1, keys=1, mask=mask, spread=spread)

    @property
    def words(self) -> tuple[Dim, ...]:
        """Queries, keys, and which part of the mask a head has: number `head // repeats % period`."""
        period = self.heads if self.spread.period is None else self.spread.period
        return self.queries, self.keys, self.spread.repeats, period


def problem_of(e: Equation, host: Host) -> Problem:
    name = e.attributes["name"]
    if name not in HALVES or "options" not in e.attributes:
        raise Refused(f"{name} is not attention")
    options, half = dict(e.attributes["options"]), HALVES[name]
    q, k, v = (x.type for x in e.inputs[:3])
    plan = _tiling(q, k, v, half, host)
    if options["p"]:
        raise Refused("weights are dropped at random")
    heads, group = _heads(q, k, v)
    features, value_features = q.shape[-1], v.shape[-1]
    if not isinstance(features, int) or not isinstance(value_features, int):
        raise Refused("features of symbolic size")
    if not features or not value_features:
        raise Refused("no features")
    if half == "backward" and (features % plan.columns or value_features % plan.columns):
        raise Refused(f"features are no multiples of {plan.columns}")
    if not isinstance(q.shape[-2], int) or q.shape[-2] < _FEW:
        raise Refused(f"fewer than {_FEW} queries, or a symbolic number of them")
    mask = e.inputs[3].type if options["masked"] else None
    spread = Spread() if mask is None else _spread(mask, q, k)
    if mask is not None and half == "backward":
        _check_backward(mask, spread)
    return Problem(
        half, plan, heads, group, q.shape[-2], k.shape[-2], features, value_features,
        float(options["scale"]), bool(options["causal"]), mask, spread,
    )  # fmt: skip


def _tiling(q: TensorType, k: TensorType, v: TensorType, half: str, host: Host) -> Plan:
    """Forward, a query has a lane of its own, so its sums have the same bits in vectors of any width."""
    if q.dtype not in (float32, float64) or k.dtype != q.dtype or v.dtype != q.dtype:
        raise Refused(f"attention of {q.dtype}")
    queries = q.shape[-2] if q.ndim > 1 else None
    if half == "backward" or not isinstance(queries, int):
        return plan_of(host, q.dtype)
    return plan_for(host, q.dtype, queries)


def _heads(q: TensorType, k: TensorType, v: TensorType) -> tuple[Dim, int]:
    if q.ndim < 3 or q.shape[:-3] != k.shape[:-3] or k.shape[:-2] != v.shape[:-2]:
        raise Refused("queries and keys have other leading axes")
    many, few = q.shape[-3], k.shape[-3]
    if many == few:
        group = 1
    elif isinstance(many, int) and isinstance(few, int) and few and many % few == 0:
        group = many // few
    else:
        raise Refused("query heads do not share key heads evenly")
    heads: Dim = 1
    for d in q.shape[:-2]:
        if isinstance(heads, Affine) and isinstance(d, Affine):
            raise Refused("two symbolic leading axes")
        heads = heads * d
    return heads, group


def _spread(mask: TensorType, q: TensorType, k: TensorType) -> Spread:
    """A mask may repeat along the first of the leading axes, and along the last."""
    if mask.ndim < 2 or mask.shape[-2] not in (1, q.shape[-2]) or mask.shape[-1] != k.shape[-2]:
        raise Refused("the mask repeats along the keys")
    if mask.dtype != bool_ and mask.dtype != q.dtype:
        raise Refused(f"a mask of {mask.dtype}")
    by_query = mask.shape[-2] != 1
    lead = q.shape[:-2]
    own = (1,) * (len(lead) - (mask.ndim - 2)) + mask.shape[:-2]
    first, behind = 0, len(own)
    while behind and own[behind - 1] == 1:
        behind -= 1
    while first < behind and own[first] == 1:
        first += 1
    if own[first:behind] != lead[first:behind]:
        raise Refused("the mask repeats in the middle")
    if first == behind:
        return Spread(by_query=by_query)
    sizes = [d for d in lead[first:] if isinstance(d, int)]
    if len(sizes) < len(lead) - first:
        raise Refused("a mask with symbolic leading axes")
    whole = all(d == 1 for d in lead[:first])
    period = None if whole else math.prod(sizes[: behind - first])
    return Spread(math.prod(sizes[behind - first :]), period, by_query)


def _check_backward(mask: TensorType, spread: Spread) -> None:
    if mask.dtype != bool_:
        raise Refused("the mask has a slope")
    if spread.by_query:
        raise Refused("the mask differs from query to query")
