"""Host programs that run beside the simulated device: a lab's `main` with its launches, unmodified.

Enters: a source with `main` and kernels, a machine, arguments of the command line. Leaves: the exit code of
`main`; what it and its kernels print goes to the terminal. The host part is compiled for this computer by
the same clang and runs in this process; `cnrt*` functions and launches come back here, to a `Cnrt`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.base.errors import KernelError, TrilobiteError
from trilobite.processor.device import Module
from trilobite.processor.lang.bang import clang
from trilobite.processor.lang.bang.cnrt import Cnrt, DevicePointer, Queue
from trilobite.processor.lang.bang.headers import INCLUDE
from trilobite.processor.lang.bang.host_text import MAIN, has_main, host_text
from trilobite.processor.lang.bang.kernel import BangProgram, compile_bang
from trilobite.processor.lang.bang.preprocess import Options, preprocessed, refused

_LIBRARY = INCLUDE / "host" / "library.h"
_P, _L, _D = ctypes.c_void_p, ctypes.c_long, ctypes.c_double
_VALUES, _SIZES = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_ulong)
_MASK = (1 << 64) - 1
MEMORY_MIB = 24 << 10  # of DRAM, as programs are told; a launch takes what this computer has
CAPABILITY, TASKS, QUEUES = (
    (3, 0),
    (65535, 65535, 65535),
    128,
)  # what programs are told of versions and limits


def is_program(path: str | Path) -> bool:
    """Whether a source holds a `main` and is to be run as it is."""
    file = Path(path)
    return file.suffix != ".py" and file.is_file() and has_main(file.read_text("utf-8", errors="replace"))


def run_program(path: str | Path, machine: str, options: Options, args: Sequence[str] = ()) -> int:
    """Builds the program, runs its `main`, and says on the error output what the device did."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise KernelError(
            "host programs run on x86-64 computers only", where=str(path), expected="x86-64",
            remedy="launch the kernel with --kernel",
        )  # fmt: skip
    file = Path(path)
    runtime = Cnrt(machine)
    host = _compiled_host(file, runtime, options)
    program = _Program(runtime, compile_bang(file, runtime.device.machine, options), host)
    code = program.main([file.name, *args])
    program.report()
    return code


def _compiled_host(file: Path, runtime: Cnrt, options: Options) -> ctypes.CDLL:
    """The host part as a library in this process."""
    words = [f"-Dmain={MAIN}", "-I", str(INCLUDE / "host"), "-include", str(_LIBRARY)]
    text, missing = preprocessed(file, runtime.device.machine, options, is_lean=False, first=words)
    library, faults = clang.to_host(host_text(text))
    if library is None:
        raise refused(file, faults, missing)
    try:
        return _loaded(library)
    except OSError as error:
        symbol = str(error).rpartition(": ")[2]
        raise KernelError(
            f"the host part of {file.name} calls what is not there: {plain_name(symbol)}",
            where=file.name,
            expected="the C library, the runtime in the manner of CNRT, strings, containers, streams, clocks",
            remedy="write it another way, or run the kernel alone with --kernel",
        ) from None


def plain_name(symbol: str) -> str:
    """`std::stoul` of `_ZNSt3__15stoulERK...`: the parts of a mangled name, without its parameters."""
    text = symbol.strip()
    if not text.startswith("_Z"):
        return text
    rest = re.sub(r"^_ZN?[VrKO]*", "", text)
    parts = ["std"] if rest.startswith("St") else []
    rest = rest.removeprefix("St")
    while size := re.match(r"\d+", rest):
        end = size.end() + int(size[0])
        parts.append(rest[size.end() : end])
        rest = rest[end:]
    return "::".join(part for part in parts if part != "__1") or text


def _loaded(library: bytes) -> ctypes.CDLL:
    """The library out of memory: between its check and its loading no file can be exchanged."""
    handle = os.memfd_create("host.so")
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(library)
        return ctypes.CDLL(f"/proc/self/fd/{handle}", mode=os.RTLD_NOW)
    finally:
        os.close(handle)


class _Program:
    """A host program while it runs: the callbacks that its runtime reaches through a table."""

    def __init__(self, runtime: Cnrt, device: BangProgram, host: ctypes.CDLL) -> None:
        self._runtime, self._device, self._host = runtime, device, host
        self._module = Module(device)
        self._queues: dict[int, Queue] = {0: runtime.cnrtQueueCreate()}
        self._far: list[Any] = []
        self._kernels = _addresses(device, host)
        self._libc = ctypes.CDLL(None)
        given: list[tuple[Callable[..., Any], Any, tuple[Any, ...]]] = [
            (self._malloc, ctypes.c_ulong, (ctypes.c_ulong,)), (self._free, None, (_P,)),
            (self._memcpy, None, (_P, _P, ctypes.c_ulong, _L)),
            (self._memset, None, (_P, _L, ctypes.c_ulong)),
            (self._start, None, (_P, ctypes.POINTER(ctypes.c_int), _L, _P, _VALUES, _SIZES, _L)),
            (self._queue, _L, ()), (self._time, _D, (_P,)), (self._attribute, _L, (_L,)),
            (self._name, None, (_P, _L)),
        ]  # fmt: skip
        self._callbacks = [ctypes.CFUNCTYPE(result, *kinds)(_guarded(f)) for f, result, kinds in given]
        table = (ctypes.c_void_p * len(given)).in_dll(host, "__dlp_table")
        for place, callback in enumerate(self._callbacks):
            table[place] = ctypes.cast(callback, ctypes.c_void_p).value

    def main(self, args: Sequence[str]) -> int:
        words = [arg.encode() for arg in args]
        argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
        names = (MAIN, f"_Z{len(MAIN)}{MAIN}v", f"_Z{len(MAIN)}{MAIN}iPPc", f"_Z{len(MAIN)}{MAIN}iPPKc")
        entry = next(getattr(self._host, name) for name in names if hasattr(self._host, name))
        code = entry(len(words), argv)
        self._libc.fflush(None)
        return int(code)

    def report(self) -> None:
        runs = [run for queue in self._queues.values() for run in queue.runs]
        machine = self._runtime.device.machine.name
        time = sum(run.seconds for run in runs) * 1e6
        print(
            f"{machine}: {len(runs)} launches, {sum(run.cycles for run in runs)} cycles, {time:.1f} us",
            file=sys.stderr,
        )

    # what the runtime asks for
    def _malloc(self, size: int) -> int:
        return self._runtime.cnrtMalloc(size).address

    def _free(self, pointer: int | None) -> None:
        self._runtime.cnrtFree(DevicePointer(pointer or 0))

    def _memcpy(self, dst: int | None, src: int | None, size: int, way: int) -> None:
        ends = [(dst or 0), (src or 0)]
        is_host = {0: (False, True), 1: (True, False), 2: (False, False), 3: (True, True)}[way]
        found = [
            _host_bytes(a, size) if host else DevicePointer(a) for a, host in zip(ends, is_host, strict=True)
        ]
        self._runtime.cnrtMemcpy(found[0], found[1], size, way)

    def _memset(self, pointer: int | None, value: int, size: int) -> None:
        self._runtime.cnrtMemset(DevicePointer(pointer or 0), value, size)

    def _queue(self) -> int:
        number = len(self._queues)
        self._queues[number] = self._runtime.cnrtQueueCreate()
        return number

    def _time(self, queue: int | None) -> float:
        return self._queues[queue or 0].microseconds

    def _attribute(self, which: int) -> int:
        machine = self._runtime.device.machine
        core = machine.core
        known = [
            machine.clusters,
            machine.cores_per_cluster,
            core.nram.bytes,
            core.wram.bytes,
            machine.sram.bytes,
            MEMORY_MIB,
            round(machine.clock_ghz * 1e6),
            *CAPABILITY,
            machine.clusters,
            *TASKS,
            QUEUES,
            -(-self._runtime.allocated // 1024),
        ]
        return known[which] if which < len(known) else 0

    def _name(self, place: int, size: int) -> None:
        """The part's name as cards give it, in capitals."""
        text = self._runtime.device.machine.name.upper().encode()[: size - 1] + b"\0"
        ctypes.memmove(place, text, len(text))

    def _start(
        self, kernel: int, dim: Any, kind: int, queue: int | None, values: Any, sizes: Any, count: int
    ) -> None:
        name = self._kernels.get(kernel, "")
        if not name:
            raise KernelError(
                "a launch of what is no kernel", expected="an entry of the source", remedy="launch one"
            )
        given = [ctypes.string_at(values[i], sizes[i]) for i in range(count)]
        words = self._words(name, given)
        place = self._queues[queue or 0]
        run = self._runtime.launch(self._module[name], (dim[0], dim[1], dim[2]), kind, place, words)
        if run.printed:
            self._libc.fflush(None)
            os.write(1, run.printed.encode("utf-8", "replace"))

    def _words(self, name: str, given: Sequence[bytes]) -> list[Any]:
        """Parameters as the words that the entry takes."""
        kinds = [kind for _, kind in self._device.parameters[name]]
        words: list[Any] = []
        for content in given:
            kind = kinds[len(words)] if len(words) < len(kinds) else "i64"
            if kind == "ptr.gdram" and len(content) != 8:
                self._far.append(self._runtime.device.array(np.frombuffer(content, np.uint8)))
                words.append(self._far[-1])
            elif len(content) <= 8:
                words.append(int.from_bytes(content, "little", signed=kind.startswith("i")) & _MASK)
            else:
                padded = content + bytes(-len(content) % 8)
                words += [int.from_bytes(padded[at : at + 8], "little") for at in range(0, len(padded), 8)]
        return words


def _addresses(device: BangProgram, host: ctypes.CDLL) -> dict[int, str]:
    """Where the host part has each kernel: clang gives it one name on both sides."""
    found = {}
    for name in device.parameters:
        symbol = device.linkage.get(name, name)
        if hasattr(host, symbol):
            found[ctypes.cast(getattr(host, symbol), _P).value or 0] = name
    return found


def _host_bytes(address: int, size: int) -> Any:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """An error of the simulator ends the program, as a lost card would."""

    def called(*args: Any) -> Any:
        try:
            return function(*args)
        except TrilobiteError as error:
            ctypes.CDLL(None).fflush(None)
            print(f"error: {error}", file=sys.stderr, flush=True)
            os._exit(1)

    return called
