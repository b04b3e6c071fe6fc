"""Kernels as operations of the framework: tensors in, tensors out, with a derivative.

Enters: a function over NumPy arrays that launches kernels, and one for its derivative. Leaves: a function
over tensors that runs eagerly, under gradients and inside `jit`. It is the only module here that loads the
framework, and only when an operation is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any

import numpy as np

from trilobite.processor import Device, Run
from trilobite.processor.machine import Machine


class Launcher:
    """Launches kernels on NumPy arrays: they are copied to the device, and back where they changed."""

    def __init__(self, machine: str | Machine) -> None:
        self.device = Device(machine)
        self.last: Run | None = None

    def __call__(
        self, kernel: Any, args: Sequence[Any], dim: tuple[int, int, int] = (1, 1, 1), task: str = "block"
    ) -> list[Any]:
        """The arguments behind the launch, arrays as new NumPy arrays."""
        given = [self.device.array(a) if isinstance(a, np.ndarray) else a for a in args]
        self.last = self.device.launch(kernel, given, dim=dim, task=task)
        return [a.numpy() if isinstance(old, np.ndarray) else a for a, old in zip(given, args, strict=True)]

    @property
    def cores(self) -> int:
        return self.device.machine.cores


def operation(
    forward: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    machine: str | Machine = "dlp-m",
    result: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """`forward(launch, *arrays, **constants)` gives an array; `backward(launch, arrays, out, cotangent,
    **constants)` gives one per input.

    The result is a function of tensors: a `tb.custom_op`, and so is its derivative. `result` is the rule for
    the type of what `forward` returns, as `tb.custom_op` takes it. Without `backward` there is no derivative.
    """
    launch = Launcher(machine)

    def call(*tensors: Any, **constants: Any) -> Any:
        return made()(*tensors, **constants)

    @cache  # the framework is loaded when the operation is used first
    def made() -> Any:
        return _custom_op(launch, forward, backward, result)

    call.__name__ = forward.__name__
    call.__doc__ = forward.__doc__
    call.launch = launch  # type: ignore[attr-defined]
    return call


def _custom_op(
    launch: Launcher,
    forward: Callable[..., Any],
    backward: Callable[..., Any] | None,
    result: Callable[..., Any] | None,
) -> Any:
    import trilobite as tb

    @wraps(forward)
    def ahead(*arrays: Any, **constants: Any) -> Any:
        return forward(launch, *arrays, **constants)

    op = tb.custom_op(ahead, result=result)
    if backward is None:
        return op

    @wraps(backward)
    def back(*arrays: Any, **constants: Any) -> Any:
        *inputs, out, cotangent = arrays
        return backward(launch, tuple(inputs), out, cotangent, **constants)

    def like_inputs(*types: Any, **_: Any) -> Any:
        return types[:-2]

    slope = tb.custom_op(back, result=like_inputs)

    def pull(inputs: Any, out: Any, cotangent: Any, **constants: Any) -> Any:
        return slope(*inputs, out, cotangent, **constants)

    op.defvjp(pull)
    return op
