"""Undefined bits of registers: which bits of a scalar result depend on them.

Enters: a scalar instruction, the values of its registers and the masks of their undefined bits. Leaves: the
mask of the result. Moves, masks, shifts and selection are followed bit by bit; whatever else touches an
undefined bit is undefined in all its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilobite.processor.isa.formats import Format
from trilobite.processor.isa.row import signed
from trilobite.processor.isa.rows.scalar import from_immediate
from trilobite.processor.sim.prepared import Prepared

FULL = (1 << 64) - 1
COMPARISONS = frozenset(("SGT", "SGE", "SE", "SNE", "SLT", "SLE"))


def result_mask(prepared: Prepared, undefined: Sequence[int], registers: Sequence[int]) -> int:
    """Undefined bits of the destination; the masks and values are those before the instruction."""
    sources = prepared.instruction.registers[1:]
    masks = [undefined[register] for register in sources]
    if not any(masks):
        return 0
    name, formats = prepared.row.mnemonic, prepared.instruction.formats
    values = [registers[register] for register in sources]
    if name in PLAIN:
        return PLAIN[name](masks, values)
    if not formats:
        return FULL
    width = (1 << formats[-1].bits) - 1
    if not any(mask & width for mask in masks):
        return 0
    if name in COMPARISONS:
        return 1
    if name not in BITWISE:
        return FULL if formats[0].kind == "int" else (1 << formats[0].bits) - 1
    if prepared.row.immediate is not None:
        masks.append(0)
        values.append(from_immediate(formats[0], prepared.instruction.immediate))
    return extended(formats[0], BITWISE[name](masks, values, formats[0]) & width)


def extended(fmt: Format, mask: int) -> int:
    """In 64 bits: an undefined sign makes everything above it undefined."""
    return signed(mask, fmt.bits) & FULL if fmt.kind == "int" else mask


def _select(masks: Sequence[int], values: Sequence[int]) -> int:
    return FULL if masks[0] else masks[1] if values[0] else masks[2]


def _and(masks: Sequence[int], values: Sequence[int], fmt: Format) -> int:
    """A bit that is known to be 0 on one side is known."""
    (a, b), (x, y) = masks, values
    return a & (y | b) | b & (x | a)


def _or(masks: Sequence[int], values: Sequence[int], fmt: Format) -> int:
    (a, b), (x, y) = masks, values
    return a & (~y & FULL | b) | b & (~x & FULL | a)


def _xor(masks: Sequence[int], values: Sequence[int], fmt: Format) -> int:
    return masks[0] | masks[1]


def _not(masks: Sequence[int], values: Sequence[int], fmt: Format) -> int:
    return masks[0]


def _left(masks: Sequence[int], values: Sequence[int], fmt: Format) -> int:
    return FULL if masks[1] else masks[0] << values[1] % fmt.bits


def _right(masks: Sequence[int], values: Sequence[int], fmt: Format) -> int:
    if masks[1]:
        return FULL
    width = (1 << fmt.bits) - 1
    moved = signed(masks[0], fmt.bits) if fmt.kind == "int" else masks[0] & width
    return moved >> values[1] % fmt.bits & width


PLAIN: dict[str, Callable[[Sequence[int], Sequence[int]], int]] = {
    "SMOVE": lambda masks, values: masks[0],
    "SLIH": lambda masks, values: masks[0] & 0xFFFFFFFF,
    "SSEL": _select,
}
BITWISE: dict[str, Callable[[Sequence[int], Sequence[int], Format], int]] = {
    "SAND": _and, "SOR": _or, "SXOR": _xor, "SNOT": _not, "SSHL": _left, "SSHR": _right,
}  # fmt: skip
