"""Copies that happen at once: block arguments, parameters. Places are registers and words of the frame.

Enters: pairs of a destination and a source (or a constant). Leaves: the same copies one after the other, so
that nothing is overwritten before it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Register:
    number: int


@dataclass(frozen=True)
class Slot:
    """A word of the frame."""

    number: int


@dataclass(frozen=True)
class Number:
    """A constant as a register word."""

    word: int


Source = Register | Slot | Number
Destination = Register | Slot


def in_order(
    moves: list[tuple[Destination, Source]], spare: Register
) -> Iterator[tuple[Destination, Source]]:
    """A circle of copies is opened by way of the spare register; constants come last."""
    waiting = {to: source for to, source in moves if to != source and not isinstance(source, Number)}
    while waiting:
        ready = [to for to in waiting if to not in waiting.values()]
        if ready:
            for to in ready:
                yield to, waiting.pop(to)
            continue
        to, source = next(iter(waiting.items()))
        yield spare, source
        waiting[to] = spare
        # whoever reads the same source may now be overwritten by its own copy
    yield from ((to, source) for to, source in moves if isinstance(source, Number))
