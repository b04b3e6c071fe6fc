"""What a chip is: dataclasses, checks, presets as YAML.

Enters: a preset's name or a file. Leaves: a `Machine`. May import `base` alone of what is outside. Read
`description.py` first, beside a file of `presets`.
"""

from trilobite.processor.machine.description import Machine as Machine
from trilobite.processor.machine.load import load_machine as load_machine
from trilobite.processor.machine.load import machine_from as machine_from
from trilobite.processor.machine.load import parse_machine as parse_machine
from trilobite.processor.machine.load import preset_names as preset_names
