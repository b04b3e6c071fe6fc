"""Kernel IR to a linked program.

Enters: a module of either kernel language, a machine, a level (0 or 2). Leaves: a `KernelProgram`: the
program that `Device.launch` runs, with the variables, buffers and scratchpad use that the tools show.
`stages` collects the text of every step by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from trilobite.base.collection import uncollected
from trilobite.base.errors import KernelError
from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.program import RESERVED_SECTIONS, Program, Symbol
from trilobite.processor.lang import text
from trilobite.processor.lang.bounds import CallNote, Sources, notes_of, sources_of
from trilobite.processor.lang.calls import calls_of
from trilobite.processor.lang.cfg import Graph, remove_unreachable
from trilobite.processor.lang.codegen.emit import WORD, Emitted, Emitter, Frame
from trilobite.processor.lang.codegen.legalise import legalise, share
from trilobite.processor.lang.codegen.registers import Allocation, allocate, live_out
from trilobite.processor.lang.codegen.select import RULES
from trilobite.processor.lang.codegen.variables import VariablePlace, homes_in_frame, noted_places
from trilobite.processor.lang.ir import Buffer, Function, KernelModule, Location, Member, Op, Variable
from trilobite.processor.lang.passes.argument_table import take_from_table
from trilobite.processor.lang.passes.dead_code import remove_dead_code
from trilobite.processor.lang.passes.end_tests import end_by_address
from trilobite.processor.lang.passes.hoist import hoist
from trilobite.processor.lang.passes.lifetimes import layout_of, layout_of_module
from trilobite.processor.lang.passes.linkage import linked
from trilobite.processor.lang.passes.order import Effects, order
from trilobite.processor.lang.passes.promote import promote
from trilobite.processor.lang.passes.rotate import rotate
from trilobite.processor.lang.passes.simplify import simplify
from trilobite.processor.lang.passes.strength import reduce_strength
from trilobite.processor.lang.passes.unroll import unroll
from trilobite.processor.lang.passes.waits import work_before_waits
from trilobite.processor.lang.scratchpad import POOL, Layout, limit_of, reserve_text, room_of
from trilobite.processor.lang.types import STACK
from trilobite.processor.lang.verify import verify
from trilobite.processor.machine import Machine

LEVELS = (0, 2)
MAX_PARAMETERS = 32


@dataclass(frozen=True)
class BufferPlace:
    """A static array as the debugger shows it."""

    name: str
    space: str
    offset: int
    bytes: int
    element: str
    shape: tuple[int, ...]
    slots: int
    location: str
    local: tuple[str, str] = ("", "")  # what variable of which function it is, where it is one
    members: tuple[Member, ...] = ()
    first: int = 0  # of a frame's: the instructions of its entry; its offset is from the top of the stack
    last: int = 0


@dataclass(frozen=True, eq=False)
class KernelProgram(Program):
    """A program that knows the source it came from."""

    places: tuple[Callable[[], list[VariablePlace]], ...] = ()
    buffers: tuple[BufferPlace, ...] = ()
    columns: tuple[int, ...] = ()
    level: int = 2
    room: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[int, CallNote] = field(default_factory=dict)  # of instructions that touch memory
    warning: str = ""  # of a kernel that leaves the stack less than the machine keeps for it

    @cached_property
    def variables(self) -> tuple[VariablePlace, ...]:
        """Where variables are, worked out when a debugger asks."""
        return tuple(place for places in self.places for place in places())

    def scratchpad_text(self) -> str:
        """Bytes that the kernel uses of each memory, and of how many."""
        used = [s for s in RESERVED_SECTIONS if self.sizes.get(s)]
        lines = [f"{s}: {self.sizes[s]} of {self.room[s]} bytes" for s in used] or ["no scratchpad"]
        return "\n".join([*lines, self.warning] if self.warning else lines)

    def listing(self) -> str:
        """Instructions with the lines that they came from."""
        rows = [
            f"{place:5}  {instruction_text(i):44} // {self.sources[place]}:{i.line}"
            for place, i in enumerate(self.instructions)
        ]
        return "\n".join(rows) + "\n"


def compile_module(
    module: KernelModule,
    machine: Machine,
    level: int = 2,
    stages: dict[str, str] | None = None,
    eager: bool = False,
) -> KernelProgram:
    """Every entry of the module, one behind the other, then the routines that they call. `eager` waits for
    blocking operations at once: a later wait would also be one for copies whose wait the author forgot."""
    if level not in LEVELS:
        raise KernelError(f"there is no optimisation level {level}", expected="0 or 2", remedy="use level=2")
    with uncollected():
        return _compiled(module, machine, level, stages, eager)


def _compiled(
    module: KernelModule, machine: Machine, level: int, stages: dict[str, str] | None, eager: bool
) -> KernelProgram:
    verify(module)
    _note(stages, "kernel", module)
    work = linked(module)
    tabled = [function for function in work.entries if len(function.params) > MAX_PARAMETERS]
    for function in tabled:
        take_from_table(function)
    for function in work.functions.values():
        optimise(function, level)
    _note(stages, "optimised", work)
    assembled = _Assembly(work, machine, level, stages is not None)
    assembled.order(0 if eager else level)
    assembled.allocate()
    for function in work.functions.values():
        assembled.add(function)
    program = assembled.program(frozenset(function.name for function in tabled))
    if stages is not None:
        stages["ordered"] = assembled.ordered
        stages["isa"] = program.listing()
    return program


def _note(stages: dict[str, str] | None, name: str, module: KernelModule) -> None:
    if stages is not None:
        stages[name] = text.write(module)


def optimise(function: Function, level: int) -> None:
    """The passes of a level, in order."""
    remove_unreachable(function)
    if level == 0:
        return
    promote(function)
    for _ in range(3):
        changed = simplify(function)
        changed |= remove_dead_code(function)
        changed |= hoist(function)
        if not changed:
            break
    if unroll(function):
        simplify(function)
    reduce_strength(function)
    remove_dead_code(function)
    end_by_address(function)
    hoist(function)
    simplify(function)
    remove_dead_code(function)
    if rotate(function):
        simplify(function)
        remove_dead_code(function)


@dataclass(frozen=True)
class _Allocated:
    """A function whose values have their registers."""

    sources: dict[Op, Sources]
    graph: Graph
    allocation: Allocation


class _Assembly:
    """The program while its entries are added to it."""

    def __init__(self, module: KernelModule, machine: Machine, level: int, texts: bool) -> None:
        self.module, self.machine, self.level, self.texts = module, machine, level, texts
        self.instructions: list[Instruction] = []
        self.locations: list[Location] = []
        self.calls: list[tuple[int, str]] = []
        self.layouts: dict[str, Layout] = {}
        self.depths: dict[str, int] = {}  # words of the stack above those of a function
        self.messages: dict[int, str] = {}
        self.frames: dict[Buffer, tuple[int, int, int]] = {}  # places in frames, and for which instructions
        self.data = bytearray()
        self.tables: dict[str, int] = {}
        self.symbols: dict[str, Symbol] = {}
        self.sizes = dict.fromkeys(RESERVED_SECTIONS, 0)
        self.places: list[Callable[[], list[VariablePlace]]] = []
        self.buffers: dict[Buffer, int] = {}
        self.ordered = ""
        self.allocated: dict[str, _Allocated] = {}
        self.frame = 0
        self.is_far = False  # a frame lies in LDRAM
        self.notes: dict[int, CallNote] = {}

    def order(self, level: int) -> None:
        """Gives buffers their places, and puts in what orders the queues; routines before their callers."""
        if self.module.routines:
            together = layout_of_module(self.module, self.machine, share=self.level > 0)
            self.layouts = dict.fromkeys(self.module.functions, together)
        else:
            self.layouts = {name: self._layout(f) for name, f in self.module.functions.items()}
        effects: dict[str, Effects] = {}
        is_interlocked = self.machine.interlock == "ranges"
        for name, function in reversed(self.module.functions.items()):
            effects[name] = order(function, self.layouts[name], is_interlocked, level, effects)

    def allocate(self) -> None:
        """Gives values their registers, in routines before their callers: these keep what they need behind a
        call in registers that it leaves alone."""
        for function in self.module.functions.values():
            for op in function.ops():
                if op.opcode == "print":
                    op.attrs["table"] = self.module.add_table(
                        op.attrs["format"].encode("latin-1") + b"\0", "text"
                    )
            self._place_tables()
            if self.texts:
                self.ordered += text.write_function(function)
        written: dict[str, int] = {}
        for name, function in reversed(self.module.functions.items()):
            sources = sources_of(function)
            legalise(function, fuse=self.level > 0)
            if self.level:
                hoist(function, room=44)
                share(function)
            graph = Graph(function)
            if self.level:
                work_before_waits(graph, live_out(graph))
            allocation = allocate(function, graph, written)
            written[name] = allocation.written(function)
            self.allocated[name] = _Allocated(sources, graph, allocation)

    def add(self, function: Function) -> None:
        """Its callers have been added."""
        layout, found = self.layouts[function.name], self.allocated[function.name]
        sources, graph, allocation = found.sources, found.graph, found.allocation
        frame, end = self._frame(function, allocation)
        emitter = Emitter(allocation, layout, self.tables, frame, RULES)
        emitted = emitter.run(function, graph)
        base = len(self.instructions)
        notes = notes_of(sources, emitted.places, emitted.instructions, layout.offsets)
        self.notes.update({base + at: note for at, note in notes.items()})
        self._keep_frame(layout, end)
        self.places.append(partial(_places, self.level, len(self.instructions), graph, emitter, emitted))
        self._append(function, emitted, layout)

    def _frame(self, function: Function, allocation: Allocation) -> tuple[Frame, int]:
        """The function's words of the stack, and where those of the routines that it calls may begin."""
        first = self.depths.get(function.name, 0)
        words = max(allocation.slots.values(), default=-1) + 1
        homes = {v: words + n for n, v in enumerate(_homed(function, self.level))}
        words += len(homes)
        called = {op.attrs["function"] for op in calls_of(function)}
        link = words if called and function.is_routine else None
        end = first + words + (link is not None)
        for name in called:
            self.depths[name] = max(self.depths.get(name, 0), end)
        return Frame(first, homes, link), end

    def _keep_frame(self, layout: Layout, words: int) -> None:
        """Bytes of NRAM that the stack takes in the largest frame: buffers, spilled values and homes."""
        self.is_far |= layout.far_stack
        if not layout.far_stack:
            self.frame = max(self.frame, layout.sizes.get(STACK, 0) + words * WORD)

    def _layout(self, function: Function) -> Layout:
        used = {op.attrs["buffer"] for op in function.ops() if op.opcode == "address"}
        buffers = [b for b in self.module.buffers.values() if b in used]
        return layout_of(function, buffers, self.machine, share=self.level > 0)

    def _place_tables(self) -> None:
        for name, content in self.module.tables.items():
            if name not in self.tables:
                self.data.extend(bytes(-len(self.data) % 64))
                self.tables[name] = address(LETTERS["code"], len(self.data))
                self.data.extend(content)

    def _append(self, function: Function, emitted: Emitted, layout: Layout) -> None:
        base = len(self.instructions)
        self.symbols[function.name] = Symbol("text", base, True, function.is_entry)
        self.calls += [(base + at, name) for at, name in emitted.calls]
        self.messages.update({base + at: message for at, message in emitted.messages.items()})
        self.instructions += emitted.instructions
        self.locations += emitted.locations
        for section in RESERVED_SECTIONS:
            self.sizes[section] = max(self.sizes[section], layout.sizes.get(section, 0))
        if POOL in layout.sizes:
            self.sizes[POOL] = max(self.sizes.get(POOL, 0), layout.sizes[POOL])
        for buffer, offset in layout.offsets.items():
            self.buffers[buffer] = offset
            if buffer.space == STACK:
                self.frames[buffer] = (offset - layout.sizes[STACK], base, len(self.instructions))
            if buffer.space != STACK and buffer.name not in self.symbols:
                self.symbols[buffer.name] = Symbol(buffer.space, offset)

    def _room(self, section: str) -> int:
        mine = [buffer for buffer in self.buffers if buffer.space == section]
        room = room_of(self.machine, section)
        return room if self.sizes[section] <= room else limit_of(self.machine, section, mine)

    def _shown(self, b: Buffer, offset: int) -> BufferPlace:
        at, first, last = self.frames.get(b, (offset, 0, 0))
        return BufferPlace(
            b.name, b.space, at, b.bytes, b.element, b.shape, b.slots, str(b.location), b.local, b.members,
            first, last,
        )  # fmt: skip

    def program(self, tabled: frozenset[str]) -> KernelProgram:
        """Everything that was added; calls find their routines."""
        for at, name in self.calls:
            distance = self.symbols[name].offset - at
            self.instructions[at] = replace(self.instructions[at], immediate=distance)
        places = self.locations
        origins = tuple(place.origin for place in places)
        shown = tuple(self._shown(buffer, at) for buffer, at in self.buffers.items())
        return KernelProgram(
            tuple(self.instructions), bytes(self.data), self.sizes, self.symbols,
            tuple(place.file for place in places), self.frame, self.module.device_data, self.messages,
            origins if any(origin is not None for origin in origins) else (), bool(self.module.routines),
            tabled, tuple(self.places),
            shown, tuple(place.column for place in places), self.level,
            {section: self._room(section) for section in RESERVED_SECTIONS},
            self.notes, reserve_text(self.machine, self.sizes, self.frame, self.is_far),
            aligned=self.module.aligned,
        )  # fmt: skip


def _homed(function: Function, level: int) -> list[Variable]:
    """Variables that live in the frame: all of them while none is promoted."""
    return function.variables if level == 0 else []


def _places(level: int, base: int, graph: Graph, emitter: Emitter, emitted: Emitted) -> list[VariablePlace]:
    """Of one function whose instructions begin at `base`."""
    if level == 0:
        found = homes_in_frame(emitter, len(emitted.instructions))
    else:
        found = noted_places(graph, emitter, emitted)
    return [replace(place, first=place.first + base, last=place.last + base) for place in found]
