"""`tb.profiler`: marks in code for PyTorch's profiler. Ours is `jitted.profile()`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

from trilobite.base.errors import StateError
from trilobite.base.locations import user_location


class record_function(ContextDecorator):
    """A stretch of code with a name."""

    def __init__(self, name: str, args: Any = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class ProfilerActivity:
    """What PyTorch's profiler watches."""

    CPU, CUDA, XPU = "cpu", "cuda", "xpu"


class EventList(list[Any]):
    """Events of PyTorch's profiler: nothing here is one."""


def profile(*args: Any, **kwargs: Any) -> Any:
    raise StateError(
        "PyTorch's profiler",
        where=user_location(),
        expected="tb.jit(f).profile(x), which says where the time of a call goes",
        remedy="trilobite profile on the command line makes a page of it",
    )


def schedule(**settings: Any) -> Callable[[int], str]:
    return lambda step: "none"
