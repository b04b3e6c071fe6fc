"""The bodies of the processor's commands: arguments in, text out.

The command line registers them; nothing here knows of terminals, colours or exit codes.
"""

from __future__ import annotations

from trilobite.processor.machine import load_machine, preset_names
from trilobite.processor.machine.drawing import machine_drawing, machine_table


def machines() -> str:
    """`trilobite machines`: every preset, one line each."""
    return machine_table([load_machine(name) for name in preset_names()])


def machines_show(name: str) -> str:
    """`trilobite machines show NAME`: a preset, or a YAML file by its path."""
    return machine_drawing(load_machine(name))
