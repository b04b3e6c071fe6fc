"""What a chip is: dataclasses, checks, presets as YAML."""

from trilobite.processor.machine.description import Machine as Machine
from trilobite.processor.machine.load import load_machine as load_machine
from trilobite.processor.machine.load import machine_from as machine_from
from trilobite.processor.machine.load import parse_machine as parse_machine
from trilobite.processor.machine.load import preset_names as preset_names
