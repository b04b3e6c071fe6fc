"""What one row of the instruction table is made of.

A row says everything about an instruction once: how it is written, encoded and timed, which bytes it reads
and writes, and what it means. Encoder, assembler, manual, simulator and checkers read rows and add nothing
to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trilobite.processor.isa.formats import F32, Format

CONTROL, SCALAR, IO, MOVE, DMA, MATRIX, VECTOR = "control", "scalar", "io", "move", "dma", "matrix", "vector"
QUEUES = (CONTROL, IO, MOVE, MATRIX, VECTOR)  # scalar work runs in the control queue; "dma" is io or move

# One letter a memory space, as regions name the spaces they may lie in.
GDRAM, LDRAM, NRAM, WRAM, SRAM, ACC, CODE = "G", "L", "N", "W", "S", "A", "C"


# Operands that are values, neither place nor size.
JOINED = ("b_zero", "b_scale", "out_scale", "out_zero")
VALUE_FIELDS = frozenset(("s", "start", "step", "value", *JOINED))

LARGEST = 1 << 40  # bytes that an address can tell apart in one memory


class IllegalOperands(Exception):
    """Raised by a meaning whose operand values make no sense; the simulator turns it into a fault."""


@dataclass(frozen=True)
class Operand:
    """`in`/`out`: a GPR; `run`: the first of several GPRs; `imm`: 32 bits; `target`: a label's distance."""

    name: str
    kind: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Flag:
    """A choice written as a suffix; the first is what stands when none is written ("" has no suffix)."""

    name: str
    choices: tuple[str, ...]

    @property
    def bits(self) -> int:
        return (len(self.choices) - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Region:
    """A strided block of elements: strides are in bytes, the last axis is contiguous."""

    address: int
    fmt: Format
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    spaces: str

    @property
    def count(self) -> int:
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    @property
    def bytes(self) -> int:
        return self.fmt.bytes(self.count)


def check_sizes(shape: Sequence[int]) -> None:
    """Sizes come from registers, so anything may stand there."""
    if min(shape, default=0) < 0:
        raise IllegalOperands(f"a size is negative: {list(shape)}")
    if max(shape, default=0) > LARGEST:
        raise IllegalOperands(f"a size is larger than any memory: {list(shape)}")


def region(address: int, fmt: Format, shape: Sequence[int], spaces: str = NRAM) -> Region:
    """Contiguous elements in row-major order."""
    if len(shape) == 1 and 0 <= shape[0] <= LARGEST:
        return Region(address, fmt, (shape[0],), (fmt.bits // 8,), spaces)
    check_sizes(shape)
    strides, step = [], fmt.bits
    for extent in reversed(shape):
        strides.append(step // 8)
        step *= extent
    return Region(address, fmt, tuple(shape), tuple(reversed(strides)), spaces)


class Operands:
    """The values of one execution: every operand and run field by name, formats as f0.., flags by name."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


Regions = Callable[[Operands], Sequence[Region]]
Meaning = Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class Row:
    """One instruction. `meaning(o, *read arrays)` gives the arrays to write, in the order of `writes`.

    Scalar rows take GPR values instead and give GPR values; control rows have their meaning in the core.
    """

    mnemonic: str
    operands: tuple[Operand, ...]
    formats: tuple[tuple[Format, ...], ...]
    queue: str
    timing: str
    line: str
    meaning: Meaning | None = None
    reads: Regions | None = None
    writes: Regions | None = None
    flags: tuple[Flag, ...] = ()
    work: Callable[[Operands], Mapping[str, int]] | None = None
    unlawful: Callable[[tuple[Format, ...], Mapping[str, str]], str | None] | None = None
    opcode: int = -1
    scalar_results: tuple[str, ...] = field(default=())

    @property
    def immediate(self) -> Operand | None:
        return next((op for op in self.operands if op.kind in ("imm", "target")), None)

    @property
    def registers(self) -> tuple[Operand, ...]:
        return tuple(op for op in self.operands if op.kind not in ("imm", "target"))

    @property
    def format_fields(self) -> int:
        return len(self.formats[0]) if self.formats else 0

    @property
    def is_float_immediate(self) -> bool:
        """Whether a float format makes the immediate the bits of an fp32 (offsets stay whole numbers)."""
        return self.immediate is not None and self.immediate.name == "imm"

    @property
    def is_tensor(self) -> bool:
        return self.writes is not None


def operands(text: str) -> tuple[Operand, ...]:
    """`rd! a` are GPRs (! is written), `#imm` an immediate, `@to` a target, `run:m,n,k` several GPRs."""
    result = []
    for word in text.split():
        if word.startswith("#"):
            result.append(Operand(word[1:], "imm"))
        elif word.startswith("@"):
            result.append(Operand(word[1:], "target"))
        elif ":" in word:
            name, fields = word.split(":")
            result.append(Operand(name, "run", tuple(fields.split(","))))
        else:
            result.append(Operand(word.rstrip("!"), "out" if word.endswith("!") else "in"))
    return tuple(result)


def value_format(name: str, formats: Sequence[Format]) -> Format:
    """Of an operand that is a value: the row's first, but what a join multiplies with is fp32."""
    return F32 if name in JOINED else formats[0]


def signed(value: int, bits: int = 64) -> int:
    """The two's complement reading of the low bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def each(*formats: Format) -> tuple[tuple[Format, ...], ...]:
    """One format field with these choices."""
    return tuple((fmt,) for fmt in formats)
