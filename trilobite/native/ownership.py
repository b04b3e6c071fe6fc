"""Who owns memory: the one rule, and the one place where references are counted.

The rule: an array, or the tensor or cell that holds it, may be overwritten, handed on or let go only if all
who refer to it are known. Who asks takes a situation from the list below: it names those who refer to an
object at that point if nobody else does. One reference more means that somebody outside holds it, and a copy
takes its place.

This is right where a variable, an argument and an element of a list are one reference each, which is tried
once. Interpreters where counts mean something else (CPython 3.14 borrows references instead of counting
them, builds without the global lock count in two places) are noticed: nobody is alone there, and all that
might be shared is copied.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from operator import is_
from sys import getrefcount
from typing import Any

Count = Callable[[list[Any], list[Any]], int]
_UNKNOWN = 1 << 30  # references: more than any situation knows of
_ASKING = 2  # references to what `is_alone` is asked about: its argument, and that of the count


def _known(*who: str) -> int:
    return len(who)


# -- situations ----------------------------------------------------------------------------------------------

# framework/delivery.py, a call on the long way
OLD_GRADIENT = _known("its leaf", "the list of gradients", "a variable")
TENSORS_CELL = _known("the tensor")
# framework/dispatch.py, a call on the short way; its lists are counted by machine code
KNOWN_GRADIENT = _known("its leaf", "`known`", "`gradients`")
GRADIENTS_CELL = _known("the tensor", "`rooms`")
LEFT_GRADIENT = _known("its leaf", "a variable")
HELD_BY_DISPATCH = _known("`last` or the old gradients")  # besides its cell and the lists that are passed
# framework/deferred_gradients.py
HELD_BY_TAPE = _known("the taped value", "`primals`")
# a target's results, of arrays that were given away, and of those of earlier runs
GIVEN = _known("its cell", "the caller's list", "candidates", "ours")
UNHELD = _known("a record of results")
# a target's weights: one that is looked at for changes, and one that may be let go
SEEN_WEIGHT = _known("its cell", "values", "now", "seen", "a variable")
PACKED_WEIGHT = _known("its cell", "values", "now", "a variable")
# ir/transforms/cells.py, memory that was seen outside: the asker's, and two variables; or a base by its array
EXPOSED = _known("a variable", "another")
EXPOSED_BASE = _known("its array", "a variable")


# -- counting ------------------------------------------------------------------------------------------------


def is_locked() -> bool:
    """Does one thread at a time run Python?"""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def _counts() -> bool:
    """Is a variable, an argument, an element of a list, an attribute one reference each, and is there a lock
    that keeps others from changing counts meanwhile?
    """
    if not is_locked():
        return False

    class Holder:
        it: object

    def argument(x: object) -> int:
        return getrefcount(x)

    def loop(xs: list[object]) -> int:
        for x in xs:
            return getrefcount(x)
        return 0

    held = [object()]
    first = getrefcount(held[0]) == 2  # the list, the count's own
    within = loop(held) == 3  # the list, a variable, the count's own
    one = held[0]
    variable = getrefcount(one) == 3 and argument(one) == 4 and [getrefcount(x) for x in held] == [4]
    holder = Holder()
    holder.it = one
    return first and within and variable and getrefcount(holder.it) == 4


COUNTS = _counts()
"""Do references tell who holds an object? Otherwise all is copied."""


def is_alone(x: object, known: int) -> bool:
    """Do none refer to it but so many known ones?"""
    return COUNTS and getrefcount(x) <= known + _ASKING


def references(held: Sequence[object], n: int) -> int:
    """To one element, without the argument that asks."""
    return getrefcount(held[n]) - 1 if COUNTS else _UNKNOWN


def counter() -> Count:
    """Are two lists the same, and how often is an element of the first referred to at most? -1 if they are
    not the same.
    """
    if not COUNTS:
        return lambda a, b: _UNKNOWN if same(a, b) >= 0 and a else same(a, b)
    from trilobite.native.references import counter as native

    return native()


def same(a: list[Any], b: list[Any]) -> int:
    """-1 if two lists do not hold the very same elements, else 0: for those who overwrite nothing."""
    return 0 if len(a) == len(b) and all(map(is_, a, b)) else -1
