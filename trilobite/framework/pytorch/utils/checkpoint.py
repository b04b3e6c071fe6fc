"""`tb.utils.checkpoint`: parts of a network that run again for the gradient instead of being kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from trilobite.framework.checkpointing import checkpoint as _lean
from trilobite.framework.modes import is_grad_enabled
from trilobite.framework.tensor import Tensor

_SETTINGS = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop")


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """function(*args, **kwargs), keeping only its arguments for the backward pass."""
    named = {k: v for k, v in kwargs.items() if k not in _SETTINGS}
    if not is_grad_enabled():
        return function(*args, **named)
    return _lean(function)(*args, **named)


def checkpoint_sequential(functions: Any, segments: int, input: Any, **settings: Any) -> Any:
    """Modules one after the other in `segments` parts, of which all but the last keep only what enters."""
    parts: Sequence[Any] = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = max(1, len(parts) // segments)
    ends = [size * (i + 1) for i in range(segments - 1)] + [len(parts)]

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for part in parts[start:end]:
                x = part(x)
            return x

        return forward

    start = 0
    for end in ends[:-1]:
        input = checkpoint(run(start, end), input)
        start = end
    return run(start, len(parts))(input)


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The generators of devices that hold the arguments: there are none but the CPU's."""
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Any], **settings: Any) -> None:
    """Of no device: there is none but the CPU."""


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that change nothing."""
    return nullcontext(), nullcontext()


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors without their history, with their wish for a gradient; others as they are."""
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


__all__ = [
    "checkpoint", "checkpoint_sequential", "detach_variable", "get_device_states", "noop_context_fn",
    "set_device_states",
]  # fmt: skip
