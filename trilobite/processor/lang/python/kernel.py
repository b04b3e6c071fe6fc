"""The kernel object that `@dlp.kernel` makes of a function.

Enters: a Python function with annotated parameters; keyword-only parameters are meta-parameters, constants of
the compiler. Leaves: programs for machines (kept by machine, level and meta-parameters), or a run of the
function itself on NumPy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.base.errors import ArgumentError, KernelError
from trilobite.processor.isa.formats import F32, I64, Format
from trilobite.processor.lang.codegen.compile import KernelProgram, compile_module
from trilobite.processor.lang.ir import KernelModule
from trilobite.processor.lang.python.dtypes import DType, GlobalPointer
from trilobite.processor.lang.python.frames import source_of
from trilobite.processor.lang.python.host import HostLaunch, scalar_of, word_of
from trilobite.processor.lang.python.surroundings import Taken, told_apart
from trilobite.processor.lang.python.view import View
from trilobite.processor.lang.python.walker import build
from trilobite.processor.lang.source import KernelSource
from trilobite.processor.lang.types import is_float
from trilobite.processor.machine import Machine, load_machine

if TYPE_CHECKING:
    from trilobite.processor.device import Device

Dim = tuple[int, int, int]
Compiled = tuple[list[Taken], KernelProgram]


class Kernel(KernelSource):
    """`dev.launch(kernel, args, dim, task)` compiles and runs it; `kernel.meta(tile=512)` is a variant."""

    def __init__(
        self,
        function: Callable[..., Any],
        level: int = 2,
        meta: Mapping[str, Any] | None = None,
        cache: dict[Any, list[Compiled]] | None = None,
    ) -> None:
        self.function, self.level = function, level
        self.name = function.__name__
        self.__doc__ = function.__doc__
        self.parameters, self.defaults = _signature(function)
        self.chosen: dict[str, Any] = {**self.defaults, **(meta or {})}
        self._programs: dict[Any, list[Compiled]] = {} if cache is None else cache

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join([*self.parameters, *self.chosen])})>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Inside another kernel it is a device function."""
        return self.function(*args, **named)

    def meta(self, **values: Any) -> Kernel:
        """The same kernel with other meta-parameters."""
        unknown = [name for name in values if name not in self.defaults]
        if unknown:
            raise ArgumentError(
                f"{self.name} has no meta-parameter {unknown[0]!r}",
                expected="one of " + ", ".join(self.defaults)
                if self.defaults
                else "none: it has no such parameters",
                remedy="meta-parameters are the keyword-only parameters of the function",
            )
        return Kernel(self.function, self.level, {**self.chosen, **values}, self._programs)

    def at_level(self, level: int) -> Kernel:
        """The same kernel at another level: 0 keeps every variable in the frame, 2 is the default."""
        return Kernel(self.function, level, self.chosen, self._programs)

    # compilation
    def module(self, machine: str | Machine) -> KernelModule:
        """The kernel IR, before any pass."""
        return self._build(load_machine(machine))[0]

    def _build(self, machine: Machine) -> tuple[KernelModule, list[Taken]]:
        missing = [name for name, value in self.chosen.items() if value is inspect.Parameter.empty]
        if missing:
            raise KernelError(
                f"{self.name} lacks its meta-parameter {missing[0]!r}",
                expected="a value for each keyword-only parameter without default",
                remedy=f"use {self.name}.meta({missing[0]}=...)",
            )
        return build(self.function, self.parameters, self.chosen, machine)

    def program(self, machine: str | Machine) -> KernelProgram:
        """Compiled once, and again where a global that the kernel reads has another value by now."""
        part = load_machine(machine)
        key = (part, self.level, tuple((k, told_apart(self.chosen[k])) for k in sorted(self.chosen)))
        kept = self._programs.setdefault(key, [])
        for taken, program in kept:
            if all(value.still_holds() for value in taken):
                return program
        module, taken = self._build(part)
        kept.append((taken, compile_module(module, part, self.level)))
        return kept[-1][1]

    def stages(self, machine: str | Machine) -> dict[str, str]:
        """The text of every step by name: kernel, optimised, ordered, isa."""
        texts: dict[str, str] = {}
        part = load_machine(machine)
        compile_module(self.module(part), part, self.level, texts)
        return texts

    # arguments
    def words(self, args: Sequence[Any]) -> list[int]:
        self._check_count(args)
        return [
            _word(self.name, n, kind, v) for (n, kind), v in zip(self.parameters.items(), args, strict=True)
        ]

    def _check_count(self, args: Sequence[Any]) -> None:
        if len(args) != len(self.parameters):
            raise ArgumentError(
                f"{self.name} takes {len(self.parameters)} arguments, {len(args)} were given",
                expected=", ".join(self.parameters),
                remedy="pass one value for each parameter; meta-parameters go to .meta(...)",
            )

    # without a compiler
    def interpret(
        self, device: Device, args: Sequence[Any], dim: Dim = (1, 1, 1), task: str = "block", seed: int = 0
    ) -> str:
        """Runs the function itself, task by task, on the device's memory; gives what it printed."""
        words = self.words(args)
        launch = HostLaunch(self.function, device.machine, device.memory)

        def arguments() -> dict[str, Any]:
            values = {
                n: _host(kind, word) for (n, kind), word in zip(self.parameters.items(), words, strict=True)
            }
            return {**values, **self.chosen}

        return launch.run(arguments, dim, task, seed)


def _host(kind: Any, word: int) -> Any:
    if isinstance(kind, GlobalPointer):
        return View(word, kind.dtype.fmt, kind.shape or (None,), "gdram")
    return scalar_of(I64 if kind is int else kind.fmt, word)


def _word(kernel: str, name: str, kind: Any, value: Any) -> int:
    """The word of one argument, after a look at its type."""
    from trilobite.processor.device import DeviceArray

    if isinstance(kind, GlobalPointer):
        if isinstance(value, DeviceArray):
            _check_elements(kernel, name, kind, value)
            return value.address
        if isinstance(value, int):
            return value
        raise _misfit(kernel, name, value, "a device array", "copy it to the device with dev.array")
    fmt: Format = I64 if kind is int else kind.fmt
    if isinstance(value, (bool, int, np.bool_, np.integer)):
        return word_of(fmt, int(value))
    if isinstance(value, (float, np.floating)) or (isinstance(value, np.generic) and value.dtype.kind == "V"):
        if is_float(fmt):
            return word_of(fmt, value)
        raise _misfit(kernel, name, value, f"an integer ({fmt.name})", "pass a whole number")
    raise _misfit(kernel, name, value, f"a scalar of {fmt.name}", "pass a number")


def _check_elements(kernel: str, name: str, kind: GlobalPointer, array: Any) -> None:
    fmt = kind.dtype.fmt
    packed = fmt.bits < 8 and array.dtype.itemsize == 1
    if array.dtype != fmt.dtype and not packed:
        raise _misfit(kernel, name, array, f"elements of {fmt.name}", "convert the array first")


def _misfit(kernel: str, name: str, value: Any, expected: str, remedy: str) -> ArgumentError:
    return ArgumentError(f"{kernel}: the argument {name!r} is {value!r}", expected=expected, remedy=remedy)


def _signature(function: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Annotations of the run's parameters, defaults of the meta-parameters."""
    scope = {**getattr(function, "__globals__", {}), **inspect.getclosurevars(function).nonlocals}
    parameters: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            defaults[name] = parameter.default
        else:
            parameters[name] = _annotation(function, name, parameter, scope)
    return parameters, defaults


def _annotation(
    function: Callable[..., Any], name: str, parameter: inspect.Parameter, scope: dict[str, Any]
) -> Any:
    found = parameter.annotation
    if isinstance(
        found, str
    ):  # the user's own source text, written under `from __future__ import annotations`
        try:
            found = eval(found, scope)
        except Exception as error:
            raise _bad_annotation(function, name, f"{parameter.annotation}: {error}") from error
    if found is float:
        return DType(F32)
    if found is bool:
        return int
    if found is int or isinstance(found, (DType, GlobalPointer)):
        return found
    raise _bad_annotation(function, name, str(found))


def _bad_annotation(function: Callable[..., Any], name: str, given: str) -> KernelError:
    source = source_of(function)
    node = next((a for a in source.node.args.args if a.arg == name), source.node)
    shown = "nothing" if given == str(inspect.Parameter.empty) else given
    return KernelError(
        f"the parameter {name!r} is annotated with {shown}",
        where=source.location(node),
        expected="dlp.gm[dtype], int, float or a dtype such as dlp.f16",
        remedy=f"annotate it: {name}: dlp.gm[dlp.f32]",
    )


def kernel(function: Callable[..., Any] | None = None, *, level: int = 2) -> Any:
    """Makes a kernel of a function: `@dlp.kernel`, or `@dlp.kernel(level=0)`."""
    if function is None:
        return lambda given: Kernel(given, level)
    return Kernel(function, level)


def device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Says that a function is meant to be called by kernels; it stays an ordinary function."""
    return function
