"""What attention is asked for: sizes, mask and options, read from a call of the composite.

Enters: a `call` equation named `attention`, `attention.fwd` or `attention.bwd`. Leaves: a `Problem`, or the
reason why the kernels here do not run it; then the composite's body is compiled like any other code.
"""

from __future__ import annotations

import math
from typing import Literal

from trilobite.base.dtypes import bool_, float32, float64
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.gemm.tiling import Plan, plan_of
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
    mask: TensorType | None  # repeated along queries: one row of keys per leading index
    mask_repeats: int  # query heads that share a row of the mask

    @property
    def dtype(self) -> object:
        return self.plan.accumulator


def problem_of(e: Equation, host: Host) -> Problem:
    name = e.attributes["name"]
    if name not in HALVES or "options" not in e.attributes:
        raise Refused(f"{name} is not attention")
    options = dict(e.attributes["options"])
    q, k, v = (x.type for x in e.inputs[:3])
    plan = _tiling(q, k, v, host)
    if options["p"]:
        raise Refused("weights are dropped at random")
    heads, group = _heads(q, k, v)
    features, value_features = q.shape[-1], v.shape[-1]
    if not isinstance(features, int) or not isinstance(value_features, int):
        raise Refused("features of symbolic size")
    if features % plan.columns or value_features % plan.columns or not features or not value_features:
        raise Refused(f"features are no multiples of {plan.columns}")
    if not isinstance(q.shape[-2], int) or q.shape[-2] < _FEW:
        raise Refused(f"fewer than {_FEW} queries, or a symbolic number of them")
    mask = e.inputs[3].type if options["masked"] else None
    repeats = 1 if mask is None else _mask_repeats(mask, q, k)
    if mask is not None and mask.dtype != bool_ and HALVES[name] == "backward":
        raise Refused("the mask has a slope")
    return Problem(
        HALVES[name], plan, heads, group, q.shape[-2], k.shape[-2], features, value_features,
        float(options["scale"]), bool(options["causal"]), mask, repeats,
    )  # fmt: skip


def _tiling(q: TensorType, k: TensorType, v: TensorType, host: Host) -> Plan:
    if q.dtype not in (float32, float64) or k.dtype != q.dtype or v.dtype != q.dtype:
        raise Refused(f"attention of {q.dtype}")
    return plan_of(host, q.dtype)


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


def _mask_repeats(mask: TensorType, q: TensorType, k: TensorType) -> int:
    """How many query heads read one row of the mask: it may repeat along trailing leading axes only."""
    if mask.ndim < 2 or mask.shape[-2] != 1 or mask.shape[-1] != k.shape[-2]:
        raise Refused("the mask differs from query to query")
    if mask.dtype != bool_ and mask.dtype != q.dtype:
        raise Refused(f"a mask of {mask.dtype}")
    lead = q.shape[:-2]
    own = (1,) * (len(lead) - (mask.ndim - 2)) + mask.shape[:-2]
    if any(isinstance(d, Affine) for d in (*lead, *own)) and any(d != 1 for d in own):
        raise Refused("a mask with symbolic leading axes")
    kept = len(own)
    while kept and own[kept - 1] == 1:
        kept -= 1
    if own[:kept] != lead[:kept]:
        raise Refused("the mask repeats in the middle")
    if kept == 0:
        return 0
    return math.prod(d for d in lead[kept:] if isinstance(d, int))
