"""A wrong use, and what its message must say. `wrong` puts a function into the table that the test walks.

Every message names four things: what was wrong, where in the user's file, what was expected, what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import trilobite as tb
from trilobite.base.errors import TrilobiteError

X = tb.tensor([1.0, 2.0, 3.0])
MATRIX = tb.ones((3, 4))


@dataclass(frozen=True)
class WrongUse:
    """A function that must fail, and with what."""

    fn: Callable[[], Any]
    file: str
    error: type[TrilobiteError]
    what: str
    expected: str
    remedy: str


USES: list[WrongUse] = []


def wrong(
    error: type[TrilobiteError], what: str, expected: str, remedy: str
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Enter a wrong use; the texts are the beginnings of the message's parts."""

    def enter(fn: Callable[[], Any]) -> Callable[[], Any]:
        USES.append(WrongUse(fn, fn.__code__.co_filename, error, what, expected, remedy))
        return fn

    return enter


def leaf() -> tb.Tensor:
    """A tensor that requires a gradient."""
    return tb.tensor([1.0, 2.0, 3.0], requires_grad=True)


def keep(kept: list[Any], value: Any) -> Any:
    """Let a value out by the back door."""
    kept.append(value)
    return value
