"""`fusion`: a part of a graph that a target runs as one kernel.

Made by the compiler's last graph pass; `kind` names who lowers it. Its meaning is its region, so a fused
graph can be interpreted, printed and compared like any other. It is never differentiated or batched: it
exists only after those are done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Absent, Primitive, Value
from trilobite.ir.primitives.call import graph_flops
from trilobite.ir.types import Symbol, TensorType


def _type(*types: TensorType, region: Graph, **_: Any) -> tuple[TensorType, ...]:
    return region.output_types


def _evaluate(
    *values: Value, region: Graph, sizes: Mapping[Symbol, int] | None = None, **_: Any
) -> tuple[Value, ...]:
    return tuple(run(region, values, sizes))


def _cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Any) -> float:
    return graph_flops(attrs["region"])


_WHY = "a fusion is made after derivatives and batching"

fusion = Primitive(
    "fusion",
    "x",
    type=_type,
    evaluate=_evaluate,
    vjp=Absent(_WHY),
    jvp=Absent(_WHY),
    batch=Absent(_WHY),
    cost=_cost,
    multiple=True,
    doc="a part of a graph that a target runs as one kernel; its meaning is its region",
)
