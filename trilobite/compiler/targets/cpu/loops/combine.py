"""What a reduction does with two partial results: the scalar graph of its primitive, and where it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, accumulator, bool_, is_unsigned
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives.common import integer_range
from trilobite.ir.primitives.reduction import highest, lowest
from trilobite.ir.types import TensorType


@lru_cache(maxsize=256)
def scalar_graph(primitive: str, dtype: DType, number: int = 2) -> Graph:
    """One elementwise primitive over scalars of a dtype."""
    return _graph_of(primitive, [dtype] * number, {})


@lru_cache(maxsize=256)
def cast_graph(source: DType, dtype: DType) -> Graph:
    return _graph_of("cast", [source], {"dtype": dtype})


def _graph_of(primitive: str, dtypes: Sequence[DType], attributes: Mapping[str, Any]) -> Graph:
    e = Equation.of(primitive, [Var(TensorType((), dtype)) for dtype in dtypes], attributes)
    return Graph(e.inputs, [e], e.outputs, primitive)


def identity(combine: str, dtype: DType) -> int | float | bool:
    """What changes nothing when it is combined with a number."""
    if combine in ("maximum", "minimum"):
        edge = np.asarray(lowest(dtype) if combine == "maximum" else highest(dtype))
        return edge.item() if dtype == bool_ or dtype.kind in "iu" else float(edge.astype(np.float64))
    if combine == "and":
        return True if dtype == bool_ else integer_range(dtype)[1] if is_unsigned(dtype) else -1
    return {"add": 0, "mul": 1, "or": 0}[combine]


def accumulates_in(combine: str, dtype: DType) -> DType:
    """Sums and products of small floats run in float32; extremes and bits need nothing wider."""
    return accumulator(dtype) if combine in ("add", "mul") else dtype
