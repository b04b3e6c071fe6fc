"""Lobe 3: the deep-learning processor, bit by bit and cycle by cycle.

Enters: kernels (Python, BANG C, assembly, binaries), arrays, a machine's description. Leaves: results, and a
`Run` with cycles, stalls and energy. May import `native` and `base`; it and `ir` do not know each other.
Within: `queues`, `tools`, `device`, `lang`, `sim`, then `isa` and `machine`, each knows those behind it. Read
`device.py` first.
"""

from trilobite.processor.device import Device as Device
from trilobite.processor.device import DeviceArray as DeviceArray
from trilobite.processor.device import Kernel as Kernel
from trilobite.processor.device import Module as Module
from trilobite.processor.machine import Machine as Machine
from trilobite.processor.machine import load_machine as load_machine
from trilobite.processor.machine import preset_names as preset_names
from trilobite.processor.queues import Event as Event
from trilobite.processor.queues import Queue as Queue
from trilobite.processor.sim.run import Run as Run
