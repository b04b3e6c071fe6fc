"""Launches named by words, and the commands that make one: `trilobite check` and `trilobite profile`.

Enters: a program's file, a machine and the arguments as words (`tools/arguments.py`). Leaves: a launch ready
to run, or what the command prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.processor.device import Device, Kernel, Module
from trilobite.processor.machine.description import DEFAULT
from trilobite.processor.sim.chip import MOST_INSTRUCTIONS
from trilobite.processor.tools.arguments import argument, shape_of


@dataclass(frozen=True)
class Named:
    """Everything `Device.launch` needs."""

    device: Device
    kernel: Kernel | Module
    args: list[Any]
    dim: tuple[int, int, int]
    task: str


def named_launch(
    source: str, machine: str, entry: str, arg: list[str] | None, dim: str, task: str, level: int = 2
) -> Named:
    """Without `entry` the first of the program's entries; `dim` is 16 or 4x4x1; `level` is for kernels."""
    device = Device(machine)
    module = _module(device, _program_file(source), entry, level)
    kernel = module[entry or module.names[0]] if entry or module.names else module
    extents = shape_of(dim)
    if len(extents) > 3:
        raise ArgumentError(
            f"a task grid of {dim}", expected="one to three extents", remedy="write it as 16 or 4x4x1"
        )
    x, y, z = (*extents, 1, 1)[:3]
    args = [argument(device, word) for word in arg or []]
    return Named(device, kernel, _words(kernel, args), (x, y, z), task)


def _words(kernel: Kernel | Module, args: list[Any]) -> list[Any]:
    """Numbers and structs as the words that a BANG C kernel takes: 0.5 as a half, if that is one."""
    from trilobite.processor.lang.bang.kernel import BangProgram, argument_words

    if not isinstance(kernel, Kernel) or not isinstance(kernel.program, BangProgram):
        return args
    words = argument_words(kernel.name, kernel.program.parameters[kernel.name], args)
    made: list[Any] = []
    for given in args:  # an array stays one: it lives as long as somebody holds it
        count = -(-len(given) // 8) if isinstance(given, bytes) else 1
        is_word = isinstance(given, int | float | bytes)
        made += words[len(made) : len(made) + count] if is_word else [given]
    return made


def _module(device: Device, source: str, entry: str, level: int) -> Module:
    if source.endswith(".py"):
        from trilobite.processor.lang.python.file import kernel_of

        return device.load(kernel_of(source, entry, level))
    if not source.endswith(".mlu"):
        return device.load(source)
    from trilobite.processor.lang.bang.kernel import compile_bang
    from trilobite.processor.lang.bang.source import Options

    return Module(compile_bang(source, device.machine, Options(level=level)))


def _program_file(source: str) -> str:
    """The path, if there is a file that can be a program."""
    kinds = "a path that ends in .s (assembly), .mlu (BANG C), .py (Python kernels) or .dlp (a binary)"
    if not Path(source).exists():
        raise ArgumentError(f"there is no file {source}", expected=kinds, remedy="check the path")
    if Path(source).suffix not in (".s", ".mlu", ".py", ".dlp") or Path(source).is_dir():
        raise ArgumentError(
            f"{source} is no program", expected=kinds, remedy="trilobite asm makes a binary of assembly"
        )
    return source


def check(
    source: str,
    machine: str = DEFAULT,
    entry: str = "",
    arg: list[str] | None = None,
    dim: str = "1",
    task: str = "block",
    poison: bool = False,
    limit: int = MOST_INSTRUCTIONS,
) -> None:
    """Run a program and look for races and memory errors; if there are any, the exit code is 1.

    ARG is a number, random:f32:8x4, zeros:i32:16, empty:f16:64, or a .npy file; give one --arg each.
    --poison fills what is under way with a canary until somebody waits for it; --limit stops a launch that
    executes more instructions.
    """
    named = named_launch(source, machine, entry, arg, dim, task)
    run = named.device.launch(
        named.kernel,
        named.args,
        named.dim,
        named.task,
        checks=True,
        poison=poison,
        traced=False,
        limit=limit,
    )
    if run.printed:
        print(run.printed, end="")
    print(f"no errors in {run.instructions} instructions on {named.device.machine.name}")


def profile(
    source: str,
    machine: str = DEFAULT,
    entry: str = "",
    arg: list[str] | None = None,
    dim: str = "1",
    task: str = "block",
    output: str = "",
    limit: int = MOST_INSTRUCTIONS,
) -> None:
    """Run a program and show where its cycles went; --output DIR writes traces, CSV and JSON.

    ARG is a number, random:f32:8x4, zeros:i32:16, empty:f16:64, or a .npy file; give one --arg each.
    """
    from trilobite.processor.tools.critical import critical_text
    from trilobite.processor.tools.line_stalls import line_text
    from trilobite.processor.tools.profile import write_profile
    from trilobite.processor.tools.roofs import roofline_text

    named = named_launch(source, machine, entry, arg, dim, task)
    run = named.device.launch(named.kernel, named.args, named.dim, named.task, limit=limit)
    print(f"{run.machine.name}: {run.cycles} cycles, {run.seconds * 1e6:.3f} us")
    parts = (("queues", run.stall_text()), ("source lines", line_text(run)),
             ("critical path", critical_text(run, 12)), ("roofline", roofline_text(run, 12)))  # fmt: skip
    for title, text in parts:
        print(f"\n{title}\n{text}", end="")
    for path in write_profile(run, output) if output else ():
        print(f"wrote {path}")
