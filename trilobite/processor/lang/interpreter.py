"""The meaning of kernel IR: a launch executed operation by operation, with no code generation.

Enters: a module, the name of an entry, the memory of a device, arguments and a task grid. Leaves: changed
memory, and what was printed. Tensor operations are their ISA row's meaning; cores take turns as on the
simulated chip, so a race-free kernel gives the bits that its compiled form gives. It measures nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, ProcessorFault
from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.isa.formats import F64
from trilobite.processor.isa.row import IllegalOperands, Operands, region, signed
from trilobite.processor.isa.rows.scalar import from_register, to_register
from trilobite.processor.lang.intrinsics import contract
from trilobite.processor.lang.ir import Block, Buffer, Constant, Function, KernelModule, Op, Value, Variable
from trilobite.processor.lang.ops import PURE
from trilobite.processor.lang.scalar import MASK, constant_word, evaluate
from trilobite.processor.lang.scratchpad import Layout, place
from trilobite.processor.lang.types import STACK
from trilobite.processor.machine import Machine
from trilobite.processor.sim.control import ATOMIC_FUNCTIONS, ATOMIC_SPACES, LOADABLE, PRINTF, STORABLE
from trilobite.processor.sim.kernels import KERNELS
from trilobite.processor.sim.memory import Memory, MemoryFault, Place
from trilobite.processor.sim.prepared import SIGNED_FIELDS
from trilobite.processor.sim.tasks import Member, rounds

Event = tuple[str, str, str]  # ("barrier", scope, members) or ("atomic", "", "")
Steps = Generator[Event, None, list[int]]


@dataclass
class Frame:
    """One activation of a function: the words of its values and variables."""

    values: dict[Value, int] = field(default_factory=dict)
    variables: dict[Variable, int] = field(default_factory=dict)

    def word(self, value: Value) -> int:
        return constant_word(value) if isinstance(value, Constant) else self.values[value]


class Interpreter:
    """One module on one memory."""

    def __init__(self, module: KernelModule, machine: Machine, memory: Memory) -> None:
        self.module, self.machine, self.memory = module, machine, memory
        self.layout = self._layout()
        self.tables: dict[str, int] = {}
        self.printed: list[str] = []
        content = bytearray()
        for name, data in module.tables.items():
            content.extend(bytes(-len(content) % 64))
            self.tables[name] = address(LETTERS["code"], len(content))
            content.extend(data)
        self.code = np.frombuffer(bytes(content), np.uint8)

    def _layout(self) -> Layout:
        """Buffers of a module with one function may share their places, as may those of routines that do
        not call each other; those of several functions do not."""
        from trilobite.processor.lang.passes.lifetimes import layout_of, layout_of_module
        from trilobite.processor.lang.passes.linkage import linked

        if self.module.routines:
            return layout_of_module(linked(self.module), self.machine, share=False)
        buffers, functions = list(self.module.buffers.values()), list(self.module.functions.values())
        if len(functions) == 1:
            return layout_of(functions[0], buffers, self.machine, share=False)
        return place(buffers, self.machine)

    def launch(
        self,
        entry: str,
        arguments: Sequence[int],
        dim: tuple[int, int, int] = (1, 1, 1),
        task: str = "block",
        seed: int = 0,
    ) -> str:
        """Runs the grid; the text that was printed."""
        function = self.module.functions[entry]
        if len(arguments) != len(function.params):
            raise ArgumentError(
                f"{entry} takes {len(function.params)} arguments, {len(arguments)} were given",
                expected=", ".join(p.name or p.type.name for p in function.params),
                remedy="pass one value for each parameter",
            )
        self.memory.code, self.memory.aligned = self.code, self.module.aligned
        for groups in rounds(self.machine, dim, task, seed):
            for group in groups:
                self._group(function, list(arguments), group)
        return "".join(self.printed)

    def _group(self, function: Function, arguments: list[int], group: Sequence[Member]) -> None:
        """Cores in order, each to its next meeting; a meeting is over when all that are invited have come."""
        running = {m.place: _Core(self, m).call(function, arguments) for m in group}
        waiting: dict[Place, Event] = {}
        places = [m.place for m in group]
        while running:
            before = (len(running), len(waiting))
            for core in [p for p in places if p in running and p not in waiting]:
                try:
                    event = next(running[core])
                except StopIteration:
                    del running[core]
                    continue
                if event[0] == "barrier":
                    waiting[core] = event
                    _release(places, waiting)
            if running and len(waiting) == len(running) and before == (len(running), len(waiting)):
                raise ProcessorFault(
                    "the barrier is deadlocked: cores wait for others that do not come",
                    where=function.name,
                    expected="every member of a barrier at it",
                    remedy="let every member reach it the same number of times",
                )


def _release(places: Sequence[Place], waiting: dict[Place, Event]) -> None:
    for event in set(waiting.values()):
        _, scope, members = event
        invited = [p for p in places if not members or p.is_memory_core == (members == "mpu")]
        clusters = {p.cluster for p in places} if scope == "cluster" else {-1}
        for cluster in clusters:
            here = [p for p in invited if cluster in (-1, p.cluster)]
            if here and all(waiting.get(p) == event for p in here):
                for core in here:
                    del waiting[core]


class _Core:
    """One core at work."""

    def __init__(self, owner: Interpreter, member: Member) -> None:
        self.owner, self.place, self.special = owner, member.place, member.special
        self.memory = owner.memory
        self.random_block = self.executed = 0

    def call(self, function: Function, arguments: Sequence[int]) -> Steps:
        frame = Frame()
        block, passed = function.blocks[0], list(arguments)
        while True:
            frame.values.update(zip(block.args, passed, strict=True))
            for op in block.ops:
                try:
                    yield from self._execute(op, frame)
                except (MemoryFault, IllegalOperands) as error:
                    raise self._fault(str(error), op) from None
            last = block.ops[-1]
            if last.opcode == "return":
                return [frame.word(value) for value in last.operands]
            block, passed = self._follow(last, frame)

    def _follow(self, last: Op, frame: Frame) -> tuple[Block, list[int]]:
        if last.opcode == "trap":
            raise self._fault(last.attrs["message"] or f"trapped with code {last.attrs['code']}", last)
        taken = 0 if last.opcode == "jump" or frame.word(last.operands[0]) else 1
        target = last.targets[taken]
        return target.block, [frame.word(value) for value in target.args]

    def _fault(self, what: str, op: Op) -> ProcessorFault:
        who = "memory core" if self.place.is_memory_core else f"core {self.place.core}"
        return ProcessorFault(
            what,
            where=f"cluster {self.place.cluster} {who}, task {self.special['taskId']}: {op.location}",
            expected="an operation that the machine allows",
            remedy="correct the kernel, or its arguments",
        )

    def _execute(self, op: Op, frame: Frame) -> Generator[Event, None, None]:
        self.executed += 1
        if op.opcode in PURE:
            frame.values[op.result] = self._pure(op, frame)
        elif op.opcode == "call":
            called = self.owner.module.functions[op.attrs["function"]]
            words = yield from self.call(called, [frame.word(value) for value in op.operands])
            frame.values.update(zip(op.results, words, strict=True))
        elif op.opcode == "barrier":
            yield ("barrier", op.attrs["scope"], op.attrs["members"])
        else:
            _EFFECTS[op.opcode](self, op, frame)
            if op.opcode in ("atomic", "cas"):
                yield ("atomic", "", "")

    def _pure(self, op: Op, frame: Frame) -> int:
        if op.opcode == "address":
            return self.buffer_address(op.attrs["buffer"])
        if op.opcode == "table":
            return self.owner.tables[op.attrs["table"]]
        if op.opcode == "special":
            return self.special.get(op.attrs["name"], 0) & MASK
        return evaluate(op, [frame.word(value) for value in op.operands])

    def buffer_address(self, buffer: Buffer) -> int:
        offset = self.owner.layout.offsets[buffer]
        if buffer.space == STACK:
            return self.special["stack"] - self.owner.layout.sizes[STACK] + offset
        return address(LETTERS[buffer.space], offset)

    def tensor(self, op: Op, frame: Frame) -> None:
        promise = contract(op.attrs["row"])
        row = promise.row
        values: dict[str, Any] = {f"f{place}": fmt for place, fmt in enumerate(op.attrs["formats"])}
        values.update(zip((flag.name for flag in row.flags), op.attrs["flags"], strict=True))
        for name, value in zip(promise.fields, op.operands, strict=True):
            word = frame.word(value)
            values[name] = signed(word) if name in SIGNED_FIELDS and promise.access(name) is None else word
        o = Operands(values)
        if row.mnemonic == "RV":
            values.update(seed=self.special["randomSeed"], counter=self.random_block)
            self.random_block += -(-max(o.n, 0) // 4)
        results = perform(row.mnemonic, o, self.memory, self.place)
        for result, word in zip(op.results, results, strict=True):
            frame.values[result] = word


def perform(mnemonic: str, o: Operands, memory: Memory, place: Place) -> list[int]:
    """One tensor instruction on a memory; the words it leaves in registers."""
    row = contract(mnemonic).row
    assert row.meaning is not None and row.writes is not None
    reads = row.reads(o) if row.reads else ()
    writes = row.writes(o)
    for target in writes:
        memory.view(place, target)  # faults come before any change
    arrays = [memory.read(place, source) for source in reads]
    with np.errstate(all="ignore"):
        results = KERNELS.get(mnemonic, row.meaning)(o, *arrays)
    for target, array in zip(writes, results, strict=False):
        memory.write(place, target, array)
    return [int(value) & MASK for value in results[len(writes) :]]


def _load(core: _Core, op: Op, frame: Frame) -> None:
    at = (frame.word(op.operands[0]) + op.attrs["offset"]) & MASK
    element = core.memory.read(core.place, region(at, op.fmt, (1,), LOADABLE))
    frame.values[op.result] = to_register(op.fmt, element)


def _store(core: _Core, op: Op, frame: Frame) -> None:
    at = (frame.word(op.operands[1]) + op.attrs["offset"]) & MASK
    element = from_register(op.fmt, frame.word(op.operands[0]))
    core.memory.write(core.place, region(at, op.fmt, (1,), STORABLE), element)


def _atomic(core: _Core, op: Op, frame: Frame) -> None:
    words = [frame.word(value) for value in op.operands]
    at = region(words[0], op.fmt, (1,), ATOMIC_SPACES)
    old = core.memory.read(core.place, at).copy()
    given = from_register(op.fmt, words[-1])
    if op.opcode == "atomic":
        core.memory.write(core.place, at, ATOMIC_FUNCTIONS[op.attrs["op"]](op.fmt, old, given))
    elif old[0] == from_register(op.fmt, words[1])[0]:
        core.memory.write(core.place, at, given)
    frame.values[op.result] = to_register(op.fmt, old)


def _print(core: _Core, op: Op, frame: Frame) -> None:
    words = iter([(value.type, frame.word(value)) for value in op.operands])

    def text(match: Any) -> str:
        if match[0] == "%%":
            return "%"
        kind, word = next(words)
        return _formatted(match, word, kind is F64)

    core.owner.printed.append(PRINTF.sub(text, op.attrs["format"]))


def _formatted(match: Any, word: int, is_float: bool) -> str:
    spec = "".join(c for c in match[0] if c not in "hlz")
    if match[1] in "fFeEgG":
        return spec % float(from_register(F64, word)[0]) if is_float else spec % float(signed(word))
    if match[1] in "di":
        return spec.replace("i", "d") % signed(word)
    if match[1] == "c":
        return chr(word & 0xFF)
    if match[1] == "p":
        return f"{word:#x}"
    return (spec[:-1] + "d" if match[1] == "u" else spec) % word


def _clock(core: _Core, op: Op, frame: Frame) -> None:
    frame.values[op.result] = core.executed


def _get(core: _Core, op: Op, frame: Frame) -> None:
    frame.values[op.result] = frame.variables.get(op.attrs["variable"], 0)


def _set(core: _Core, op: Op, frame: Frame) -> None:
    frame.variables[op.attrs["variable"]] = frame.word(op.operands[0])


def _nothing(core: _Core, op: Op, frame: Frame) -> None:
    """Order and lifetimes: function is program order."""


_EFFECTS = {"load": _load, "store": _store, "atomic": _atomic, "cas": _atomic, "print": _print, "get": _get,
            "clock": _clock,
            "set": _set, "tensor": _Core.tensor, "sync": _nothing, "begin": _nothing, "note": _nothing,
            "keep": _nothing,
            **dict.fromkeys(("jump", "branch", "return", "trap"), _nothing)}  # fmt: skip


def interpret(
    module: KernelModule,
    entry: str,
    machine: Machine,
    memory: Memory,
    arguments: Sequence[int],
    dim: tuple[int, int, int] = (1, 1, 1),
    task: str = "block",
    seed: int = 0,
) -> str:
    """Runs an entry of the module on a memory; what it printed."""
    return Interpreter(module, machine, memory).launch(entry, arguments, dim, task, seed)


__all__ = ["Interpreter", "interpret", "perform"]
