"""What the tensor rows of the ISA promise to a kernel: which operands are places, what is done to them, and
in which memories they may lie.

Everything is read off the rows themselves: `contract(mnemonic)` runs the row's own `reads` and `writes` on
marked operands. An IR `tensor` operation names a row and lists its operands as `fields` does: GPR operands in
order, runs field by field. Rows with an immediate are forms that instruction selection chooses, never
operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from trilobite.processor.isa.formats import Format
from trilobite.processor.isa.row import DMA, IO, MOVE, Operands, Region, Row
from trilobite.processor.isa.table import TABLE

POINTERS = frozenset("dst a b c g mask index table top_at total_at".split())
DRAIN_POINTERS = ("bias_at", "scale_at")
DRAINED = frozenset((*DRAIN_POINTERS, "top_at"))
_MARK = 1 << 20


@dataclass(frozen=True)
class Access:
    """One operand that names a place."""

    operand: str
    reads: bool
    writes: bool
    spaces: str  # letters, as regions use them


@dataclass(frozen=True)
class Contract:
    """A row as a kernel sees it."""

    row: Row
    fields: tuple[str, ...]
    results: tuple[str, ...]
    accesses: tuple[Access, ...]

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues it may go to; a copy's is decided by its addresses."""
        return (IO, MOVE) if self.row.queue == DMA else (self.row.queue,)

    def access(self, operand: str) -> Access | None:
        return next((found for found in self.accesses if found.operand == operand), None)


def fields(row: Row) -> tuple[str, ...]:
    """The operands that are read, runs field by field."""
    found: list[str] = []
    for operand in row.operands:
        if operand.kind == "run":
            found.extend(operand.fields)
        elif operand.kind == "in":
            found.append(operand.name)
    return tuple(found)


def _places(row: Row) -> frozenset[str]:
    """The operands that are addresses: those with a name of their own, and the drain's fields."""
    alone = {operand.name for operand in row.operands if operand.kind == "in" and operand.name in POINTERS}
    drained = {name for operand in row.operands for name in operand.fields if name in DRAINED}
    return frozenset(alone | drained) - ({"mask"} if row.mnemonic == "COPYX" else set())


TENSOR_ROWS: dict[str, Row] = {}
for _row in TABLE:
    if _row.is_tensor and _row.immediate is None:
        TENSOR_ROWS[_row.mnemonic] = _row


@lru_cache(maxsize=256)
def contract(mnemonic: str) -> Contract:
    """The contract of a tensor row."""
    row = TENSOR_ROWS[mnemonic]
    names = fields(row)
    found: dict[str, Access] = {}
    flags: Sequence[Sequence[str]] = [flag.choices for flag in row.flags] or [("",)]
    for choice in product(*flags):
        values = _marked(row, names, choice)
        for regions, is_write in ((row.reads, False), (row.writes, True)):
            if regions is not None:
                _note(found, names, values, regions(Operands(values)), is_write)
    outs = tuple(operand.name for operand in row.operands if operand.kind == "out")
    return Contract(row, names, outs, tuple(found.values()))


def _marked(row: Row, names: Sequence[str], choice: Sequence[str]) -> dict[str, Any]:
    """Operands whose addresses tell which of them they are; every count is 1."""
    formats = row.formats[0] if row.formats else ()
    values: dict[str, Any] = {f"f{place}": fmt for place, fmt in enumerate(formats)}
    places = _places(row)
    for place, name in enumerate(names):
        values[name] = (place + 1) * _MARK if name in places else 1
    values.update(zip((flag.name for flag in row.flags), choice, strict=False))
    if row.mnemonic == "RV":
        values.update(seed=0, counter=0)
    return values


def _note(
    found: dict[str, Access],
    names: Sequence[str],
    values: Mapping[str, Any],
    regions: Sequence[Region],
    w: bool,
) -> None:
    for region in regions:
        name = next(n for n in names if values[n] == region.address & 0xFFFFFFFF)
        old = found.get(name, Access(name, False, False, region.spaces))
        spaces = "".join(letter for letter in old.spaces if letter in region.spaces) or region.spaces
        found[name] = Access(name, old.reads or not w, old.writes or w, spaces)


def lawful(row: Row, formats: Sequence[Format], flags: Sequence[str]) -> str | None:
    """Why the row does not exist in these formats with these flags, or None."""
    if row.formats and tuple(formats) not in row.formats:
        return f"{row.mnemonic} does not exist in the formats " + ".".join(fmt.name for fmt in formats)
    if not row.formats and formats:
        return f"{row.mnemonic} takes no format"
    if len(flags) != len(row.flags):
        return f"{row.mnemonic} has {len(row.flags)} flags, {len(flags)} were given"
    for flag, choice in zip(row.flags, flags, strict=True):
        if choice not in flag.choices:
            choices = ", ".join(map(repr, flag.choices))
            return f"{choice!r} is no choice of {row.mnemonic}'s {flag.name}: {choices}"
    named = dict(zip((flag.name for flag in row.flags), flags, strict=True))
    return row.unlawful(tuple(formats), named) if row.unlawful else None
