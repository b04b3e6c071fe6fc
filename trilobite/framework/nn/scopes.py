"""Which module of a network is being called while a function is recorded: equations note its dotted name.

Enters: a module at the beginning of its call. Leaves: its name below the outermost module that is called, as
`named_modules` has it, for `base.locations`. Calls that are not recorded never come here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from trilobite.base.locations import within

if TYPE_CHECKING:
    from trilobite.framework.nn.module import Module


class _Scope:
    """One call on the way in."""

    def __init__(self, module: Module, path: str) -> None:
        self.module, self.path = module, path

    @cached_property
    def names(self) -> dict[int, str]:
        """Of all modules below this one; a list of modules is never called itself, those in it are."""
        return {id(m): name for name, m in self.module.named_modules() if name}

    def below(self, module: Module) -> str:
        """A module that was made during the call has no name in the tree, and goes by its class."""
        name = self.names.get(id(module), type(module).__name__)
        return f"{self.path}.{name}" if self.path else name


class _Calls(threading.local):
    def __init__(self) -> None:
        self.stack: list[_Scope] = []


_calls = _Calls()


@contextmanager
def inside(module: Module) -> Iterator[None]:
    """The outermost module that is called has the empty name."""
    stack = _calls.stack
    path = stack[-1].below(module) if stack else ""
    stack.append(_Scope(module, path))
    try:
        with within(path):
            yield
    finally:
        stack.pop()
