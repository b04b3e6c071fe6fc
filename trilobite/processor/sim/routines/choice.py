"""Which instructions have a routine.

Enters: an instruction; for those whose routine depends on sizes, also its operands. Leaves: a `Routine`, or
None where the meaning itself is all there is: packed 4-bit vectors, rare conversions, sorting, multicast,
sizes of 0, tables that would be too large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import I32, Array, Format
from trilobite.processor.isa.row import Operands
from trilobite.processor.isa.table import BY_OPCODE
from trilobite.processor.sim.routines import arrange, product, random, reduce, softmax, vector, windows
from trilobite.processor.sim.routines.elements import is_handy

ANYHOW, ALIKE, APART = range(3)  # how sources may lie on the target: in any way, exactly, not at all
MOST_PLACES = 1 << 18  # of a table
SORTS: dict[str, int] = {
    **dict.fromkeys((*reduce.KINDS, *reduce.ARGS), ANYHOW),
    **dict.fromkeys(("VGATH", "VSCAT", "VFILT"), APART),
}


@dataclass(frozen=True)
class Routine:
    """LLVM text, how operands may overlap, and what it works with besides them."""

    text: str
    overlap: int
    facts: Sequence[int | Array] = ()
    scratch: int = 0  # bytes; of vectors for each element


def vector_routine(instruction: Instruction) -> Routine | None:
    """The routine of an instruction on n (and m) elements, whatever their number."""
    return _vector(instruction.row.opcode, instruction.formats, instruction.flags)


@lru_cache(maxsize=4096)
def _vector(opcode: int, formats: tuple[Format, ...], flags: tuple[str, ...]) -> Routine | None:
    row = BY_OPCODE[opcode]
    instruction, name = Instruction(row, (0,) * len(row.registers), formats, flags), row.mnemonic
    if row.timing == "dma":
        return Routine(arrange.copy_text(), ANYHOW)
    if not formats:
        return None
    maker = _VECTORS.get(name, vector.vector_text)
    text = maker(instruction)
    return None if text is None else Routine(text, SORTS.get(name, ALIKE), scratch=16)


def _gather(instruction: Instruction) -> str | None:
    return arrange.gather_text(instruction) if is_handy(instruction.formats[0]) else None


_VECTORS: dict[str, Callable[[Instruction], str | None]] = {
    **dict.fromkeys(reduce.KINDS, reduce.reduction_text),
    **dict.fromkeys(reduce.ARGS, reduce.arg_text),
    "VSCAN": reduce.scan_text,
    "VGATH": _gather,
    "VSCAT": lambda instruction: arrange.scatter_text(instruction, I32),
    "VFILT": arrange.filter_text,
    "VPACK": arrange.filter_text,
    "RV": random.random_text,
}


def has_forms(instruction: Instruction) -> bool:
    """Whether the instruction has routines that depend on sizes."""
    name = instruction.row.mnemonic
    if name in ("COPY2", "COPY3"):
        return True
    if name in product.PRODUCTS:
        return product.can_multiply(instruction)
    if name == "VSOFT":
        return is_handy(instruction.formats[0])
    tabled = (*arrange.MOVED, *windows.GIVING, "VREDUCE", "VPOOL", "VPOOLX", "OP")
    return name in tabled and is_handy(instruction.formats[0])


def form_routine(instruction: Instruction, o: Operands) -> Routine | None:
    """The routine of an instruction with these sizes."""
    name = instruction.row.mnemonic
    if name in product.PRODUCTS:
        made = product.product_form(instruction, o)
        return None if made is None else Routine(made[0], APART, made[1], made[2])
    if name in ("COPY2", "COPY3"):
        return _pieces(o)
    if name == "VSOFT":
        return Routine(softmax.weights_text(instruction), APART, [o.m, o.n])
    if name == "OP":
        text = arrange.outer_text(instruction)
        return None if text is None else Routine(text, APART, [o.m, o.n])
    return _tabled(instruction, o)


def _tabled(instruction: Instruction, o: Operands) -> Routine | None:
    row, name = instruction.row, instruction.row.mnemonic
    assert row.reads is not None and row.writes is not None
    if max(region.count for region in (*row.reads(o), *row.writes(o))) > MOST_PLACES:
        return None
    if name in arrange.MOVED:
        table = arrange.origins(row, o)
        return Routine(arrange.moving_text(instruction), APART, [table.size, table])
    if name in windows.GIVING:
        facts = windows.giving_facts(instruction, o)
        return Routine(windows.giving_text(instruction), ANYHOW, facts, 8 * o.h * o.w * o.c + 64)
    return _reduction(instruction, o)


def _reduction(instruction: Instruction, o: Operands) -> Routine | None:
    name, fmt = instruction.row.mnemonic, instruction.formats[0]
    if name == "VREDUCE":
        numbers = np.arange(o.outer * o.length * o.inner, dtype=np.int32)
        table = np.moveaxis(numbers.reshape(o.outer, o.length, o.inner), 1, 0).reshape(o.length, -1)
        op = o.op
    else:
        table = windows.window_places(o)
        op = "argpool" if name == "VPOOLX" else o.op
    if table.size > MOST_PLACES:
        return None
    text = reduce.table_text(instruction, op)
    overlap = APART if op.startswith("arg") else ANYHOW
    facts: list[int | Array] = [*table.shape[::-1], np.ascontiguousarray(table), table.shape[0]]
    return None if text is None else Routine(text, overlap, facts, reduce.table_scratch(fmt, table.size))


def _pieces(o: Operands) -> Routine | None:
    """Pieces that do not lie on each other: their order would matter."""
    if "count1" in o.values:
        axes = [(o.count1, o.dst_stride1, o.a_stride1), (o.count0, o.dst_stride0, o.a_stride0)]
    else:
        axes = [(o.count, o.dst_stride, o.a_stride), (1, 0, 0)]
    signed = [tuple(value - (1 << 64) if value >> 63 else value for value in axis) for axis in axes]
    if prod(count for count, _, _ in signed) > MOST_PLACES or not _is_laid_out(o.n, signed):
        return None
    return Routine(arrange.pieces_text(), APART, [o.n, *signed[0], *signed[1]])


def _is_laid_out(size: int, axes: Sequence[tuple[int, ...]]) -> bool:
    """Whether no two written pieces meet."""
    outer, inner = (np.arange(count) * step for count, step, _ in axes)
    starts = np.sort((outer[:, None] + inner).reshape(-1))
    return bool((np.diff(starts) >= size).all())


__all__ = ["ALIKE", "ANYHOW", "APART", "Routine", "form_routine", "has_forms", "vector_routine"]
