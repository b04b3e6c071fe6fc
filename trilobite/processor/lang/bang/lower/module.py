"""A whole LLVM module: from its entries to everything they call; buffers, constant tables, faults.

Enters: the module, a machine, the level it was compiled at. Leaves: a `KernelModule`, or a `KernelError` that
lists everything in the source that the processor has no way to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from trilobite.base.collection import uncollected
from trilobite.base.errors import KernelError
from trilobite.processor.isa.formats import I32, I64, Format
from trilobite.processor.isa.rows.control import SPECIAL_REGISTERS
from trilobite.processor.lang.bang.llvm.debug import is_ours
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.llvm.module import DefinedFunction, GlobalVariable, Module
from trilobite.processor.lang.bang.llvm.types import Array, LType, Ptr, Void, size_of
from trilobite.processor.lang.bang.llvm.values import Operand, constant_bytes
from trilobite.processor.lang.bang.lower.device_memory import DeviceVariables
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.initial import initialise
from trilobite.processor.lang.bang.lower.memory import is_guard, store_leaves
from trilobite.processor.lang.bang.lower.memory_core import divide_work, reachable
from trilobite.processor.lang.bang.lower.scalars import type_of
from trilobite.processor.lang.ir import (
    NOWHERE,
    Argument,
    Buffer,
    Constant,
    Function,
    KernelModule,
    Location,
    Result,
    Value,
)
from trilobite.processor.lang.types import ANY, STACK, Pointer
from trilobite.processor.machine import Machine

SECTIONS = ("nram", "wram", "sram", "ldram")
ENTRY = "bang.entry"
COMPUTED = "__tls_init"  # what clang calls the function that computes what variables begin with
PURE_VIRTUAL = "__cxa_pure_virtual"  # stands in tables of virtual functions where there is none
LARGEST = 1 << 26  # bytes of a variable that may have a value of its own


class ModuleLowering:
    """The state that all functions of a module share."""

    def __init__(
        self,
        llvm: Module,
        machine: Machine,
        level: int,
        source: str,
        shown_file: str,
        enumerators: Mapping[tuple[str, int], str],
        contracts: bool = False,
        wanted: str = "",
    ) -> None:
        self._wanted = wanted  # the one entry that is lowered, if the source has it
        self.contracts = contracts  # whether what is known only at run time is asked there
        self._enumerators = enumerators
        self.llvm, self.machine, self.level = llvm, machine, level
        self.module = KernelModule(source)
        self.module.aligned = False  # from the 3xx parts on, real sources read and write at any byte
        self.faults: dict[str, None] = {}
        self._shown_file, self._source = shown_file, source
        self._needed: list[str] = []
        self._callers: dict[str, tuple[str, Location]] = {}  # who called a function first, and where
        self._buffers: dict[str, Buffer] = {}
        self._names: dict[str, str] = {}
        self._initial: dict[Buffer, bytes] = {}
        self._device = DeviceVariables()
        self.computing: set[Function] = set()  # that use a variable which begins with something computed
        self._entries: list[FunctionLowering] = []
        self._pointing: list[tuple[GlobalVariable, Buffer]] = []
        self._open: set[str] = set()  # constants with addresses that are being written
        self.declared: dict[Function, dict[str, int]] = {}  # the source's variables by their allocas

    def run(self) -> KernelModule:
        with uncollected():
            return self._run()

    def _run(self) -> KernelModule:
        entries = [name for name, label in self.llvm.annotations.items() if label == ENTRY]
        self._name_entries(entries)
        self.module.linkage = {name: mangled for mangled, name in self._names.items()}
        for name in [name for name in entries if self._names[name] == self._wanted] or entries:
            found = self.llvm.function(name)
            if found is not None:
                lowering = FunctionLowering(self, found, True)
                self.module.add_function(lowering.run())
                self._entries.append(lowering)
        self._lower_needed()
        for lowering in self._entries:
            self._begin(lowering)
        self._lower_needed()
        if self.faults:
            raise KernelError(
                "the source uses what the processor does not have:\n  " + "\n  ".join(self.faults),
                where=self._source,
                expected="BANG C as docs/bang.md describes it",
                remedy="write it another way",
            )
        divide_work(self.module)
        for entry in self.module.entries:
            initialise(self.module, entry, self._initial)
            self._device.receive(self.module, entry)
        self.module.device_data = bytes(self._device.content)
        return self.module

    def _lower_needed(self) -> None:
        while self._needed:
            name = self._needed.pop()
            found = self.llvm.function(name)
            if found is not None and name not in self.module.functions:
                self.module.add_function(FunctionLowering(self, found, False).run())

    def _begin(self, f: FunctionLowering) -> None:
        """Variables in scratchpads that begin with addresses, or what is computed, get that first of all."""
        functions = reachable(self.module, f.function)
        used = {op.attrs["buffer"] for function in functions for op in function.ops() if "buffer" in op.attrs}
        first = f.function.blocks[0]
        behind, first.ops = first.ops, []
        f.builder.block, f.builder.location = first, f.function.location
        for variable, buffer in self._pointing:  # grows by what the addresses are of
            if buffer in used and variable.init is not None:
                store_leaves(f, variable.type, f.value(variable.init), f.builder.address(buffer))
        if self.computing & functions and self.llvm.function(COMPUTED) is not None:
            self.need(COMPUTED)
            f.builder.call(COMPUTED, [], [])
        first.ops += behind

    def _name_entries(self, entries: list[str]) -> None:
        """Entries are called as the source calls them; overloads also by what tells them apart."""
        taken: set[str] = set()
        for mangled in entries:
            found = self.llvm.function(mangled)
            name = self.llvm.debug.member_name(found.debug) if found is not None else mangled
            name = self._readable(name) or mangled
            self._names[mangled] = mangled if name in taken else name
            taken.add(name)

    def _readable(self, name: str) -> str:
        name = name.replace("_Float16", "half").replace("__bf16", "bfloat16_t")
        return re.sub(
            r"\((?:\w+::)*(\w+)\)(-?\d+)", lambda m: self._enumerators.get((m[1], int(m[2])), m[0]), name
        )

    def public_name(self, function: DefinedFunction) -> str:
        return self._names.get(function.name, function.name)

    def need(self, name: str, caller: str = "", place: Location = NOWHERE) -> None:
        self._needed.append(name)
        self._callers.setdefault(name, (caller, place))

    def returns(self, i: Instruction) -> bool:
        return not isinstance(i.type, Void)

    def shown(self, place: Location) -> Location:
        """The source is called by its own name, whatever path clang was given."""
        return Location(self._source, place.line, place.column) if place.file == self._shown_file else place

    def refuse(self, what: str, place: Location, function: str = "") -> None:
        """A fault in a body of the library belongs to the user's line that led there."""
        seen = set()
        while is_ours(place.file) and function in self._callers and function not in seen:
            seen.add(function)
            function, place = self._callers[function]
        self.faults[f"{place}: {what}"] = None

    # variables of the source
    def special(self, f: FunctionLowering, name: str, kind: LType) -> Lowered | None:
        """A load of a built-in variable, or of the guard of a static's initialiser."""
        if is_guard(name):
            return f.dummy(kind)
        if not name.startswith("bang."):
            return None
        register = name[5:]
        if register not in SPECIAL_REGISTERS:
            f.refuse(f"the built-in variable {register} does not exist")
            return f.dummy(kind)
        value = f.builder.special(register)
        scalar = f.scalar(kind)
        return (value if scalar is I64 else f.builder.cast(value, scalar),)

    def address(self, f: FunctionLowering, name: str) -> Value:
        """Where a variable lies: a buffer of its memory, or a table of constants."""
        name = name.removeprefix("\x01")
        if name.startswith("bang.") and name[5:] in SPECIAL_REGISTERS:
            return self._referenced(f, name[5:])
        variable = self.llvm.variable(name)
        if variable is None:
            if self.llvm.function(name) is not None:
                return Constant(ANY, self.llvm.number_of(name))
            if name == PURE_VIRTUAL:
                return Constant(ANY, 0)
            f.refuse(f"the address of {name}, which the source does not define")
            return Constant(ANY, 0)
        if variable.section in SECTIONS:
            return f.builder.address(self.buffer(variable))
        content = _content(variable)
        if content is not None and (variable.is_constant or not self.llvm.is_written(name)):
            return f.builder.table(content, _plain(name))
        shown = self.llvm.debug.name(variable.debug) or name
        if variable.init is None:
            f.refuse(f"the variable {shown} is declared and never defined")
        elif content is None and (variable.is_constant or not self.llvm.is_written(name)):
            return self._addresses(f, variable, variable.init)
        elif content is None:
            f.refuse(f"the variable {shown} is written and begins with addresses")
        else:
            return self._device.address(f, variable, content)
        return Constant(ANY, 0)

    def _referenced(self, f: FunctionLowering, register: str) -> Value:
        """A built-in variable that is passed by reference: a copy in the frame."""
        place = f.builder.address(f.stack(8, register))
        f.builder.store(I32, f.builder.cast(f.builder.special(register), I32), place)
        return place

    def _addresses(self, f: FunctionLowering, variable: GlobalVariable, init: Operand) -> Value:
        """A constant that holds addresses (functions, texts): they are known only here, so it is written
        into the frame where it is used."""
        label = f"addresses of {variable.name}"
        if label not in self._buffers:
            self._buffers[label] = f.stack(size_of(variable.type), _plain(variable.name))
            self._buffers[label].align = max(16, variable.align)
        place = f.builder.address(self._buffers[label])
        if label not in self._open:  # one that holds its own address is written once
            self._open.add(label)
            store_leaves(f, variable.type, f.value(init), place)
            self._open.discard(label)
        return place

    def buffer(self, variable: GlobalVariable) -> Buffer:
        if variable.name not in self._buffers:
            debug = self.llvm.debug
            shape, element = _shape(variable.type)
            name, place = debug.name(variable.debug), self.shown(debug.declared_at(variable.debug))
            made = Buffer(
                name or variable.name, _memory(variable), max(1, size_of(variable.type)),
                max(64, variable.align), place, element, shape, anywhere=True,
            )  # fmt: skip
            self._buffers[variable.name] = self.module.add_buffer(made)
            content = _content(variable)
            if content is not None and (any(content) or (len(content) <= 8 and made.space != "sram")):
                self._initial[made] = content
            if content is None and variable.init is not None and size_of(variable.type) <= LARGEST:
                self._pointing.append((variable, made))
        return self._buffers[variable.name]

    def taken(self) -> Buffer:
        """The word that says how much room arrays of run-time length have taken."""
        if "taken" not in self._buffers:
            made = self.module.add_buffer(Buffer("taken", STACK, 8, 16))
            self._buffers["taken"], self._initial[made] = made, bytes(8)
        return self._buffers["taken"]

    def room(self, size: int) -> Buffer:
        """Where such arrays lie."""
        if "room" not in self._buffers:
            self._buffers["room"] = self.module.add_buffer(Buffer("room", "ldram", size))
        return self._buffers["room"]

    def cell(self, f: FunctionLowering) -> Value:
        """A few bytes of NRAM for a result."""
        if "cell" not in self._buffers:
            self._buffers["cell"] = self.module.add_buffer(Buffer("cell", "nram", 64, anywhere=True))
        return f.builder.address(self._buffers["cell"])

    def space_of(self, value: Value) -> str:
        """The memory of a pointer if it is plain to see, else nothing."""
        while isinstance(value, Result) and value.op.opcode == "offset":
            value = value.op.operands[0]
        if isinstance(value, Result) and value.op.opcode == "address" and isinstance(value.type, Pointer):
            return value.type.space if value.type != ANY else ""
        if isinstance(value, Argument) and isinstance(value.type, Pointer):
            return value.type.space if value.type != ANY else ""
        return ""


def _memory(variable: GlobalVariable) -> str:
    """A pointer with a qualifier inside a function is each core's own: sources let every core set it."""
    is_own = isinstance(variable.type, Ptr) and variable.name.startswith("_ZZ")
    return STACK if is_own else variable.section


def _content(variable: GlobalVariable) -> bytes | None:
    """The bytes that a variable begins with; none of those that no memory holds."""
    if variable.init is None or size_of(variable.type) > LARGEST:
        return None
    return constant_bytes(variable.init)


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name).strip("_") or "table"


def _shape(kind: LType) -> tuple[tuple[int, ...], str]:
    """Extents and element format of an array, for the debugger."""
    extents: list[int] = []
    while isinstance(kind, Array):
        extents.append(kind.count)
        kind = kind.element
    scalar = type_of(kind)
    return tuple(extents), scalar.name if isinstance(scalar, Format) else "u8"
