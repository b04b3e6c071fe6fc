"""What a host program holds: a device with memory, modules and launches.

    dev = Device("dlp-m")  # a preset, the path of a YAML file, or a Machine
    x = dev.array([1.0, 2.0, 3.0, 4.0], "float32")
    module = dev.load('''
        .entry scale            // $0 array, $1 count, $2 factor
        .nram
        part: .space 4096
        .text
        scale:
            LA     $10, part
            VLOAD  $10, $1, $0, #0
            SYNC.io             // queues run side by side: who reads waits
            VMS    $10, $1, $10, $2
            SYNC.vector
            VSTORE $10, $1, $0, #0
    ''')  # assembly text; or a file of it, a binary, a linked Program, the source of a kernel
    run = dev.launch(module["scale"], dim=(1, 1, 1), task="block", args=[x, 4, 0.5])
    print(x.numpy().tolist(), run.cycles, run.stalls, run.energy.total)

Enters: NumPy arrays, programs, arguments. Leaves: arrays, and a `Run` with everything that was measured.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from trilobite.base.collection import uncollected
from trilobite.base.errors import ArgumentError, DeviceError, ShapeError
from trilobite.processor.isa.assembler import assemble
from trilobite.processor.isa.binary import load as load_object
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.program import Program, link
from trilobite.processor.lang.source import KernelSource
from trilobite.processor.machine import Machine, load_machine
from trilobite.processor.sim.chip import (
    MOST_CHECKED,
    MOST_INSTRUCTIONS,
    MOST_ONE_BY_ONE,
    MOST_RECORDS,
    Chip,
)
from trilobite.processor.sim.kernels import KERNELS
from trilobite.processor.sim.memory import NULL_PAGE, Memory
from trilobite.processor.sim.observer import Observer
from trilobite.processor.sim.run import Run

ALIGN = 256
HEAP = 1 << 20  # below it, DRAM is left to arrays at addresses of their own
listeners: list[Callable[[Run], None]] = []  # are told of every traced launch, when it is done


@dataclass(frozen=True)
class Statistics:
    """Bytes of device memory: now, at most so far, and what the part has."""

    used: int
    peak: int
    total: int
    arrays: int


class DeviceArray:
    """A typed block of device DRAM. It is freed when nobody holds it, or by `free`."""

    def __init__(self, device: Device, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.device, self.address, self.shape, self.dtype = device, address, shape, dtype
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self._freed = False

    def _view(self) -> Array:
        if self._freed:
            raise DeviceError(
                "the array was freed", expected="an array that is still there", remedy="allocate another"
            )
        raw = self.device.memory.gdram[self.address : self.address + self.nbytes]
        return raw.view(self.dtype).reshape(self.shape)

    def numpy(self) -> Array:
        """A copy of the values."""
        return self._view().copy()

    def write(self, values: Any) -> None:
        """Overwrites the values; shape must fit."""
        given = np.asarray(values)
        if given.shape != self.shape:
            raise ShapeError(
                f"values of shape {given.shape} for an array of shape {self.shape}",
                expected="the array's own shape",
                remedy="reshape them first",
            )
        self._view()[...] = given.astype(self.dtype)
        self.device.memory.unwritten.pop(self.address, None)

    def free(self) -> None:
        if not self._freed:
            self._freed = True
            self.device._release(self)

    def __del__(self) -> None:
        self.free()

    def __repr__(self) -> str:
        return f"DeviceArray({self.shape}, {self.dtype}, at {self.address:#x} of {self.device.machine.name})"


@dataclass(frozen=True)
class Kernel:
    """An entry of a module. A program without any `.entry` has one, without a name, at its beginning."""

    program: Program
    name: str

    @property
    def entry(self) -> str:
        """Its name, found out where there is only one."""
        entries = self.program.entries
        if not self.name and len(entries) <= 1:
            return next(iter(entries), "")
        if self.name not in entries:
            raise _unknown_entry(self.name, entries)
        return self.name

    @property
    def place(self) -> int:
        """The instruction at which a launch begins."""
        return self.program.entries.get(self.entry, 0)


def _unknown_entry(name: str, entries: Mapping[str, int]) -> ArgumentError:
    known = ", ".join(sorted(entries))
    return ArgumentError(
        f"the module has no entry {name!r}" if name else "the module has several entries",
        expected=f"one of {known}" if known else "a module with .entry lines",
        remedy="declare it with .entry" if name else 'launch one of them: module["name"]',
    )


class Module:
    """A linked program; `module["name"]` is one of its entries."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @property
    def names(self) -> list[str]:
        return sorted(self.program.entries)

    def __getitem__(self, name: str) -> Kernel:
        if name not in self.program.entries:
            raise _unknown_entry(name, self.program.entries)
        return Kernel(self.program, name)


class Device:
    """One part with its memory. Launches run at once and in order."""

    checks = False  # whether launches are checked for races and memory errors, unless they say so themselves

    def __init__(self, machine: str | Path | Machine) -> None:
        self.machine = load_machine(machine)
        self.memory = Memory(self.machine)
        self._free: list[tuple[int, int]] = [(HEAP, len(self.memory.gdram))]
        self._sizes: dict[int, int] = {}
        self._used = self._peak = 0
        self._device_data: WeakKeyDictionary[Program, DeviceArray] = WeakKeyDictionary()
        self._argument_tables: WeakKeyDictionary[Program, DeviceArray] = WeakKeyDictionary()

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def empty(self, shape: int | Sequence[int], dtype: Any = "float32") -> DeviceArray:
        """An array whose values are whatever the memory held."""
        extents = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
        if any(extent < 0 for extent in extents):
            raise ShapeError(
                f"a shape of {extents}", expected="extents of at least 0", remedy="correct the shape"
            )
        element = _element_type(dtype)
        array = DeviceArray(self, 0, extents, element)
        array.address = self._allocate(array.nbytes)
        self.memory.unwritten[array.address] = np.zeros(array.nbytes, np.uint8)
        return array

    def array(self, values: Any, dtype: Any = None, address: int | None = None) -> DeviceArray:
        """A copy of the values on the device; at an address below 1 MiB if a program wants it there."""
        given = np.asarray(values)
        element = _element_type(given.dtype if dtype is None else dtype)
        if address is None:
            made = self.empty(given.shape, element)
        else:
            made = DeviceArray(self, address, given.shape, element)
            self._reserve(made)
        made.write(given)
        return made

    def _reserve(self, array: DeviceArray) -> None:
        start, end = array.address, array.address + array.nbytes
        taken = any(start < other_end and other < end for other, other_end in self.memory.blocks)
        if start < NULL_PAGE or end > HEAP or taken:
            array._freed = True
            raise ArgumentError(
                f"an array cannot be placed at {start:#x} to {end:#x}",
                expected=f"free addresses from {NULL_PAGE:#x} to {HEAP:#x}",
                remedy="leave the address out",
            )
        self._account(start, max(array.nbytes, 1))

    def _account(self, start: int, size: int) -> None:
        self._sizes[start] = size
        self.memory.allow(start, size)
        self._used += size
        self._peak = max(self._peak, self._used)

    def _allocate(self, size: int) -> int:
        """First fit; the accessible block is exactly the array, the room behind it stays closed."""
        needed = -(-max(size, 1) // ALIGN) * ALIGN
        for place, (start, end) in enumerate(self._free):
            if end - start >= needed:
                self._free[place] = (start + needed, end)
                self._account(start, max(size, 1))
                return start
        raise DeviceError(
            f"{self.machine.name} has no room for {size} bytes",
            expected=f"at most {max((end - start for start, end in self._free), default=0)} bytes",
            remedy="free arrays that are no longer needed",
        )

    def _release(self, array: DeviceArray) -> None:
        size = self._sizes.pop(array.address, 0)
        if not size:
            return
        self.memory.forbid(array.address, size)
        self._used -= size
        if array.address >= HEAP:
            self._free.append((array.address, array.address + -(-size // ALIGN) * ALIGN))
            self._free = _merged(self._free)

    @property
    def statistics(self) -> Statistics:
        return Statistics(self._used, self._peak, len(self.memory.gdram), len(self._sizes))

    def load(self, source: str | Path | Program | KernelSource) -> Module:
        """Assembly text, a path of assembly (.s), BANG C (.mlu) or a binary (.dlp), a program, a kernel."""
        if isinstance(source, Program):
            return Module(source)
        if isinstance(source, KernelSource):
            return Module(source.program(self.machine))
        text = str(source)
        if "\n" not in text and text.endswith(".mlu"):
            from trilobite.processor.lang.bang.kernel import compile_bang

            return Module(compile_bang(text, self.machine))
        if "\n" not in text and text.endswith(".dlp"):
            return Module(link([load_object(text)]))
        if "\n" not in text and text.endswith(".s"):
            try:
                return Module(link([assemble(Path(text).read_text(encoding="utf-8"), Path(text).name)]))
            except (OSError, UnicodeDecodeError) as error:
                raise DeviceError(
                    f"the program cannot be read: {error}", where=text, remedy="check the path"
                ) from error
        return Module(link([assemble(text)]))

    def launch(
        self,
        kernel: Kernel | Module | KernelSource,
        args: Sequence[Any] = (),
        dim: tuple[int, int, int] = (1, 1, 1),
        task: str = "block",
        *,
        seed: int = 0,
        limit: int | None = MOST_INSTRUCTIONS,
        trace_limit: int | None = MOST_RECORDS,
        traced: bool = True,
        checks: bool | None = None,
        poison: bool = False,
    ) -> Run:
        """Runs the kernel for every task of the grid. `traced=False` computes only, and measures nothing.

        `checks` looks for races and memory errors, which end in `CheckFailed`; left out, the device's
        `checks` decides. A launch that executes more than `limit` instructions, or leaves more than
        `trace_limit` records, faults; None means any number. Checked launches have a lower usual limit.
        `poison` makes in-flight results look wrong until somebody waits for them.
        """
        watched = self.checks if checks is None else checks
        if watched and isinstance(kernel, KernelSource):
            kernel = kernel.checked(self.machine)
        chosen, words = self._chosen(kernel, args, dim, task)
        usual = limit == MOST_INSTRUCTIONS
        most = MOST_ONE_BY_ONE if usual else None  # a limit that is given stands alone
        limit = MOST_CHECKED if usual and watched else limit
        with self._watch(chosen.program, watched, poison, most) as observer:
            chip = Chip(self.machine, self.memory, KERNELS, observer=observer)
            execution = chip.execute(
                chosen.program, chosen.place, words, dim, task, traced, seed, limit, trace_limit
            )
        run = Run(self.machine, chosen.program, execution, traced)
        for tell in listeners if traced else ():
            tell(run)
        return run

    def time(
        self,
        kernel: Kernel | Module | KernelSource,
        args: Sequence[Any] = (),
        dim: tuple[int, int, int] = (1, 1, 1),
        task: str = "block",
        *,
        seed: int = 0,
        limit: int | None = MOST_INSTRUCTIONS,
        trace_limit: int | None = MOST_RECORDS,
    ) -> Run:
        """What `launch` would give, without its data: cycles, energy and stalls, and memory stays as it is.

        Control and scalar code run, tensor instructions only leave records. A launch in which the value of a
        tensor decides control, an address or a size is refused with `DataDependence`.
        """
        from trilobite.processor.sim.dry_launch import execute_dry

        chosen, words = self._chosen(kernel, args, dim, task)
        with uncollected():
            done = execute_dry(
                self.machine, self.memory, chosen.program, chosen.place, words, dim, task, seed, limit,
                trace_limit,
            )  # fmt: skip
        return Run(self.machine, chosen.program, done)

    def _chosen(
        self,
        kernel: Kernel | Module | KernelSource,
        args: Sequence[Any],
        dim: tuple[int, int, int],
        task: str,
    ) -> tuple[Kernel, list[int]]:
        """The entry that is launched, and the words that it takes."""
        if isinstance(kernel, KernelSource):
            kernel = kernel.chosen_for(self, args, dim, task)
            chosen, words = Kernel(kernel.program(self.machine), kernel.name), kernel.words(args)
        else:
            chosen = kernel if isinstance(kernel, Kernel) else Kernel(kernel.program, "")
            words = [argument_word(value) for value in args]
        return chosen, self.entry_words(chosen, words)

    def entry_words(self, kernel: Kernel, words: Sequence[int]) -> list[int]:
        """What a launch passes: the arguments, behind them where the program's own variables are, if it has
        any; or the address of a table of all these, for an entry that takes one."""
        program, given = kernel.program, list(words)
        if program.device_data:
            if program not in self._device_data:
                self._device_data[program] = self.array(np.frombuffer(program.device_data, np.uint8))
            given.append(self._device_data[program].address)
        if kernel.entry not in program.tabled:
            return given
        table = np.array(given, np.uint64)
        known = self._argument_tables.get(program)
        if known is not None and known.shape == table.shape:
            known.write(table)
        else:
            known = self._argument_tables[program] = self.array(table)
        return [known.address]

    def _watch(
        self, program: Program, checks: bool, poison: bool, most: int | None
    ) -> AbstractContextManager[Observer | None]:
        if not (checks or poison):
            self.memory.unwritten.clear()  # nobody watches what is written now
            return nullcontext()
        from trilobite.processor.tools.checks import checking

        return checking(self.machine, self.memory, program, raises=checks, poison=poison, most=most)


def argument_word(value: Any) -> int:
    """The 64 bits in which an argument travels: an address, an integer, or a float as the bits of an fp32."""
    if isinstance(value, DeviceArray):
        return value.address
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return int(value) & ((1 << 64) - 1)
    if isinstance(value, (float, np.float32)):  # np.float64 is a float
        return int(struct.unpack("<I", np.float32(value).tobytes())[0])
    if isinstance(value, np.generic) and value.dtype.itemsize <= 8:
        return int.from_bytes(value.tobytes(), "little")
    raise ArgumentError(
        f"a kernel cannot take a {type(value).__name__}",
        expected="device arrays, integers, floats (passed as fp32) or NumPy scalars",
        remedy="copy arrays to the device with dev.array",
    )


def _element_type(dtype: Any) -> np.dtype[Any]:
    import ml_dtypes

    if isinstance(dtype, str) and hasattr(ml_dtypes, dtype):
        dtype = getattr(ml_dtypes, dtype)
    element: np.dtype[Any] = np.dtype(dtype)
    if element.name in ("int2", "int4", "uint2", "uint4"):
        raise ArgumentError(
            f"a device array of {element.name} would hold one value a byte, the processor reads two",
            expected="a type of whole bytes",
            remedy="pack the values with trilobite.processor.isa.formats.pack and copy the bytes as uint8",
        )
    return element


def _merged(blocks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbouring free blocks become one."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(blocks):
        if result and result[-1][1] == start:
            result[-1] = (result[-1][0], end)
        elif start < end:
            result.append((start, end))
    return result
