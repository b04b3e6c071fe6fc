"""One device per machine and process: all compiled functions share its memory, and calls take turns."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from trilobite.processor.device import Device
from trilobite.processor.machine import Machine


@dataclass
class Shared:
    """A device and whose turn it is."""

    device: Device
    turn: threading.RLock = field(default_factory=threading.RLock)


_DEVICES: dict[str, Shared] = {}
_making = threading.Lock()


def shared_device(machine: Machine) -> Shared:
    with _making:
        key = repr(machine)
        if key not in _DEVICES:
            _DEVICES[key] = Shared(Device(machine))
        return _DEVICES[key]
