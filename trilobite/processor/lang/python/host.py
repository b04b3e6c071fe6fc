"""Python kernels without a compiler: the function itself runs and acts on a device's memory at once.

Enters: a kernel, a device, arguments, a task grid. Leaves: changed arrays. Every task runs the user's own
Python code, so breakpoints, prints and any Python debugger work inside it. Tensor operations are the rows'
meanings, the same that the processor executes. Cores of a union task are threads that take turns: each runs
to its next meeting with the others.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import KernelError, ProcessorFault
from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.isa.formats import BF16, F32, F64, I64, Format
from trilobite.processor.isa.row import (
    VALUE_FIELDS,
    IllegalOperands,
    Operands,
    region,
    signed,
    value_format,
)
from trilobite.processor.isa.rows.scalar import from_register, to_register
from trilobite.processor.lang.interpreter import perform
from trilobite.processor.lang.intrinsics import contract
from trilobite.processor.lang.ir import Buffer, Constant
from trilobite.processor.lang.python.bfloat import BFloat
from trilobite.processor.lang.python.context import within
from trilobite.processor.lang.python.sites import site
from trilobite.processor.lang.python.view import View, bytes_of
from trilobite.processor.lang.scalar import MASK, constant_word, convert_word, scalar_row
from trilobite.processor.lang.scratchpad import place
from trilobite.processor.lang.types import is_float
from trilobite.processor.machine import Machine
from trilobite.processor.sim.control import ATOMIC_FUNCTIONS, ATOMIC_SPACES, LOADABLE, PRINTF, STORABLE
from trilobite.processor.sim.memory import Memory, MemoryFault
from trilobite.processor.sim.tasks import Member, rounds


class Stack:
    """Buffers by the place in the source that asked for them, the same for all cores."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.buffers: dict[object, Buffer] = {}
        self.offsets: dict[Buffer, int] = {}
        self.used: dict[str, int] = {}

    def place(self, key: object, space: str, size: int) -> int:
        if key not in self.buffers:
            buffer = self.buffers[key] = Buffer(str(len(self.buffers)), space, size)
            self.offsets[buffer] = -(-self.used.get(space, 0) // 64) * 64
            self.used[space] = self.offsets[buffer] + size
            place([b for b in self.buffers.values()], self.machine)  # complains if it overflows
        return address(LETTERS[space], self.offsets[self.buffers[key]])


def scalar_of(fmt: Format, word: int) -> Any:
    """A register word as the scalar that Python code works with."""
    return _scalar(fmt, from_register(fmt, word)[0])


def _scalar(fmt: Format, element: Any) -> Any:
    if not is_float(fmt):
        return int(element)
    return BFloat(element) if fmt is BF16 else fmt.dtype.type(element)


def word_of(fmt: Format, value: Any) -> int:
    """The register word of a scalar in a format; floats are rounded, integers keep their low bits."""
    if isinstance(value, BFloat):
        value = value.value
    if is_float(fmt):
        if isinstance(value, np.generic) and value.dtype == fmt.dtype:
            word = to_register(fmt, np.asarray([value], fmt.dtype))
            # the host's arithmetic makes NaN with a sign, the processor's without; others stay as they are
            return word & ~(1 << (fmt.bits - 1)) if word == _host_nan(fmt) else word
        return constant_word(Constant(fmt, float(value)))
    return to_register(fmt, from_register(fmt, int(value) & MASK))


def _host_nan(fmt: Format) -> int:
    return to_register(fmt, np.asarray([-np.float64("nan")], fmt.dtype)) | 1 << (fmt.bits - 1)


class HostContext:
    """One core of an interpreted launch."""

    in_pipeline = False

    def __init__(self, launch: HostLaunch, member: Member, meet: Callable[[str, str], None]) -> None:
        self.launch, self.member, self.meet = launch, member, meet
        self.machine = launch.machine
        self.random_block = self.executed = 0

    def error(self, what: str, expected: str, remedy: str) -> KernelError:
        return KernelError(what, where=self.where(), expected=expected, remedy=remedy)

    def where(self) -> str:
        """The user's line: the nearest caller outside of this package."""
        frame: Any = sys._getframe(1)
        while frame is not None and "/trilobite/processor/lang/" in frame.f_code.co_filename.replace(
            "\\", "/"
        ):
            frame = frame.f_back
        return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "<unknown>"

    def _fault(self, error: Exception) -> ProcessorFault:
        core = self.member.place
        who = "memory core" if core.is_memory_core else f"core {core.core}"
        return ProcessorFault(
            str(error),
            where=f"cluster {core.cluster} {who}, task {self.member.special['taskId']}: {self.where()}",
            expected="an operation that the machine allows",
            remedy="correct the kernel, or its arguments",
        )

    def tensor(
        self,
        row: str,
        operands: Sequence[Any],
        formats: Sequence[Format],
        flags: Sequence[str],
        is_async: bool,
    ) -> list[Any]:
        promise = contract(row)
        values: dict[str, Any] = {f"f{n}": fmt for n, fmt in enumerate(formats)}
        values.update(zip((flag.name for flag in promise.row.flags), flags, strict=True))
        for name, given in zip(promise.fields, operands, strict=True):
            if promise.access(name) is not None:
                values[name] = given.address if isinstance(given, View) else 0
            elif name in VALUE_FIELDS:
                values[name] = word_of(value_format(name, formats), given)
            else:
                values[name] = int(given)
        if row == "RV":
            values.update(seed=self.member.special["randomSeed"], counter=self.random_block)
            self.random_block += -(-max(values["n"], 0) // 4)
        self.executed += 1
        try:
            return [signed(w) for w in perform(row, Operands(values), self.launch.memory, self.member.place)]
        except (MemoryFault, IllegalOperands) as error:
            raise self._fault(error) from None

    def load(self, fmt: Format, at: Any) -> Any:
        try:
            element = self.launch.memory.read(self.member.place, region(at, fmt, (1,), LOADABLE))
        except MemoryFault as error:
            raise self._fault(error) from None
        return _scalar(fmt, element[0])

    def store(self, fmt: Format, value: Any, at: Any) -> None:
        if not is_float(fmt) and isinstance(value, (float, np.floating, BFloat)):
            raise self.error(
                f"a float is stored into {fmt.name}", "an integer", f"convert: dlp.{fmt.name}(x)"
            )
        element = from_register(fmt, word_of(fmt, value))
        try:
            self.launch.memory.write(self.member.place, region(at, fmt, (1,), STORABLE), element)
        except MemoryFault as error:
            raise self._fault(error) from None

    def elements(self, view: View) -> Any:
        """One run of bytes for each place of the axes in front of what is dense."""
        dense = view.trailing_dense()
        outer = tuple(int(e) for e in view.shape[:dense])
        inner = tuple(int(e) for e in view.shape[dense:])
        found = np.empty((*outer, int(np.prod(inner))), view.fmt.dtype)
        for index in np.ndindex(outer):
            offset = sum(int(i) * int(s) for i, s in zip(index, view.strides, strict=False))
            at = view.address + int(bytes_of(view.fmt, offset))
            try:
                found[index] = self.launch.memory.read(
                    self.member.place, region(at, view.fmt, (found.shape[-1],), LOADABLE)
                )
            except MemoryFault as error:
                raise self._fault(error) from None
        return found.reshape(outer + inner)

    def shifted(self, at: Any, count: Any) -> Any:
        return (at + int(count)) & MASK

    def atomic(self, op: str, fmt: Format, at: Any, value: Any) -> Any:
        old = self._old(fmt, at)
        new = ATOMIC_FUNCTIONS[op](fmt, old, from_register(fmt, word_of(fmt, value)))
        self.launch.memory.write(self.member.place, region(at, fmt, (1,), ATOMIC_SPACES), new)
        return scalar_of(fmt, to_register(fmt, old))

    def compare_and_swap(self, fmt: Format, at: Any, expected: Any, value: Any) -> Any:
        old = self._old(fmt, at)
        if int(old[0]) == int(expected):
            self.store(fmt, value, at)
        return int(old[0])

    def _old(self, fmt: Format, at: Any) -> Any:
        try:
            return self.launch.memory.read(self.member.place, region(at, fmt, (1,), ATOMIC_SPACES)).copy()
        except MemoryFault as error:
            raise self._fault(error) from None

    def special(self, name: str) -> Any:
        return self.member.special[name]

    def clock(self) -> Any:
        return self.executed

    def sync(self, queues: Sequence[str]) -> None:
        """Function is program order."""

    def barrier(self, scope: str, members: str) -> None:
        self.meet(scope, members)

    def buffer(self, space: str, fmt: Format, shape: tuple[int, ...]) -> Any:
        key = site(sys._getframe(3), self.launch.code)
        return self.launch.stack.place(key, space, fmt.bytes(int(np.prod(shape))))

    def unary(self, opcode: str, value: Any) -> Any:
        fmt = _format_of(value)
        if opcode != "abs" and not is_float(fmt):
            raise self.error(f"{opcode} of an integer", "a float", "convert with dlp.f32(x)")
        row = scalar_row("S" + {"abs": "ABS"}.get(opcode, opcode.upper()))
        assert row.meaning is not None
        word = row.meaning(Operands({"f0": fmt, "a": word_of(fmt, value)}))[0]
        return scalar_of(fmt, word)

    def fused(self, a: Any, b: Any, c: Any) -> Any:
        fmt = next((_format_of(v) for v in (a, b, c) if isinstance(v, (np.generic, BFloat))), F32)
        row = scalar_row("SFMA")
        assert row.meaning is not None
        words = dict(zip("abc", (word_of(fmt, v) for v in (a, b, c)), strict=True))
        return scalar_of(fmt, row.meaning(Operands({"f0": fmt, **words}))[0])

    def extreme(self, opcode: str, a: Any, b: Any) -> Any:
        return min(a, b) if opcode == "min" else max(a, b)

    def convert(self, value: Any, fmt: Format, rounding: str) -> Any:
        source = _format_of(value)
        if is_float(fmt) or not is_float(source):
            if isinstance(value, (bool, int, float)):
                return scalar_of(fmt, word_of(fmt, value))
            return scalar_of(fmt, convert_word(word_of(source, value), source, fmt, "rn"))
        way = "rz" if rounding == "rn" else rounding
        return scalar_of(fmt, convert_word(word_of(source, value), source, fmt, way))

    def select(self, truth: Any, a: Any, b: Any) -> Any:
        return a if truth else b

    def printf(self, form: str, values: Sequence[Any]) -> None:
        left = iter(values)

        def text(match: Any) -> str:
            if match[0] == "%%":
                return "%"
            spec = "".join(c for c in match[0] if c not in "hlz")
            value = next(left)
            if match[1] in "fFeEgG":
                return spec % float(value)
            if match[1] == "c":
                return chr(int(value) & 0xFF)
            return str((spec[:-1] + "d" if match[1] in "ui" else spec) % int(value))

        self.launch.printed.append(PRINTF.sub(text, form))

    def trap(self, message: str) -> None:
        raise self._fault(MemoryFault(message))


def _format_of(value: Any) -> Format:
    from trilobite.processor.isa.formats import FLOATS

    if isinstance(value, BFloat):
        return BF16
    if isinstance(value, np.generic):
        return next((fmt for fmt in FLOATS if fmt.dtype == value.dtype), I64)
    return F64 if isinstance(value, float) else I64


class HostLaunch:
    """A grid of tasks on one memory."""

    def __init__(self, function: Callable[..., Any], machine: Machine, memory: Memory) -> None:
        self.function, self.machine, self.memory = function, machine, memory
        self.code: Any = function.__code__
        self.stack = Stack(machine)
        self.printed: list[str] = []

    def run(
        self, arguments: Callable[[], dict[str, Any]], dim: tuple[int, int, int], task: str, seed: int = 0
    ) -> str:
        with np.errstate(all="ignore"):
            for groups in rounds(self.machine, dim, task, seed):
                for group in groups:
                    if len(group) == 1:
                        self._task(group[0], arguments, lambda scope, members: None)
                    else:
                        Crew(self, group, arguments).work()
        return "".join(self.printed)

    def _task(
        self, member: Member, arguments: Callable[[], dict[str, Any]], meet: Callable[[str, str], None]
    ) -> None:
        with np.errstate(all="ignore"), within(HostContext(self, member, meet)):
            self.function(**arguments())


class Crew:
    """Threads of one union task, of which one runs at a time: each until it meets the others or ends."""

    def __init__(self, launch: HostLaunch, group: Sequence[Member], arguments: Callable[[], Any]) -> None:
        self.launch, self.group, self.arguments = launch, list(group), arguments
        self.turn = [threading.Semaphore(0) for _ in group]
        self.back = threading.Semaphore(0)
        self.waiting: dict[int, tuple[str, str]] = {}
        self.ended: set[int] = set()
        self.error: BaseException | None = None
        self.trace = sys.gettrace()  # a debugger that looks at the caller looks at every core

    def work(self) -> None:
        threads = [
            threading.Thread(target=self._body, args=(n,), daemon=True) for n in range(len(self.group))
        ]
        for thread in threads:
            thread.start()
        while len(self.ended) < len(self.group) and self.error is None:
            ready = [n for n in range(len(self.group)) if n not in self.waiting and n not in self.ended]
            if not ready:
                raise ProcessorFault(
                    "the barrier is deadlocked: cores wait for others that do not come",
                    where=self.launch.function.__name__,
                    expected="every member of a barrier at it",
                    remedy="let every member reach it the same number of times",
                )
            for number in ready:
                self.turn[number].release()
                self.back.acquire()
                if self.error is not None:
                    raise self.error
                self._release()

    def _body(self, number: int) -> None:
        self.turn[number].acquire()
        sys.settrace(self.trace)
        try:
            self.launch._task(self.group[number], self.arguments, lambda s, m: self._meet(number, s, m))
        except BaseException as error:
            self.error = error
        sys.settrace(None)
        self.ended.add(number)
        self.back.release()

    def _meet(self, number: int, scope: str, members: str) -> None:
        self.waiting[number] = (scope, members)
        self.back.release()
        self.turn[number].acquire()

    def _release(self) -> None:
        """Whoever waits at a complete meeting goes on."""
        for event in set(self.waiting.values()):
            scope, members = event
            places = [m.place for m in self.group]
            for cluster in {p.cluster for p in places} if scope == "cluster" else {-1}:
                here = [
                    n for n, p in enumerate(places)
                    if cluster in (-1, p.cluster) and (not members or p.is_memory_core == (members == "mpu"))
                ]  # fmt: skip
                if here and all(self.waiting.get(n) == event for n in here):
                    for n in here:
                        del self.waiting[n]
