"""Queues of launches and the events between them, in the device's own time.

Enters: launches. Leaves: a clock that adds them up. A launch is computed at once, so nothing is waited for;
a queue keeps what a host on a real part would measure: when each launch began and ended, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.processor.device import Device, Kernel, Module
from trilobite.processor.sim.run import Run


@dataclass(frozen=True)
class Event:
    """A moment in a queue's time."""

    queue: Queue
    seconds: float

    def until(self, other: Event) -> float:
        """Seconds from this event to a later one of the same queue."""
        if other.queue is not self.queue:
            raise ArgumentError(
                "the events belong to two queues",
                expected="events of one queue",
                remedy="compare events of one queue",
            )
        return other.seconds - self.seconds


class Queue:
    """Launches on one device, each after the end of the one before."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.runs: list[Run] = []
        self.seconds = 0.0

    def launch(self, kernel: Kernel | Module, args: Any = (), **options: Any) -> Run:
        """As `Device.launch`; the queue's clock moves to the end of it."""
        run = self.device.launch(kernel, args, **options)
        self.seconds += run.seconds
        self.runs.append(run)
        return run

    def record(self) -> Event:
        """The moment behind everything launched so far."""
        return Event(self, self.seconds)
