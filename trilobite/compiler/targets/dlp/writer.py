"""Kernel IR in structured form: loops, conditions, sizes that are numbers or values, copies, vector rows.

Enters: a module, a function's name and its parameters. Leaves: a finished function. Sizes and indices are
Python integers where they are known and kernel IR values where they are not; arithmetic on known ones is done
here. It knows no primitive and no tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trilobite.processor.isa.formats import I64, Format
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Buffer, Constant, Function, KernelModule, Value
from trilobite.processor.lang.types import Pointer, Type
from trilobite.processor.machine import Machine

Int = int | Value
GDRAM = Pointer("gdram")
ALIGN = 128  # bytes: a granule of the vector unit
SMALL = 16  # elements: of them places in a tile stay aligned to any format


class Writer:
    """One function while it is written."""

    def __init__(
        self,
        module: KernelModule,
        name: str,
        parameters: Sequence[Type],
        machine: Machine,
        cores: int = 1,
        entry: bool = False,
    ) -> None:
        self.module, self.machine, self.cores = module, machine, cores
        self.function = Function(name, entry=entry, routine=not entry)
        module.add_function(self.function)
        self.b = Builder(module, self.function)
        self.params: list[Value] = [
            self.b.block.add_argument(kind, f"p{place}") for place, kind in enumerate(parameters)
        ]

    @classmethod
    def around(cls, builder: Builder, machine: Machine) -> Writer:
        """A writer that goes on where a builder stands."""
        made = cls.__new__(cls)
        made.module, made.machine, made.cores = builder.module, machine, 1
        made.function, made.b, made.params = builder.function, builder, []
        return made

    def finish(self) -> Function:
        self.b.ret()
        return self.function

    # -- sizes -----------------------------------------------------------------------------------------------

    def value(self, n: Int) -> Value:
        return Constant(I64, n) if isinstance(n, int) else n

    def _two(self, opcode: str, a: Int, b: Int) -> Value:
        return self.b.arithmetic(opcode, I64, self.value(a), self.value(b))

    def add(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 and isinstance(a, int):
            return b
        return a if isinstance(b, int) and b == 0 else self._two("add", a, b)

    def sub(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if isinstance(b, int) and b == 0 else self._two("sub", a, b)

    def mul(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for one, other in ((a, b), (b, a)):
            if isinstance(one, int) and one in (0, 1):
                return other if one else 0
        return self._two("mul", a, b)

    def div(self, a: Int, b: Int) -> Int:
        """Of what is not negative."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return a if isinstance(b, int) and b == 1 else self._two("div", a, b)

    def rem(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        return 0 if isinstance(b, int) and b == 1 else self._two("rem", a, b)

    def least(self, a: Int, b: Int) -> Int:
        return min(a, b) if isinstance(a, int) and isinstance(b, int) else self._two("min", a, b)

    def most(self, a: Int, b: Int) -> Int:
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else self._two("max", a, b)

    def compare(self, opcode: str, a: Int, b: Int) -> Value:
        return self._two(opcode, a, b)

    # -- control ---------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, start: Int, stop: Int, step: Int = 1) -> Iterator[Int]:
        """The index, from start below stop. A loop that runs once is none."""
        known = isinstance(start, int) and isinstance(stop, int) and isinstance(step, int)
        if known and start < stop <= start + step:  # type: ignore[operator]
            yield start
            return
        b, function = self.b, self.function
        head, body, done = (function.add_block(name) for name in ("loop", "body", "done"))
        b.jump(head, self.value(start))
        b.block = head
        index = head.add_argument(I64, "i")
        b.branch(self.compare("lt", index, stop), body, done)
        b.block = body
        yield index
        b.jump(head, self.value(self.add(index, step)))
        b.block = done

    @contextmanager
    def when(self, truth: Value) -> Iterator[None]:
        yes, done = self.function.add_block("when"), self.function.add_block("done")
        self.b.branch(truth, yes, done)
        self.b.block = yes
        yield
        self.b.jump(done)
        self.b.block = done

    def task(self) -> Int:
        """The number of this core among those of the launch."""
        return 0 if self.cores == 1 else self.b.special("taskId")

    @contextmanager
    def shared_loop(self, count: Int) -> Iterator[Int]:
        """0 to count, dealt to the cores in turn."""
        with self.loop(self.task(), count, self.cores) as index:
            yield index

    @contextmanager
    def first_core(self) -> Iterator[None]:
        if self.cores == 1:
            yield
            return
        with self.when(self.compare("eq", self.task(), 0)):
            yield

    # -- memory ----------------------------------------------------------------------------------------------

    def buffer(self, name: str, size: int, space: str = "nram") -> Value:
        """A static array of at least one byte."""
        full = f"{self.function.name}.{name}"
        made = Buffer(full, space, max(-(-size // ALIGN) * ALIGN, ALIGN), ALIGN)
        return self.b.address(self.module.add_buffer(made))

    def at(self, pointer: Value, offset: Int) -> Value:
        """That many bytes further."""
        if isinstance(offset, int) and offset == 0:
            return pointer
        return self.b.offset(pointer, self.value(offset))

    def copy(self, dst: Value, src: Value, size: Int) -> None:
        self.b.tensor("COPY", [dst, src, self.value(size)])

    def copy2(self, dst: Value, src: Value, size: Int, dst_stride: Int, src_stride: Int, count: Int) -> None:
        self.b.tensor("COPY2", [dst, src, *map(self.value, (size, dst_stride, src_stride, count))])

    def copy3(self, dst: Value, src: Value, size: Int, inner: Sequence[Int], outer: Sequence[Int]) -> None:
        """`inner` and `outer` are (dst stride, src stride, count)."""
        self.b.tensor("COPY3", [dst, src, *map(self.value, (size, *inner, *outer))])

    def load(self, fmt: Format, pointer: Value, offset: Int = 0) -> Value:
        return self.b.load(fmt, self.at(pointer, offset))

    def store(self, fmt: Format, value: Value, pointer: Value, offset: Int = 0) -> None:
        self.b.store(fmt, value, self.at(pointer, offset))

    def vector(
        self, row: str, fmts: Format | Sequence[Format], *operands: Int, flags: Sequence[str] = ()
    ) -> None:
        formats = (fmts,) if isinstance(fmts, Format) else tuple(fmts)
        self.b.tensor(row, [self.value(o) for o in operands], formats, flags)


def padded(size: int) -> int:
    """Bytes up to the next granule."""
    return -(-size // ALIGN) * ALIGN


def slots(count: int) -> int:
    """Elements that a tile of up to `count` has room for: whole granules, of small ones what any format is
    aligned to."""
    step = ALIGN if count > ALIGN - SMALL else SMALL
    return -(-count // step) * step


def nram_room(machine: Machine) -> int:
    """Bytes of NRAM that a function may fill with buffers."""
    return (machine.core.nram.kib - machine.core.nram.reserved_kib) * 1024
