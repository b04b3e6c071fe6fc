"""The machine code that every program shares: thread pool and driver, from the `.ll` files beside this one.

Enters: nothing. Leaves: the addresses of its functions, and control blocks (`pool.ll` says what is in one).
It starts no thread and runs no program.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.base.errors import DeviceError
from trilobite.native.cache import Kernels, ahead, kernels
from trilobite.native.host import features
from trilobite.native.memory import zeros
from trilobite.native.objects import symbol

Words = np.ndarray[Any, np.dtype[np.int64]]

MOST_THREADS = 256
_PAUSE = {
    "x86": "declare void @llvm.x86.sse2.pause()\n"
    "define internal void @pause() {\n  call void @llvm.x86.sse2.pause()\n  ret void\n}",
    "arm": "declare void @llvm.aarch64.hint(i32)\n"
    "define internal void @pause() {\n  call void @llvm.aarch64.hint(i32 1)\n  ret void\n}",
}
_FUTEX = {"x86": "202", "arm": "98"}  # numbers of system calls
_AFFINITY = {"x86": "203", "arm": "122"}
_FUNCTIONS = "worker publish call call_on call_brief seize release place_anywhere".split()
_EXCHANGES = "exchange_start exchange_poll exchange_wait".split()
_FUTEX_FUNCTIONS = "sleep wake place".split()
_HEADER = object.__basicsize__  # of every Python object; its type comes last
_FLAGS = _HEADER + 48  # of an array: behind its data, rank, shape, strides, base and dtype


class Runtime:
    """Addresses by name. `sleep`, `wake` and `place` are there on Linux only."""

    def __init__(self, addresses: dict[str, int], kernels: Kernels) -> None:
        self.addresses = addresses
        self.kernels = kernels  # keeps the code alive

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]


@lru_cache(maxsize=1)
def runtime() -> Runtime:
    """Compiled or taken from the cache with the first use. Its code is never freed: threads live in it."""
    _check_layout()
    return _loaded(*_here())


@lru_cache(maxsize=1)
def exchanges() -> Runtime:
    """What walks through exchanges between processes: `start`, `poll` and `wait` of `exchange.ll`."""
    return _loaded(*_told(["atoms.ll", "exchange.ll"], _EXCHANGES, _machine()))


def _loaded(text: str, names: list[str]) -> Runtime:
    code = kernels([(text, 1)])
    found = np.zeros(len(names), np.int64)
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    ctypes.CFUNCTYPE(None, pointer, integer, integer, pointer)(code.addresses[0])(
        found.ctypes.data, 0, 0, None
    )
    return Runtime(dict(zip(names, found.tolist(), strict=True)), code)


def begin() -> None:
    """Has it compiled by another thread, if that is still to be done."""
    if runtime.cache_info().currsize == 0:
        text, _ = _here()
        ahead([(symbol(text, 1), (text, 1))])


def _here() -> tuple[str, list[str]]:
    return source(_machine(), sys.platform)


def _machine() -> str:
    return "x86" if features().triple.startswith("x86_64") else "arm"


def source(machine: str, system: str) -> tuple[str, list[str]]:
    """The text, as one kernel whose `entry` tells the addresses of the functions; and their names."""
    futex = system == "linux"
    names = _FUNCTIONS + (_FUTEX_FUNCTIONS if futex else [])
    return _told(["atoms.ll", "pool.ll", *(["futex.ll"] if futex else []), "driver.ll"], names, machine)


def _told(files: list[str], names: list[str], machine: str) -> tuple[str, list[str]]:
    text = "\n".join(Path(__file__).with_name(file).read_text(encoding="utf-8") for file in files)
    tell = [
        f"  %p{i} = getelementptr i64, ptr %out, i64 {i}\n  store ptr @{name}, ptr %p{i}"
        for i, name in enumerate(names)
    ]
    head = "define void @entry(ptr %out, i64 %begin, i64 %end, ptr %scratch) {"
    facts = {
        "pause": _PAUSE[machine],
        "futex": _FUTEX[machine],
        "affinity": _AFFINITY[machine],
        "clock": time.CLOCK_MONOTONIC,
        "type": _HEADER - 8,
        "size": _HEADER,
        "items": tuple.__basicsize__,
        "data": _HEADER,
        "flags": _FLAGS,
    }
    return filled("\n".join([text, head, *tell, "  ret void", "}", ""]), facts), names


def filled(text: str, facts: Mapping[str, object]) -> str:
    """The text with facts in the place of their names, which a `$` marks."""
    for name in sorted(facts, key=len, reverse=True):  # one may begin another
        text = text.replace(f"${name}", str(facts[name]))
    return text


def _check_layout() -> None:
    """The driver reads tuples and arrays itself; this makes sure that they are what it takes them for."""
    array = np.arange(6.0).reshape(2, 3)
    pair = (array, array.T)
    seen = [ctypes.c_void_p.from_address(id(pair) + tuple.__basicsize__ + 8 * i).value for i in range(2)]
    size = ctypes.c_ssize_t.from_address(id(pair) + _HEADER).value
    kind = ctypes.c_void_p.from_address(id(array) + _HEADER - 8).value
    data = ctypes.c_void_p.from_address(id(array) + _HEADER).value
    flags = [ctypes.c_int32.from_address(id(a) + _FLAGS).value & 1 for a in pair]
    expected = ([id(array), id(pair[1])], 2, id(np.ndarray), array.ctypes.data, [1, 0])
    if (seen, size, kind, data, flags) != expected:
        raise DeviceError(
            "this Python or NumPy keeps its objects in memory in a way that the native driver does not know",
            where=f"Python {sys.version.split()[0]}, NumPy {np.__version__}",
            expected="CPython and NumPy 2",
            remedy='use target="reference"',
        )


def control_block(threads: int) -> Words:
    """A block with room for so many threads, not started; the caller fills in sleep and wake."""
    block: Words = zeros(64 + 16 * threads, np.int64)
    block[52:55] = [_python(f) for f in ("PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromLongLong")]
    block[55:57] = id(np.ndarray), id(tuple)
    block[57:60] = [_python(f) for f in ("PyErr_CheckSignals", "PyObject_CallNoArgs", "Py_DecRef")]
    return block


def _python(name: str) -> int:
    """The address of a function of the interpreter."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
