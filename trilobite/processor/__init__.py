"""Lobe 3: the deep-learning processor. Of the other rooms it imports only base and native."""

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
