"""The bodies of the processor's commands: arguments in, text out.

The command line registers them; nothing here knows of terminals, colours or exit codes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trilobite.base.errors import ArgumentError, AssemblyError
from trilobite.processor.isa.assembler import assemble
from trilobite.processor.isa.binary import load as load_object
from trilobite.processor.isa.binary import save
from trilobite.processor.isa.disassembler import listing
from trilobite.processor.isa.manual import manual
from trilobite.processor.isa.program import link
from trilobite.processor.machine import load_machine, preset_names
from trilobite.processor.machine.drawing import machine_drawing, machine_table
from trilobite.processor.machine.manual import export


def machines() -> str:
    """`trilobite machines`: every preset, one line each."""
    return machine_table([load_machine(name) for name in preset_names()])


def machines_show(name: str) -> str:
    """`trilobite machines show NAME`: a preset, or a YAML file by its path."""
    return machine_drawing(load_machine(name))


def machines_export(name: str, output: str = "") -> str:
    """`trilobite machines export NAME [-o FILE]`: a machine as YAML, every field."""
    text = export(load_machine(name))
    if not output:
        return text
    try:
        with open(output, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ArgumentError(
            f"{output} cannot be written: {error.strerror}",
            expected="the name of a file that is not there yet",
            remedy="choose another name",
        ) from error
    return f"{output}: change it, then trilobite machines show {output}\n"


def asm(source: str, output: str | None = None) -> str:
    """`trilobite asm FILE [-o OUT]`: assembly text to a binary beside it."""
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AssemblyError(
            f"the assembly file cannot be read: {error}",
            where=source,
            expected="a text file",
            remedy="check the path",
        ) from error
    unit = assemble(text, path.name)
    target = Path(output) if output else path.with_suffix(".dlp")
    save(unit, target)
    words, constants = len(unit.instructions), len(unit.data)
    return f"{target}: {words} instructions, {constants} bytes of constants, {len(unit.symbols)} symbols\n"


def disasm(source: str) -> str:
    """`trilobite disasm FILE`: a binary as assembly text with labels."""
    unit = load_object(source)
    labels = {name: symbol.offset for name, symbol in unit.symbols.items() if symbol.section == "text"}
    known = [relocation for relocation in unit.relocations if relocation.symbol in unit.symbols]
    externals = {r.place: r.symbol for r in unit.relocations if r.symbol not in unit.symbols}
    return listing(link([replace(unit, relocations=known)]).instructions, labels, externals)


def isa_manual() -> str:
    """The text of docs/isa.md."""
    return manual()
