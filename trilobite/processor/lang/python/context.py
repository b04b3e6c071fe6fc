"""What an operation of a Python kernel acts on: IR that is being built, or a memory that is there.

Enters: calls of the functions that `trilobite.dlp` offers. The context that is current in this thread decides
what they do; outside a kernel there is none, and the call is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from trilobite.base.errors import KernelError
from trilobite.processor.isa.formats import Format
from trilobite.processor.machine import Machine


class Context(Protocol):
    """The primitives that every operation is made of. Values are numbers, or symbols of the program."""

    machine: Machine

    def error(self, what: str, expected: str, remedy: str) -> KernelError: ...

    def tensor(
        self,
        row: str,
        operands: Sequence[Any],
        formats: Sequence[Format],
        flags: Sequence[str],
        is_async: bool,
    ) -> list[Any]: ...

    def load(self, fmt: Format, address: Any) -> Any: ...

    def store(self, fmt: Format, value: Any, address: Any) -> None: ...

    def elements(self, view: Any) -> Any: ...

    def shifted(self, address: Any, count: Any) -> Any: ...

    def atomic(self, op: str, fmt: Format, address: Any, value: Any) -> Any: ...

    def compare_and_swap(self, fmt: Format, address: Any, expected: Any, value: Any) -> Any: ...

    def special(self, name: str) -> Any: ...

    def clock(self) -> Any: ...

    def sync(self, queues: Sequence[str]) -> None: ...

    def barrier(self, scope: str, members: str) -> None: ...

    def buffer(self, space: str, fmt: Format, shape: tuple[int, ...]) -> Any: ...

    def unary(self, opcode: str, value: Any) -> Any: ...

    def fused(self, a: Any, b: Any, c: Any) -> Any: ...

    def extreme(self, opcode: str, a: Any, b: Any) -> Any: ...

    def convert(self, value: Any, fmt: Format, rounding: str) -> Any: ...

    def select(self, truth: Any, a: Any, b: Any) -> Any: ...

    def printf(self, form: str, values: Sequence[Any]) -> None: ...

    def trap(self, message: str) -> None: ...


_LOCAL = threading.local()


def current() -> Context:
    """The context of the kernel that is being built or run in this thread."""
    found: Context | None = getattr(_LOCAL, "context", None)
    if found is None:
        raise KernelError(
            "an operation of a kernel was called outside of one",
            expected="a call inside a function decorated with @dlp.kernel while it is compiled or run",
            remedy="launch the kernel with Device.launch, or run it with kernel.interpret(device, args)",
        )
    return found


def is_inside() -> bool:
    """Whether a kernel is being built or run in this thread."""
    return getattr(_LOCAL, "context", None) is not None


@contextmanager
def within(context: Context) -> Iterator[None]:
    """Makes a context the current one."""
    before = getattr(_LOCAL, "context", None)
    _LOCAL.context = context
    try:
        yield
    finally:
        _LOCAL.context = before
