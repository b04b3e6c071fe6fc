"""Sums of the members' arrays in their order, as machine code: kernels that exchanges run between messages.

Enters: what is reduced how (sum, prod, max, min), dtype, number of arrays and of elements. Leaves: kernels
with their arguments by role, made by the compiler from the meaning that `reduce_in_order` has; None for what
it has no kernel for, which NumPy then does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from trilobite.base.dtypes import DType, bits, float32, is_inexact
from trilobite.ir.primitives import table
from trilobite.ir.types import Symbol, TensorType, affine
from trilobite.native.exchange import SCRATCH, Kernel

_STEPS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
_MOST = 16  # arrays that one kernel reads
_N = Symbol("n")


def reduction(op: str, dtype: DType, arrays: int, count: int) -> tuple[Kernel, ...] | None:
    """Kernels that reduce so many arrays of so many elements, in order."""
    if not 2 <= arrays <= _MOST or count <= 0:
        return None
    fused = _fused(op, dtype, arrays)
    if fused is None:
        return None
    from trilobite.compiler.program.program import Call
    from trilobite.compiler.targets.cpu.kernel import native
    from trilobite.native.cache import named

    program = fused.program({_N: count}, {})
    if program.packing.peak or not all(isinstance(s, Call) for s in program.steps):
        return None
    steps = [s for s in program.steps if isinstance(s, Call)]
    kernels = native(s.kernel for s in steps)
    code = named([k.code for k in kernels], lambda i: (kernels[i].text, kernels[i].level))
    if any(k.scratch > SCRATCH for k in kernels) or program.outputs[0].place.space != "output":
        return None
    return tuple(
        Kernel(address, _roles(s.args, program.constants), s.units, (code, program.constants))
        for s, address in zip(steps, code.addresses, strict=True)
    )


def _roles(args: Sequence[Any], constants: Sequence[Any]) -> tuple[int | tuple[str, int, int], ...]:
    out: list[int | tuple[str, int, int]] = []
    for a in args:
        if isinstance(a, int):
            out.append(a)
        elif a.space == "constant":
            out.append(int(constants[a.index].ctypes.data) + a.offset)
        else:
            out.append(("in" if a.space == "input" else "out", a.index, a.offset))
    return tuple(out)


@lru_cache(maxsize=256)
def _fused(op: str, dtype: DType, arrays: int) -> Any:
    from trilobite.compiler.graph.pipeline import Options
    from trilobite.compiler.targets.cpu.graph_to_program import Fused, make
    from trilobite.ir.transforms.record import record

    narrow = is_inexact(dtype) and bits(dtype) <= 16 and op in ("sum", "prod")

    def reduce(*values: Any) -> list[Any]:
        wide = [table["cast"](v, dtype=float32) for v in values] if narrow else list(values)
        total = wide[0]
        for v in wide[1:]:
            total = table[_STEPS[op]](total, v)
        return [table["cast"](total, dtype=dtype) if narrow else total]

    kind = TensorType((affine(0, [(_N, 1)]),), dtype)
    return Fused(make(record(reduce, [kind] * arrays, f"reduce_{op}").graph, Options()).compilation.latest)
