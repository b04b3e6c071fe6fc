"""Kernel IR: what both kernel languages become, and what code generation reads.

A `KernelModule` holds functions, static buffers and constant tables. A `Function` is a control-flow graph of
`Block`s whose arguments take the place of phi nodes; every operation has typed operands and results and the
place in the user's source that it came from. A `Variable` is a mutable scalar of the source language: front
ends may `get` and `set` it freely, and the pass `promote` turns it into values.

Nothing here checks anything (see `verify`) or knows a machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from trilobite.processor.isa.formats import Format
from trilobite.processor.lang.types import Type

Origin = str | int | tuple[Any, ...] | None
TERMINATORS = frozenset(("jump", "branch", "return", "trap"))


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source: line from 1, column from 1 (0 where it is not known).

    `origin` is whatever else a compiler wants to find again behind an instruction: a graph equation, a
    module's path. It is a string or a tuple of strings and numbers; nobody here looks into it.
    """

    file: str
    line: int
    column: int = 0
    origin: Origin = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


NOWHERE = Location("<none>", 0)


class Value:
    """Something a register can hold: a constant, a block's argument, or an operation's result."""

    __slots__ = ("type",)

    def __init__(self, kind: Type) -> None:
        self.type = kind


class Constant(Value):
    """A number that is known; floats as the Python float of the same value, pointers and integers as int."""

    __slots__ = ("value",)

    def __init__(self, kind: Type, value: int | float) -> None:
        super().__init__(kind)
        self.value = value

    @property
    def integer(self) -> int:
        return int(self.value)


class Argument(Value):
    """An argument of a block; those of the entry block are the function's parameters."""

    __slots__ = ("block", "name")

    def __init__(self, kind: Type, block: Block, name: str = "") -> None:
        super().__init__(kind)
        self.block, self.name = block, name


class Result(Value):
    """What an operation defines."""

    __slots__ = ("op",)

    def __init__(self, kind: Type, op: Op) -> None:
        super().__init__(kind)
        self.op = op


@dataclass(eq=False, slots=True)
class Target:
    """Where a terminator goes, and what it passes to the block's arguments."""

    block: Block
    args: list[Value] = field(default_factory=list)


class Op:
    """One operation. `attrs` holds what is known at compile time; see `ops` for what each opcode takes."""

    __slots__ = ("attrs", "block", "location", "opcode", "operands", "results", "targets")

    def __init__(
        self,
        opcode: str,
        operands: Sequence[Value] = (),
        attrs: dict[str, Any] | None = None,
        results: Sequence[Type] = (),
        location: Location = NOWHERE,
        targets: Sequence[Target] = (),
    ) -> None:
        self.opcode = opcode
        self.operands = list(operands)
        self.attrs = attrs or {}
        self.results = [Result(kind, self) for kind in results]
        self.location = location
        self.targets = list(targets)
        self.block: Block | None = None

    @property
    def result(self) -> Result:
        return self.results[0]

    @property
    def origin(self) -> Origin:
        return self.location.origin

    @property
    def fmt(self) -> Format:
        found: Format = self.attrs["fmt"]
        return found

    @property
    def is_terminator(self) -> bool:
        return self.opcode in TERMINATORS

    def uses(self) -> Sequence[Value]:
        """Operands, and what a terminator passes on."""
        if not self.targets:
            return self.operands
        return [*self.operands, *(value for target in self.targets for value in target.args)]

    def replace_uses(self, mapping: dict[Value, Value]) -> None:
        if not mapping:
            return
        operands = self.operands
        if not mapping.keys().isdisjoint(operands):
            operands[:] = [mapping.get(value, value) for value in operands]
        for target in self.targets:
            if target.args:
                target.args = [mapping.get(value, value) for value in target.args]

    def __repr__(self) -> str:
        return f"<{self.opcode} at {self.location}>"


class Block:
    """Operations in order; the last one is a terminator."""

    __slots__ = ("args", "name", "ops")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.args: list[Argument] = []
        self.ops: list[Op] = []

    def add_argument(self, kind: Type, name: str = "") -> Argument:
        made = Argument(kind, self, name)
        self.args.append(made)
        return made

    def append(self, op: Op) -> Op:
        op.block = self
        self.ops.append(op)
        return op

    def insert(self, op: Op) -> Op:
        """As the first operation."""
        op.block = self
        self.ops.insert(0, op)
        return op

    @property
    def terminator(self) -> Op | None:
        return self.ops[-1] if self.ops and self.ops[-1].is_terminator else None

    @property
    def successors(self) -> list[Block]:
        return [target.block for target in self.ops[-1].targets] if self.ops else []

    def __repr__(self) -> str:
        return f"<block {self.name}>"


@dataclass(eq=False)
class Variable:
    """A scalar of the source language. `scope` names the function it was written in, for the debugger."""

    name: str
    type: Type
    scope: str = ""
    location: Location = NOWHERE
    shown: str = ""  # the format that the debugger reads it in, if not its own


@dataclass(frozen=True)
class Member:
    """A part of a source's array or struct, for the debugger: its path, place in bytes, format, extents."""

    path: str
    offset: int
    format: str
    shape: tuple[int, ...] = ()


@dataclass(eq=False)
class Buffer:
    """A static array. Space `stack` puts it into the frame of the running core.

    With an `offset` it lies there, and whoever gave it answers for what else lies there at the same time. One
    that is `handed` goes from one routine to the next: routines that do not use it may lie on its bytes, and
    whoever calls them answers for the order.
    """

    name: str
    space: str
    bytes: int
    align: int = 64
    location: Location = NOWHERE
    element: str = "u8"  # for the debugger
    shape: tuple[int, ...] = ()
    slots: int = 1  # copies that a pipelined loop alternates between
    anywhere: bool = False  # may lie in the part of its memory that the stack does not need
    local: tuple[str, str] = ("", "")  # the function and the name of the source's variable that lies in it
    members: tuple[Member, ...] = ()
    offset: int | None = None
    handed: bool = False


class Function:
    """A kernel's entry, or a function that kernels call. Block 0 is where it begins.

    A `routine` is compiled once and called; any other function is put in the place of its calls. Buffers
    that only one routine uses are undefined when it begins, and free when it ends.
    """

    def __init__(
        self, name: str, results: Sequence[Type] = (), entry: bool = False, routine: bool = False
    ) -> None:
        self.name, self.results, self.is_entry, self.is_routine = name, tuple(results), entry, routine
        self.blocks: list[Block] = []
        self.variables: list[Variable] = []
        self.location = NOWHERE

    @property
    def params(self) -> list[Argument]:
        return self.blocks[0].args if self.blocks else []

    def add_block(self, name: str = "") -> Block:
        made = Block(name)
        self.blocks.append(made)
        return made

    def ops(self) -> Iterator[Op]:
        return chain.from_iterable(block.ops for block in self.blocks)

    def add_variable(self, name: str, kind: Type, scope: str = "", location: Location = NOWHERE) -> Variable:
        made = Variable(name, kind, scope or self.name, location)
        self.variables.append(made)
        return made


class KernelModule:
    """Everything one source gives: functions by name, buffers and constant tables by name."""

    def __init__(self, source: str = "<kernel>") -> None:
        self.source = source
        self.functions: dict[str, Function] = {}
        self.buffers: dict[str, Buffer] = {}
        self.tables: dict[str, bytes] = {}
        self.linkage: dict[str, str] = {}  # the symbol that a compiler of the source gives an entry
        self.aligned = True  # whether elements must lie at multiples of their size
        self.device_data = b""  # what lies in device memory; entries take its address as their last parameter

    def add_function(self, function: Function) -> Function:
        self.functions[function.name] = function
        return function

    def add_buffer(self, buffer: Buffer) -> Buffer:
        """Registers it under its name, made unique."""
        base, number = buffer.name, 1
        while buffer.name in self.buffers:
            number += 1
            buffer.name = f"{base}.{number}"
        self.buffers[buffer.name] = buffer
        return buffer

    def add_table(self, content: bytes, name: str = "table") -> str:
        """The name of a constant with these bytes; equal ones are one."""
        for known, data in self.tables.items():
            if data == content:
                return known
        unique = f"{name}.{len(self.tables)}"
        self.tables[unique] = content
        return unique

    @property
    def entries(self) -> list[Function]:
        return [function for function in self.functions.values() if function.is_entry]

    @property
    def routines(self) -> dict[str, Function]:
        return {name: function for name, function in self.functions.items() if function.is_routine}
