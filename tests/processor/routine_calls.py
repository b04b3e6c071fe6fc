"""A vector instruction with given operands as one call of its routine.

Enters: a decoded instruction and its operands in memory. Leaves: a call that does what the row's meaning
does, bit for bit, and says whether it did; or None where there is no such code, or the operands lie on each
other in a way that it does not bear.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from trilobite.native.cache import kernels
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import I4, Array
from trilobite.processor.isa.row import JOINED, Operands
from trilobite.processor.isa.rows.scalar import from_immediate
from trilobite.processor.sim.routines.choice import ALIKE, ANYHOW, has_forms, vector_routine

ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                         ctypes.c_void_p, ctypes.c_void_p)  # fmt: skip
SCALARS = ("s", "start", "step", *JOINED)


@lru_cache(maxsize=2048)
def _function(text: str) -> tuple[object, Callable[..., int]]:
    code = kernels([(text, 3)])
    return code, ENTRY(code.addresses[0])


def routine_call(
    instruction: Instruction, o: Operands, targets: Sequence[Array], arrays: Sequence[Array]
) -> Callable[[], bool] | None:
    """The whole instruction as one call, or None."""
    is_vector = "n" in o.values and not has_forms(instruction) and I4 not in instruction.formats
    if not is_vector or instruction.row.mnemonic == "RV":  # which goes on in a stream of the core's
        return None
    routine = vector_routine(instruction)
    everything = [*arrays, *targets]
    if routine is None or not all(array.flags.c_contiguous for array in everything):
        return None
    if not _may_lie_so(routine.overlap, targets, arrays):
        return None
    words = [o.values[name] for name in SCALARS if name in o.values]
    if "imm" in o.values:
        words = [from_immediate(instruction.formats[0], o.imm)]
    scalars = np.array([*words, 0], np.uint64)
    hosts = np.array([array.ctypes.data for array in everything], np.int64)
    cycle = o.m if "m" in o.values else 0
    scratch = np.empty(routine.scratch * (o.n + cycle) + 64, np.uint8)
    function = _function(routine.text)[1]

    def whole() -> bool:
        return bool(function(hosts.ctypes.data, scalars.ctypes.data, o.n, cycle, 0, scratch.ctypes.data))

    return whole


def _may_lie_so(overlap: int, targets: Sequence[Array], arrays: Sequence[Array]) -> bool:
    return overlap == ANYHOW or all(
        _apart(target, array) or (overlap == ALIKE and _is_same(target, array))
        for target in targets for array in arrays
    )  # fmt: skip


def _is_same(target: Array, array: Array) -> bool:
    return target.ctypes.data == array.ctypes.data and target.nbytes == array.nbytes


def _apart(target: Array, array: Array) -> bool:
    first, start = target.ctypes.data, array.ctypes.data
    return start >= first + target.nbytes or first >= start + array.nbytes
