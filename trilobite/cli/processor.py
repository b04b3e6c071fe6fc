"""The processor's commands: words of the command line to the functions in `processor/tools`."""

from __future__ import annotations

from typing import Annotated

import typer

from trilobite.base.errors import ArgumentError
from trilobite.processor.tools import commands


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
