"""What a primitive is to fusion: injective (each element from few, known elements), reduction, or opaque."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from trilobite.base.dtypes import DType
from trilobite.compiler.targets.cpu.emit.scalar import supports
from trilobite.compiler.targets.cpu.nests.movement import RULES
from trilobite.compiler.targets.cpu.nests.reader import ELEMENTWISE
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import Primitive

Class = Literal["injective", "reduction", "opaque"]

COMBINE = {
    "reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "maximum", "reduce_min": "minimum",
    "reduce_and": "and", "reduce_or": "or",
}  # fmt: skip
ARGUMENTS = {"argmax": ("maximum", "reduce_max"), "argmin": ("minimum", "reduce_min")}
REDUCTIONS = frozenset((*COMBINE, *ARGUMENTS))
RENEWALS = frozenset({"update_slice", "dynamic_update_slice"})
INJECTIVE = ELEMENTWISE | RULES.keys() | {"constant", "iota", "full"}
SCATTERS = frozenset({"scatter", "scatter_along", "scatter_reduce", "scatter_reduce_along"})
WRITES = SCATTERS | {"cumulative"}  # lowered by loops of their own, whose order counts


def classify(what: Primitive | Equation) -> Class:
    """How the fuse pass may treat a primitive, or an equation with its dtypes."""
    name = what.primitive.name if isinstance(what, Equation) else what.name
    if isinstance(what, Equation) and not real(what):
        return "opaque"
    if name in REDUCTIONS:
        return "reduction"
    return "injective" if name in INJECTIVE else "opaque"


def real(e: Equation) -> bool:
    """Has code for these dtypes: no complex numbers, and what the scalar emitter knows."""
    return _real(e.primitive, tuple(v.type.dtype for v in (*e.inputs, *e.outputs)))


@lru_cache(maxsize=4096)
def _real(primitive: Primitive, dtypes: tuple[DType, ...]) -> bool:
    if any(d.kind == "c" for d in dtypes):
        return False
    return primitive.name not in ELEMENTWISE or supports(primitive, dtypes)


def writes(e: Equation) -> bool:
    """Is it a scatter or a running sum of real numbers?"""
    return e.primitive.name in WRITES and real(e)
