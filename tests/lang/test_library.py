"""Every kernel of the library means the same: interpreted, at level 0, at level 2, in both languages.

One test a kernel and a machine, on random signed inputs at odd sizes. Within a language all ways give the
same bits; between the languages as near as the table says; and all of them are near NumPy. The checkers for
races and memory errors watch level 2, and have nothing to say.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import EXAMPLES, run
from library import CASES, Array, Call, Case

from trilobite.processor import Device, load_machine
from trilobite.processor.device import Module
from trilobite.processor.lang.bang.clang import find_clang
from trilobite.processor.lang.bang.kernel import argument_words
from trilobite.processor.lang.bang.source import Options, kernel_module
from trilobite.processor.lang.codegen.compile import KernelProgram, compile_module
from trilobite.processor.lang.interpreter import interpret
from trilobite.processor.lang.ir import KernelModule

MACHINES = ("dlp-m", "mlu370-x4", "dlp-s")
CLUSTERS = ("dlp-m", "mlu370-x4", "mlu270")  # where there are memory cores
WAYS = ("host", "ir", "O0", "O2")
needs_clang = pytest.mark.skipif(find_clang() is None, reason="there is no clang")


def machines_of(name: str) -> tuple[str, ...]:
    return CLUSTERS if name == "ladder_6" else MACHINES


QUICK = [(name, machines_of(name)[place % 3]) for place, name in enumerate(CASES)]
REST = [(name, m) for name in CASES for m in machines_of(name) if (name, m) not in QUICK]


@lru_cache(maxsize=128)
def compiled(
    file: str, entry: str, defines: tuple[str, ...], machine: str, level: int
) -> tuple[KernelModule, KernelProgram]:
    options = Options(level=level, entry=entry, defines=defines)
    module = kernel_module(Path(EXAMPLES / "bang" / f"{file}.mlu"), load_machine(machine), options)
    used = {op.attrs["buffer"] for f in module.functions.values() for op in f.ops() if "buffer" in op.attrs}
    module.buffers = {name: b for name, b in module.buffers.items() if b in used}  # not the other entries'
    return module, compile_module(module, load_machine(machine), level)


def bang(call: Call, machine: str, way: str) -> list[Array]:
    file, entry, *defines = call.kernel
    module, program = compiled(file, entry, tuple(defines), machine, 0 if way == "O0" else 2)
    dev = Device(machine)
    given = [dev.array(a) if isinstance(a, np.ndarray) else a for a in call.args]
    function = module.functions[entry]
    words = argument_words(entry, [(a.name, a.type.name) for a in function.params], given)
    if way == "ir":
        interpret(module, entry, dev.machine, dev.memory, words, call.dim, call.task)
    else:
        dev.launch(Module(program)[entry], words, call.dim, call.task, checks=way == "O2")
    arrays = [a.numpy() for a in given if hasattr(a, "numpy")]
    return [arrays[place] for place in call.results]


def python(call: Call, machine: str) -> list[Array]:
    arrays = run(call.kernel, call.args, machine, call.dim, call.task, ways=WAYS)
    return [arrays[place] for place in call.results]


def distance(a: Any, b: Any) -> float:
    """In float32 roundings of the largest magnitude."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    largest = max(float(np.abs(b).max()), 1e-30)
    return float(np.abs(a.reshape(b.shape) - b).max()) / (largest * 2.0**-24)


def compare(name: str, machine: str) -> None:
    made: Case = CASES[name](np.random.default_rng(len(name)))
    first = python(made.python, machine)
    second = {way: bang(made.bang, machine, way) for way in ("ir", "O0", "O2")}
    for way, arrays in second.items():
        for a, b in zip(arrays, second["O2"], strict=True):
            assert a.tobytes() == b.tobytes(), f"BANG C, {way} against O2"
    for a, b, want in zip(first, second["O2"], made.want, strict=True):
        assert np.abs(np.asarray(want, float)).max() > 0
        assert distance(a, want) <= made.near, "Python against NumPy"
        assert distance(b, want) <= made.near, "BANG C against NumPy"
        apart = distance(b.reshape(a.shape), a)
        assert apart <= made.same, f"the two languages are {apart} roundings apart"
        assert made.same or a.tobytes() == b.tobytes(), "the bits of the two languages"


@needs_clang
@pytest.mark.parametrize("name, machine", QUICK)
def test_both_languages_and_all_ways_agree(name: str, machine: str) -> None:
    compare(name, machine)


@needs_clang
@pytest.mark.long
@pytest.mark.parametrize("name, machine", REST)
def test_they_agree_on_the_other_machines(name: str, machine: str) -> None:
    compare(name, machine)
