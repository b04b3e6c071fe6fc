"""Kernels as operations of the framework: tensors in, tensors out, with a derivative.

Enters: a function over NumPy arrays that launches kernels, and one for its derivative. Leaves: a function
over tensors that runs eagerly and under gradients. It is the only module here that loads the framework, and
only when an operation is called. Under `jit` there are no values to launch with, which the framework says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    forward: Callable[..., Any], backward: Callable[..., Any] | None = None, machine: str | Machine = "dlp-m"
) -> Callable[..., Any]:
    """`forward(launch, *arrays)` gives an array, `backward(launch, arrays, out, cotangent)` one per input.

    The result is a function of tensors. Without `backward` it has no derivative and says so.
    """
    launch = Launcher(machine)

    def call(*tensors: Any) -> Any:
        import trilobite as tb

        def plain(*inner: Any) -> Any:
            return tb.asarray(forward(launch, *[t.numpy() for t in inner]))

        plain.__name__ = forward.__name__
        if backward is None:
            return plain(*tensors)

        def keep(*inner: Any) -> Any:
            out = plain(*inner)
            return out, (inner, out)

        def pull(kept: Any, cotangent: Any) -> Any:
            inputs, out = kept
            arrays = tuple(t.numpy() for t in inputs)
            grads = backward(launch, arrays, out.numpy(), cotangent.numpy())
            return tuple(tb.asarray(g) for g in grads)

        rule = tb.custom_vjp(plain)
        rule.defvjp(keep, pull)
        return rule(*tensors)

    call.__name__ = forward.__name__
    call.__doc__ = forward.__doc__
    call.launch = launch  # type: ignore[attr-defined]
    return call
