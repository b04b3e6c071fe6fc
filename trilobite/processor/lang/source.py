"""What a device can compile and launch: the small contract of a kernel language's sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from trilobite.processor.isa.program import Program
from trilobite.processor.machine import Machine


class KernelSource(ABC):
    """A kernel before it is compiled for a machine."""

    name: str

    @abstractmethod
    def program(self, machine: Machine) -> Program:
        """The linked program; its entry is called `name`."""

    def chosen_for(
        self, device: Any, args: Sequence[Any], dim: tuple[int, int, int], task: str
    ) -> KernelSource:
        """What is launched with these arguments: itself, unless there are several to choose from."""
        return self

    def checked(self, machine: Machine) -> KernelSource:
        """What a checked launch runs: code that covers for no mistake of the author's."""
        return self

    @abstractmethod
    def words(self, args: Sequence[Any]) -> list[int]:
        """Arguments as the entry takes them, checked against its parameters."""
