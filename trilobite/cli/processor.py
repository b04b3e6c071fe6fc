"""The processor's commands: words of the command line to the functions in `processor/tools`."""

from __future__ import annotations

from typing import Annotated

import typer

from trilobite.base.errors import ArgumentError
from trilobite.processor.machine.description import DEFAULT
from trilobite.processor.sim.chip import MOST_INSTRUCTIONS
from trilobite.processor.tools import commands, launching


def machines(
    action: Annotated[
        str, typer.Argument(help="show, to draw one machine; export, to write it as YAML")
    ] = "",
    name: Annotated[str, typer.Argument(help="a preset, or the path of a YAML file")] = "",
    output: Annotated[
        str, typer.Option("--output", "-o", help="export: the file to write; the terminal if not given")
    ] = "",
) -> str:
    """List the machines there are, draw one, or write one as YAML with every field explained."""
    if not action and not output:
        return commands.machines()
    if action not in ("show", "export") or not name or (output and action == "show"):
        words = f"trilobite machines {action} {name}{' -o ' + output if output else ''}"
        raise ArgumentError(
            " ".join(words.split()),
            expected="trilobite machines, machines show NAME, or machines export NAME [-o FILE]",
        )
    return commands.machines_show(name) if action == "show" else commands.machines_export(name, output)


Source = Annotated[str, typer.Argument(help="a program: .s, .mlu, .py or .dlp")]
MachineName = Annotated[str, typer.Option(help="a preset, or the path of a YAML file")]
Entry = Annotated[str, typer.Option(help="where it begins; may be left out if there is one entry")]
Arguments = Annotated[
    list[str] | None,
    typer.Option(help="one each: a number, random:f32:8x4, zeros:i32:16, empty:f16:64, or a .npy file"),
]
Tasks = Annotated[str, typer.Option(help="tasks: 16 or 4x4x1")]
TaskKind = Annotated[str, typer.Option(help="block, or union1 to union16")]


def check(
    source: Source,
    machine: MachineName = DEFAULT,
    entry: Entry = "",
    arg: Arguments = None,
    dim: Tasks = "1",
    task: TaskKind = "block",
    poison: Annotated[bool, typer.Option(help="results under way look wrong until waited for")] = False,
    limit: Annotated[int, typer.Option(help="instructions before the launch is stopped")] = MOST_INSTRUCTIONS,
) -> None:
    """Run a program and look for races and memory errors; if there are any, the exit code is 1."""
    launching.check(source, machine, entry, arg, dim, task, poison, limit)


def debug(
    source: Source,
    machine: MachineName = DEFAULT,
    entry: Entry = "",
    arg: Arguments = None,
    dim: Tasks = "1",
    task: TaskKind = "block",
    checks: Annotated[bool, typer.Option(help="look for races and memory errors on the way")] = True,
    level: Annotated[
        int, typer.Option("--level", "-O", help="of kernels: 0 keeps every variable, 2 is fast")
    ] = 2,
) -> None:
    """Step through a program; commands come from the terminal or a pipe, and `help` lists them."""
    from trilobite.processor.tools.session import debug as session

    session(source, machine, entry, arg, dim, task, checks, level)


def asm(
    source: Annotated[str, typer.Argument(help="assembly text")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="the binary; beside the source if not given")
    ] = "",
) -> str:
    """Assemble a program into a binary."""
    return commands.asm(source, output or None)


def disasm(source: Annotated[str, typer.Argument(help="a binary")]) -> str:
    """Show a binary as assembly text."""
    return commands.disasm(source)
