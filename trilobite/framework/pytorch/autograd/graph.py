"""`tb.autograd.graph`: what PyTorch offers around its graphs of gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any


class Node:
    """A node of PyTorch's graph: nothing here is one."""


class saved_tensors_hooks(nullcontext[None]):
    """Kept values are arrays that the tape holds: nothing packs them."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        super().__init__()


class save_on_cpu(nullcontext[None]):
    """What is kept is on the CPU already."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__()


class disable_saved_tensors_hooks(nullcontext[None]):
    """There are none."""

    def __init__(self, error_message: str) -> None:
        super().__init__()


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[[Sequence[Any]], None], *, mode: str = "all"
) -> Any:
    """Call a function when the gradients of all these tensors are there, or of the first one."""
    found: list[Any] = [None] * len(tensors)
    state = {"called": False}

    def heard(i: int) -> Callable[[Any], None]:
        def hook(grad: Any) -> None:
            found[i] = grad
            if mode == "any" and not state["called"]:
                state["called"] = True
                fn(grad)
            elif mode == "all" and all(g is not None for g in found):
                fn(list(found))
                found[:] = [None] * len(found)

        return hook

    stops = [t.register_hook(heard(i)) for i, t in enumerate(tensors)]

    class Handle:
        def remove(self) -> None:
            for stop in stops:
                stop()

    return Handle()


def increment_version(tensor: Any) -> None:
    """Writes are seen where they happen."""
