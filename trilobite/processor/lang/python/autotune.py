"""Choosing meta-parameters by measuring: every candidate is launched, the one with the fewest cycles stays.

Enters: a kernel and configurations. Leaves: a kernel source that a device launches like any other; the choice
is made once for each machine, grid and value of the key arguments. Arrays are put back between trials, so
that a kernel which changes its inputs is measured on the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trilobite.base.errors import ArgumentError, KernelError
from trilobite.processor.lang.codegen.compile import KernelProgram
from trilobite.processor.lang.python.kernel import Kernel
from trilobite.processor.lang.source import KernelSource
from trilobite.processor.machine import Machine

if TYPE_CHECKING:
    from trilobite.processor.device import Device

Dim = tuple[int, int, int]


class Autotuned(KernelSource):
    """A kernel with several configurations."""

    def __init__(self, kernel: Kernel, configs: Sequence[Mapping[str, Any]], key: Sequence[str]) -> None:
        if not configs:
            raise ArgumentError("no configuration to choose from", expected="at least one", remedy="add one")
        unknown = [name for name in key if name not in kernel.parameters]
        if unknown:
            raise ArgumentError(
                f"the key {unknown[0]!r} is no parameter of {kernel.name}",
                expected="one of " + ", ".join(kernel.parameters),
                remedy="name parameters of the kernel",
            )
        self.kernel, self.name = kernel, kernel.name
        self.variants = [kernel.meta(**config) for config in configs]
        self.key = tuple(key)
        self.choices: dict[Any, Kernel] = {}
        self.cycles: dict[Any, list[int | None]] = {}

    def program(self, machine: Machine) -> KernelProgram:
        """Without arguments there is nothing to measure: the first configuration."""
        return self.variants[0].program(machine)

    def words(self, args: Sequence[Any]) -> list[int]:
        return self.kernel.words(args)

    def chosen_for(self, device: Device, args: Sequence[Any], dim: Dim, task: str) -> Kernel:
        return self.best(device, args, dim, task)

    def best(self, device: Device, args: Sequence[Any], dim: Dim = (1, 1, 1), task: str = "block") -> Kernel:
        values = dict(zip(self.kernel.parameters, args, strict=True))
        key = (device.machine, dim, task, tuple(values[name] for name in self.key))
        if key not in self.choices:
            self.choices[key] = self._measure(device, args, dim, task, key)
        return self.choices[key]

    def _measure(self, device: Device, args: Sequence[Any], dim: Dim, task: str, key: Any) -> Kernel:
        from trilobite.processor.device import DeviceArray

        arrays = [(a, a.numpy()) for a in args if isinstance(a, DeviceArray)]
        found: list[int | None] = []
        failure: KernelError | None = None
        for variant in self.variants:
            try:
                found.append(device.launch(variant, args, dim, task, checks=False).cycles)
            except KernelError as error:  # a configuration that does not fit this machine is no candidate
                found.append(None)
                failure = error
            for array, before in arrays:
                array.write(before)
        self.cycles[key] = found
        fitting = [(cycles, place) for place, cycles in enumerate(found) if cycles is not None]
        if not fitting:
            assert failure is not None
            raise failure
        return self.variants[min(fitting)[1]]


def autotune(configs: Sequence[Mapping[str, Any]], key: Sequence[str] = ()) -> Callable[[Kernel], Autotuned]:
    """`@dlp.autotune([{"tile": 1024}, {"tile": 4096}], key=("n",))` above `@dlp.kernel`."""
    return lambda kernel: Autotuned(kernel, configs, key)
