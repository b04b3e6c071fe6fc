"""Compiling without Python's cycle collector.

IR is made of cycles that live as long as the compilation does: looking for garbage among them again and again
finds none and takes a tenth of the time, more in a process that holds much besides.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Cycles stay until this is over."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
