"""`trilobite kernel run|check|profile`: BANG C sources and Python kernels from the command line.

Enters: a source, a kernel, the grid, arguments as words (`processor/tools/arguments.py`). Leaves: what is
printed: the kernel's own output, its arrays afterwards, findings of the checkers, or the profile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import click
import numpy as np
import typer
from click.core import ParameterSource

from trilobite.base.errors import ArgumentError
from trilobite.processor.device import Device, DeviceArray
from trilobite.processor.lang.bang.host_program import is_program, run_program
from trilobite.processor.lang.bang.kernel import BangKernel, compile_bang
from trilobite.processor.lang.bang.source import Options
from trilobite.processor.lang.python.file import kernel_of
from trilobite.processor.lang.python.kernel import Kernel as PythonKernel
from trilobite.processor.lang.scratchpad import ScratchpadOverflow
from trilobite.processor.machine import load_machine
from trilobite.processor.machine.description import DEFAULT, PARTS
from trilobite.processor.sim.chip import MOST_INSTRUCTIONS
from trilobite.processor.sim.run import Run
from trilobite.processor.tools.arguments import argument

ACTIONS = ("run", "check", "profile")
SHOWN = 8


def kernel(
    action: Annotated[str, typer.Argument(help="run, check or profile")],
    source: Annotated[str, typer.Argument(help="a .mlu or .py file")],
    name: Annotated[str, typer.Option("--kernel", help="the entry; may be left out if there is one")] = "",
    dim: Annotated[str, typer.Option(help="tasks: 16 or 16,1,1")] = "1",
    task: Annotated[str, typer.Option(help="block, or union1 to union16")] = "block",
    machine: Annotated[
        str,
        typer.Option(help="a preset or a YAML file; a .mlu that needs more memory takes a part that has it"),
    ] = DEFAULT,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            help="a number, random:f32:8x4, zeros:i32:16, empty:f16:64, a .npy file, struct:i32=7,f32=0.5"
        ),
    ] = None,
    level: Annotated[int, typer.Option("--level", "-O", help="0 or 2")] = 2,
    include: Annotated[list[str] | None, typer.Option("--include", "-I", help="a folder of headers")] = None,
    define: Annotated[
        list[str] | None, typer.Option("--define", "-D", help="NAME=VALUE: a macro, or a meta-parameter")
    ] = None,
    output: Annotated[str, typer.Option(help="a folder for arrays (run) or traces (profile)")] = "",
    poison: Annotated[
        bool, typer.Option(help="check: results under way look wrong until waited for")
    ] = False,
    limit: Annotated[int, typer.Option(help="instructions before the launch is stopped")] = MOST_INSTRUCTIONS,
) -> str:
    """Run a kernel in BANG C or Python, look for races and memory errors, or show where its cycles went."""
    if action not in ACTIONS:
        raise ArgumentError(
            f"trilobite kernel {action}", expected=" or ".join(ACTIONS), remedy="use one of them"
        )
    if action == "run" and not name and not _for_kernel(arg or ()) and is_program(source):
        options = Options(tuple(include or ()), tuple(define or ()), level)
        chosen_machine = _machine_for(
            source, machine, lambda name: compile_bang(source, load_machine(name), options)
        )
        raise typer.Exit(run_program(source, chosen_machine, options, arg or ()))
    chosen: BangKernel | PythonKernel
    if source.endswith(".py"):
        chosen = kernel_of(source, name, level, define or ())
    else:
        folders, macros = tuple(include or ()), tuple(define or ())
        chosen = BangKernel(source, name, Options(folders, macros, level, contracts=action == "check"))
    device = Device(_machine_for(source, machine, lambda name: chosen.program(load_machine(name))))
    program = chosen.program(device.machine)
    args = [argument(device, word, place) for place, word in enumerate(arg or [])]
    checked = action == "check"
    run = device.launch(
        chosen, args, _extents(dim), _task(task), checks=checked, poison=poison, traced=not checked,
        limit=limit,
    )  # fmt: skip
    head = f"{run.printed}{chosen.name} on {device.machine.name}\n{program.scratchpad_text()}\n"
    if checked:
        return f"{head}no errors in {run.instructions} instructions"
    timing = f"{run.cycles} cycles, {run.seconds * 1e6:.3f} us\n"
    return head + timing + (_profile(run, output) if action == "profile" else _arrays(args, output))


def _machine_for(source: str, machine: str, compiled: Callable[[str], object]) -> str:
    """The machine that was named; if none was, the default one, or the first part that holds what a BANG C
    source declares, which is said."""
    context = click.get_current_context(silent=True)
    is_named = context is not None and context.get_parameter_source("machine") is not ParameterSource.DEFAULT
    if machine != DEFAULT or is_named or source.endswith(".py"):
        return machine
    overflows: list[ScratchpadOverflow] = []
    for name in (machine, *PARTS):
        try:
            compiled(name)
        except ScratchpadOverflow as overflow:
            overflows.append(overflow)
            continue
        if overflows:
            print(f"{overflows[0].what}; so it runs on {name} (--machine names another)", file=sys.stderr)
        return name
    raise overflows[0]


def _for_kernel(words: Sequence[str]) -> bool:
    """Whether arguments name arrays or structs: those of a kernel, not of a program's main."""
    return any(":" in word or word.endswith(".npy") for word in words)


def _extents(dim: str) -> tuple[int, int, int]:
    parts = dim.replace("x", ",").split(",")
    if not 1 <= len(parts) <= 3 or not all(part.strip().isdecimal() for part in parts):
        raise ArgumentError(f"a task grid of {dim}", expected="16 or 16,1,1", remedy="correct it")
    x, y, z = (*(int(part) for part in parts), 1, 1)[:3]
    return x, y, z


def _task(word: str) -> str:
    """union4; CNRT_FUNC_TYPE_UNION4 and cnrtFuncTypeUnion4, as host code says it, are the same."""
    return word.lower().replace("_", "").removeprefix("cnrtfunctype")


def _arrays(args: list[Any], output: str) -> str:
    """The first values of every array afterwards; all of them as files if a folder is given."""
    lines = []
    for place, value in enumerate(args):
        if not isinstance(value, DeviceArray):
            continue
        held = value.numpy()
        first = np.array2string(held.ravel()[:SHOWN], precision=6, separator=" ")
        lines.append(f"argument {place}: {held.dtype} {'x'.join(map(str, held.shape))} {first}")
        if output:
            folder = Path(output)
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"argument{place}.npy", held)
    return "\n".join(lines)


def _profile(run: Run, output: str) -> str:
    from trilobite.processor.tools.critical import critical_text
    from trilobite.processor.tools.limits import limits_text
    from trilobite.processor.tools.line_stalls import line_text
    from trilobite.processor.tools.profile import write_profile
    from trilobite.processor.tools.roofs import roofline_text

    parts = (("queues", run.stall_text()), ("source lines", line_text(run)),
             ("critical path", critical_text(run, 12)), ("roofline", roofline_text(run, 12)),
             ("what bounds it", limits_text(run)))  # fmt: skip
    text = "".join(f"\n{title}\n{body}" for title, body in parts)
    return text + "".join(f"wrote {path}\n" for path in (write_profile(run, output) if output else ()))
