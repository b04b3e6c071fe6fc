"""Large joins: concatenations whose operands are written one by one, each into its part of the result.

Enters: a `concatenate`. Leaves: the pieces to write. In one nest over the whole result every element would
ask every operand whether it belongs there.
"""

from __future__ import annotations

from collections.abc import Container

from trilobite.compiler.targets.cpu.nests.groups import size
from trilobite.ir.graph import Equation, Var

KERNELS = 8  # of a join: copies of equal shapes are one
NEIGHBOURS = 4  # operands that make one piece where there would be more kernels to compile


def is_large(e: Equation, least: int) -> bool:
    result = e.outputs[0].type
    if e.primitive.name != "concatenate" or size(result.shape) < least:
        return False
    # Where a piece begins must be a size that a step can have.
    return all(isinstance(d, int) for d in result.shape[e.attributes["axis"] + 1 :])


def pieces(e: Equation, in_memory: Container[Var]) -> list[tuple[Var, Equation | None]]:
    """In order: operands, or joins of several of them with the equations that make them."""
    kernels = {x.type.shape if x in in_memory else x for x in e.inputs}
    if len(kernels) <= KERNELS:
        return [(x, None) for x in e.inputs]
    out: list[tuple[Var, Equation | None]] = []
    for k in range(0, len(e.inputs), NEIGHBOURS):
        few = e.inputs[k : k + NEIGHBOURS]
        piece = Equation.of("concatenate", few, e.attributes, e.location)
        out.append((piece.outputs[0], piece))
    return out
