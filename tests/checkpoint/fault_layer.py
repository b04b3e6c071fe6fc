"""The operating system, made to fail: stands in for the `os` of the modules that write.

`Layer` tells of each call that changes the disk, `At` acts at the n-th of them, `changes_of` lists them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from trilobite.framework.checkpoint import checkpointer, directory, durable

WRITERS = (durable, directory, checkpointer)
CHANGES = ("open", "write", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir")


class Layer:
    """Everything of `os`, with `before` told of each call that changes the disk."""

    def __init__(self, before: Callable[[str, tuple[Any, ...]], None]) -> None:
        self._before = before

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CHANGES:
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            if name != "open" or args[1] & os.O_CREAT:
                self._before(name, args)
            return real(*args, **kwargs)

        return call


@contextmanager
def standing_in(layer: Any) -> Iterator[None]:
    """Put a layer in the place of `os` in every module that writes."""
    patches = [mock.patch.object(module, "os", layer) for module in WRITERS]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


class At:
    """Acts before the n-th change: `kind` restricts the counting to one sort of call."""

    def __init__(
        self, number: int, act: Callable[[str, tuple[Any, ...]], None], kind: str | None = None
    ) -> None:
        self.count, self.number, self.act, self.kind = 0, number, act, kind

    def __call__(self, name: str, args: tuple[Any, ...]) -> None:
        if self.kind is None or name == self.kind:
            self.count += 1
            if self.count == self.number:
                self.act(name, args)


def changes_of(action: Callable[[], Any]) -> list[str]:
    """The changes an action makes, in order, when nothing fails."""
    seen: list[str] = []
    with standing_in(Layer(lambda name, _: seen.append(name))):
        action()
    return seen


def in_child(action: Callable[[], None]) -> int:
    """Run an action in a forked child; what it exits with. An exception is exit code 99."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
