"""The processor's commands: words of the command line to the functions in `processor/tools`."""

from __future__ import annotations

from typing import Annotated

import typer

from trilobite.base.errors import ArgumentError
from trilobite.processor.tools import commands


def machines(
    action: Annotated[str, typer.Argument(help="show, to draw one machine")] = "",
    name: Annotated[str, typer.Argument(help="a preset, or the path of a YAML file")] = "",
) -> str:
    """List the machines there are, or draw one: `trilobite machines show dlp-m`."""
    if not action:
        return commands.machines()
    if action != "show" or not name:
        raise ArgumentError(
            f"trilobite machines {action} {name}".rstrip(),
            expected="trilobite machines, or trilobite machines show NAME",
        )
    return commands.machines_show(name)


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
