"""Operations to instructions, once every value has its register.

Enters: a legalised, ordered, allocated function and the layout of its buffers. Leaves: instructions with
lines, and what the debugger needs to know about places. Nothing is optimised here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import I64, U32, U64, Format
from trilobite.processor.isa.row import Row, signed
from trilobite.processor.isa.table import MNEMONICS
from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.codegen.legalise import as_immediate
from trilobite.processor.lang.codegen.moves import Destination, Number, Register, Slot, Source, in_order
from trilobite.processor.lang.codegen.registers import LINK, SPILL_REGISTERS, STACK_POINTER, Allocation
from trilobite.processor.lang.ir import Block, Constant, Function, Location, Op, Value, Variable
from trilobite.processor.lang.ops import BINARY, COMPARISONS, OPS, UNARY
from trilobite.processor.lang.scalar import constant_word, scalar_row
from trilobite.processor.lang.scratchpad import Layout
from trilobite.processor.lang.types import STACK
from trilobite.processor.sim.memory import LDRAM_BYTES

WORD = 8
_BINARY = frozenset((*BINARY, *COMPARISONS))
_UNARY_ROWS = frozenset((*UNARY, "fma"))
# Branches by comparison: (mnemonic, whether the operands change places), signed and unsigned.
_BRANCHES = {"lt": ("BLT", False), "ge": ("BGE", False), "gt": ("BLT", True), "le": ("BGE", True),
             "eq": ("BEQ", False), "ne": ("BNE", False)}  # fmt: skip
_ZERO_BRANCHES = {"eq": "CBZ", "ne": "CBNZ", "gt": "CB"}
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def row_of(mnemonic: str, *kinds: str) -> Row:
    """The row of a mnemonic whose operands are of these kinds."""
    return next(r for r in MNEMONICS[mnemonic] if tuple(op.kind for op in r.operands) == kinds)


@dataclass
class Emitted:
    """One function's instructions; `places` says where each operation's instructions begin, `messages` what
    a trap says, `calls` which instructions go to which routine."""

    instructions: list[Instruction] = field(default_factory=list)
    locations: list[Location] = field(default_factory=list)
    places: dict[Op, int] = field(default_factory=dict)
    spans: dict[Block, tuple[int, int]] = field(default_factory=dict)
    messages: dict[int, str] = field(default_factory=dict)
    calls: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Frame:
    """Words of the stack: where a function's begin, below those of whoever calls it, where its variables
    are at home, and where it keeps what it returns to, if it calls others itself."""

    first: int
    homes: Mapping[Variable, int]
    link: int | None = None


class Emitter:
    def __init__(
        self,
        allocation: Allocation,
        layout: Layout,
        tables: dict[str, int],
        frame: Frame,
        rules: Mapping[str, Callable[[Emitter, Op], None]],
    ) -> None:
        self.rules = rules
        self.allocation, self.layout, self.tables = allocation, layout, tables
        self.frame, self.homes = frame, frame.homes
        self.is_routine = False
        self.out = Emitted()
        self.location = Location("", 0)
        self.jumps: list[tuple[int, Block]] = []
        self.threaded: dict[Block, Block] = {}
        self.begun: set[Block] = set()

    def run(self, function: Function, graph: Graph) -> Emitted:
        """The whole function, in the order of its blocks; those that only pass on are left out."""
        self.is_routine = function.is_routine
        self.threaded = {b: b.ops[-1].targets[0].block for b in graph.order[1:] if self._passes_on(b)}
        order = [block for block in graph.order if block not in self.threaded]
        for block in self.threaded:
            self.out.spans[block] = (0, 0)
            self.out.places.update(dict.fromkeys(block.ops, 0))
        for place, block in enumerate(order):
            first = len(self.out.instructions)
            self.begun.add(block)
            if place == 0:
                self._begin(function)
            following = order[place + 1] if place + 1 < len(order) else None
            for op in block.ops:
                self.out.places[op] = len(self.out.instructions)
                self.location = op.location
                if op.is_terminator:
                    self._terminator(op, following)
                else:
                    self._operation(op)
            self.out.spans[block] = (first, len(self.out.instructions))
        for at, goal in self.jumps:
            block = self.final(goal)
            old = self.out.instructions[at]
            self.out.instructions[at] = replace(old, immediate=self.out.spans[block][0] - at)
        return self.out

    def _passes_on(self, block: Block) -> bool:
        """Whether the block is a jump that has nothing to copy."""
        last = block.ops[-1]
        if len(block.ops) != 1 or last.opcode != "jump" or last.targets[0].block is block:
            return False
        pairs = zip(last.targets[0].block.args, last.targets[0].args, strict=True)
        return all(self.place_of(arg) == self.place_of(value) for arg, value in pairs)

    def final(self, block: Block) -> Block:
        """Where a jump to the block ends up."""
        seen: set[Block] = set()  # an endless loop of nothing passes on to itself
        while block in self.threaded and block not in seen:
            seen.add(block)
            block = self.threaded[block]
        return block

    # one instruction
    def put(
        self,
        row: Row,
        registers: tuple[int, ...] = (),
        formats: tuple[Format, ...] = (),
        flags: tuple[str, ...] | None = None,
        immediate: int = 0,
    ) -> None:
        chosen = tuple(flag.choices[0] for flag in row.flags) if flags is None else flags
        made = Instruction(row, registers, formats, chosen, immediate, self.location.line)
        self.out.instructions.append(made)
        self.out.locations.append(self.location)

    def number(self, register: int, word: int) -> None:
        """A 64-bit constant: one instruction if it fits, else two."""
        value = signed(word)
        low = signed(word, 32)
        self.put(scalar_row("SLI", True), (register,), immediate=low)
        if low != value:
            self.put(scalar_row("SLIH", True), (register, register), immediate=signed(word >> 32, 32))

    def slot_offset(self, slot: int) -> int:
        """Words of the frame lie below the stack's buffers, from the top of the stack downwards."""
        return -(self.layout.sizes.get(STACK, 0) + (self.frame.first + slot + 1) * WORD)

    # values in registers
    def take(self, value: Value, spare: int) -> int:
        """The register that holds the value now; a spilled one is fetched into the spare."""
        if value in self.allocation.registers:
            return self.allocation.registers[value]
        offset = self.slot_offset(self.allocation.slots[value])
        self.put(scalar_row("SLOAD", True), (spare, STACK_POINTER), (I64,), immediate=offset)
        return spare

    def takes(self, values: list[Value]) -> list[int]:
        return [self.take(value, SPILL_REGISTERS[place]) for place, value in enumerate(values)]

    def target(self, value: Value) -> int:
        """The register to compute a result in."""
        return self.allocation.registers.get(value, SPILL_REGISTERS[0])

    def keep(self, value: Value) -> None:
        """Writes a spilled result to the frame."""
        if value in self.allocation.slots:
            offset = self.slot_offset(self.allocation.slots[value])
            registers = (SPILL_REGISTERS[0], STACK_POINTER)
            self.put(scalar_row("SSTORE", True), registers, (I64,), immediate=offset)

    def place_of(self, value: Value) -> Source:
        if isinstance(value, Constant):
            return Number(constant_word(value))
        if value in self.allocation.registers:
            return Register(self.allocation.registers[value])
        return Slot(self.allocation.slots[value])

    def has_place(self, value: Value) -> bool:
        return value in self.allocation.registers or value in self.allocation.slots

    def destination(self, value: Value) -> Destination:
        to = self.place_of(value)
        assert not isinstance(to, Number)
        return to

    def copy(self, to: Destination, source: Source) -> None:
        if isinstance(to, Slot):
            register = source.number if isinstance(source, Register) else SPILL_REGISTERS[1]
            if not isinstance(source, Register):
                self.copy(Register(register), source)
            offset = self.slot_offset(to.number)
            self.put(scalar_row("SSTORE", True), (register, STACK_POINTER), (I64,), immediate=offset)
        elif isinstance(source, Number):
            self.number(to.number, source.word)
        elif isinstance(source, Slot):
            offset = self.slot_offset(source.number)
            self.put(scalar_row("SLOAD", True), (to.number, STACK_POINTER), (I64,), immediate=offset)
        elif source != to:
            self.put(scalar_row("SMOVE"), (to.number, source.number))

    def copies(self, moves: list[tuple[Destination, Source]]) -> None:
        for to, source in in_order(moves, Register(SPILL_REGISTERS[0])):
            self.copy(to, source)

    def _begin(self, function: Function) -> None:
        self.location = function.location
        if self.layout.far_stack and not self.is_routine:
            self.number(STACK_POINTER, address(LETTERS["ldram"], LDRAM_BYTES))
        if self.frame.link is not None:
            self.copy(Slot(self.frame.link), Register(LINK))
        moves: list[tuple[Destination, Source]] = []
        for number, parameter in enumerate(function.params):
            moves.append((self.destination(parameter), Register(number)))
        self.copies(moves)

    # control
    def _terminator(self, op: Op, following: Block | None) -> None:
        if op.opcode == "return" and self.is_routine:
            self.copies([(Register(n), self.place_of(value)) for n, value in enumerate(op.operands)])
            if self.frame.link is not None:
                self.copy(Register(LINK), Slot(self.frame.link))
            self.put(row_of("RET", "in"), (LINK,))
        elif op.opcode == "return":
            self.put(scalar_row("HALT"))
        elif op.opcode == "trap":
            self.out.messages[len(self.out.instructions)] = op.attrs["message"]
            self.put(row_of("TRAP", "imm"), immediate=op.attrs["code"])
        elif op.opcode == "jump":
            target = op.targets[0]
            moves: list[tuple[Destination, Source]] = []
            for arg, value in zip(target.block.args, target.args, strict=True):
                moves.append((self.destination(arg), self.place_of(value)))
            self.copies(moves)
            self._go(target.block, following)
        else:
            self._branch(op, following)

    def _go(self, block: Block, following: Block | None) -> None:
        if self.final(block) is not following:
            self.jumps.append((len(self.out.instructions), block))
            self.put(row_of("JUMP", "target"))

    def _branch(self, op: Op, following: Block | None) -> None:
        """Falls through to the block that follows, if one of the two does; else the branch repeats a loop."""
        yes, no = self.final(op.targets[0].block), self.final(op.targets[1].block)
        compare = op.attrs.get("compare", "ne")
        if yes is following or (no is not following and no in self.begun and yes not in self.begun):
            yes, no, compare = no, yes, _OPPOSITE[compare]
        first = op.operands[0]
        second = op.operands[1] if len(op.operands) > 1 else Constant(I64, 0)
        if isinstance(second, Constant) and compare in _ZERO_BRANCHES:
            register = self.take(first, SPILL_REGISTERS[0])
            self.jumps.append((len(self.out.instructions), yes))
            self.put(row_of(_ZERO_BRANCHES[compare], "target", "in"), (register,))
        else:
            self._compare_and_branch(op, compare, first, second, yes)
        self._go(no, following)

    def _compare_and_branch(self, op: Op, compare: str, first: Value, second: Value, yes: Block) -> None:
        mnemonic, swapped = _BRANCHES[compare]
        if op.attrs["fmt"] in (U64, U32) and mnemonic in ("BLT", "BGE"):
            mnemonic += "U"
        a = self.take(first, SPILL_REGISTERS[0])
        if isinstance(second, Constant):
            b = SPILL_REGISTERS[1]
            self.number(b, constant_word(second))
        else:
            b = self.take(second, SPILL_REGISTERS[1])
        self.jumps.append((len(self.out.instructions), yes))
        self.put(row_of(mnemonic, "target", "in", "in"), (b, a) if swapped else (a, b))

    # everything else
    def _operation(self, op: Op) -> None:
        if op.opcode in _BINARY:
            self._binary(op)
        elif op.opcode in _UNARY_ROWS:
            registers = self.takes(op.operands)
            self.put(scalar_row(OPS[op.opcode].mnemonic), (self.target(op.result), *registers), (op.fmt,))
            self.keep(op.result)
        else:
            self.rules[op.opcode](self, op)

    def _binary(self, op: Op) -> None:
        a = self.take(op.operands[0], SPILL_REGISTERS[0])
        mnemonic, second = OPS[op.opcode].mnemonic, op.operands[1]
        if isinstance(second, Constant):
            immediate = as_immediate(op.fmt, second)
            assert immediate is not None
            self.put(scalar_row(mnemonic, True), (self.target(op.result), a), (op.fmt,), immediate=immediate)
        else:
            b = self.take(second, SPILL_REGISTERS[1])
            self.put(scalar_row(mnemonic), (self.target(op.result), a, b), (op.fmt,))
        self.keep(op.result)

    def finish(self, op: Op, row: Row, registers: list[int], formats: tuple[Format, ...] = (),
               flags: tuple[str, ...] | None = None, immediate: int = 0) -> None:  # fmt: skip
        """An instruction that writes the operation's result to its first register."""
        self.put(row, (self.target(op.result), *registers), formats, flags, immediate)
        self.keep(op.result)
