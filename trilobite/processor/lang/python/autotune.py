"""Choosing meta-parameters by measuring: every candidate is launched, the one with the fewest cycles stays.

Enters: a kernel and configurations. Leaves: a kernel source that a device launches like any other; the choice
is made once for each machine, grid and value of the key arguments, and `report()` tells what was tried.
Arrays are put back between trials, so that a kernel which changes its inputs is measured on the same ones.
Cycles are simulated: the same search always ends with the same choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trilobite.base.errors import ArgumentError, KernelError, TrilobiteError
from trilobite.processor.lang.codegen.compile import KernelProgram
from trilobite.processor.lang.python.kernel import Kernel
from trilobite.processor.lang.source import KernelSource
from trilobite.processor.machine import Machine

if TYPE_CHECKING:
    from trilobite.processor.device import Device

Dim = tuple[int, int, int]


@dataclass(frozen=True)
class Trial:
    """One configuration: its cycles, or why it is no candidate."""

    config: Mapping[str, Any]
    cycles: int | None
    error: TrilobiteError | None = None

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.config.items())
        if self.error is None:
            return f"{values}: {self.cycles} cycles"
        return f"{values}: {str(self.error).splitlines()[0]}"


@dataclass(frozen=True)
class Search:
    """All trials for one machine, grid and key, and the one that was chosen."""

    machine: str
    dim: Dim
    task: str
    key: Mapping[str, Any]
    trials: tuple[Trial, ...]

    @property
    def best(self) -> int | None:
        """The place of the fewest cycles, the first of equals."""
        fitting = [(t.cycles, place) for place, t in enumerate(self.trials) if t.cycles is not None]
        return min(fitting)[1] if fitting else None

    def __str__(self) -> str:
        key = "".join(f", {name}={value}" for name, value in self.key.items())
        marks = ("*" if place == self.best else " " for place in range(len(self.trials)))
        rows = [f"  {mark} {trial}" for mark, trial in zip(marks, self.trials, strict=True)]
        return "\n".join([f"{self.machine}, {self.task} of {self.dim}{key}", *rows])


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
        self.configs = [dict(config) for config in configs]
        self.variants = [kernel.meta(**config) for config in configs]
        self.key = tuple(key)
        self.searches: dict[Any, Search] = {}

    def program(self, machine: Machine) -> KernelProgram:
        """Without arguments there is nothing to measure: the first configuration."""
        return self.variants[0].program(machine)

    def words(self, args: Sequence[Any]) -> list[int]:
        return self.kernel.words(args)

    def chosen_for(self, device: Device, args: Sequence[Any], dim: Dim, task: str) -> Kernel:
        return self.best(device, args, dim, task)

    def best(self, device: Device, args: Sequence[Any], dim: Dim = (1, 1, 1), task: str = "block") -> Kernel:
        self.words(args)  # wrong arguments are no matter of the configurations
        values = dict(zip(self.kernel.parameters, args, strict=True))
        chosen = {name: _told_apart(values[name]) for name in self.key}
        key = (device.machine, dim, task, tuple(chosen.values()))
        if key not in self.searches:
            trials = self._measure(device, args, dim, task)
            self.searches[key] = Search(device.machine.name, dim, task, chosen, trials)
        found = self.searches[key]
        if found.best is None:
            raise KernelError(
                f"no configuration of {self.name} works:\n{found}",
                expected="at least one that compiles and runs",
                remedy="see why each of them does not; kernel.meta(...) tries one alone",
            ) from found.trials[0].error
        return self.variants[found.best]

    def report(self) -> str:
        """What every search tried, in cycles or with the reason why not; a star is the choice."""
        return "\n".join(str(search) for search in self.searches.values()) or "nothing was tried yet"

    def interpret(
        self, device: Device, args: Sequence[Any], dim: Dim = (1, 1, 1), task: str = "block", seed: int = 0
    ) -> str:
        """As `Kernel.interpret`, of the chosen configuration."""
        return self.best(device, args, dim, task).interpret(device, args, dim, task, seed)

    def _measure(self, device: Device, args: Sequence[Any], dim: Dim, task: str) -> tuple[Trial, ...]:
        from trilobite.processor.device import DeviceArray

        arrays = [(a, a.numpy()) for a in args if isinstance(a, DeviceArray)]
        trials: list[Trial] = []
        for variant, config in zip(self.variants, self.configs, strict=True):
            try:
                run = device.launch(variant, args, dim, task, checks=False)
                trials.append(Trial(config, run.cycles))
            except TrilobiteError as error:  # it does not fit, or finds that it cannot work: no candidate
                trials.append(Trial(config, None, error))
            for array, before in arrays:
                array.write(before)
        return tuple(trials)


def _told_apart(value: Any) -> Any:
    """An array counts by its shape and type: its place and contents are not what is tuned for."""
    from trilobite.processor.device import DeviceArray

    return (value.shape, str(value.dtype)) if isinstance(value, DeviceArray) else value


def autotune(configs: Sequence[Mapping[str, Any]], key: Sequence[str] = ()) -> Callable[[Kernel], Autotuned]:
    """`@dlp.autotune([{"tile": 1024}, {"tile": 4096}], key=("n",))` above `@dlp.kernel`."""
    return lambda kernel: Autotuned(kernel, configs, key)
