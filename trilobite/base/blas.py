"""NumPy's BLAS on one thread while the meaning of a primitive runs.

OpenBLAS cuts a product by the number of its threads, and the bits of the result change with the cut. The
same program gives the same bits only if that number is always the same one. It also keeps small products
from waiting for a second thread that a busy machine does not let run. The user's own NumPy code keeps the
number it had. Does nothing where NumPy stands on a BLAS that is not OpenBLAS.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base.forks import renewed_in_child

_NAMES = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
)


def _libraries() -> list[str]:
    """Where an OpenBLAS may be: beside NumPy, as wheels have it, or among what this process has mapped."""
    package = os.path.dirname(np.__file__)
    places = [os.path.join(os.path.dirname(package), "numpy.libs"), os.path.join(package, ".dylibs")]
    found = [os.path.join(p, f) for p in places if os.path.isdir(p) for f in os.listdir(p) if "openblas" in f]
    maps = "/proc/self/maps"
    if not found and os.path.exists(maps):
        with open(maps, errors="replace") as lines:
            found = sorted({line.split()[-1] for line in lines if "openblas" in line and "/" in line})
    return found


def _controls() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """How to ask for the number of threads, and how to set it."""
    for path in _libraries():
        try:
            library = ctypes.CDLL(path)
        except OSError:  # mapped once, and gone since
            continue
        for get, set_ in _NAMES:
            if hasattr(library, get) and hasattr(library, set_):
                return getattr(library, get), getattr(library, set_)
    return None


controls = _controls()
_lock = renewed_in_child(threading.Lock())
_inside = 0  # how many calls, in all threads of Python, are running
_before = 1  # the number of threads that the first of them found


def _enter(get: Callable[[], int], set_: Callable[[int], None]) -> None:
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = get()
            if _before != 1:
                set_(1)
        _inside += 1


def _leave(set_: Callable[[int], None]) -> None:
    global _inside
    with _lock:
        _inside -= 1
        if _inside == 0 and _before != 1:
            set_(_before)


def one_thread(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with BLAS on one thread while it runs."""
    if controls is None:
        return fn
    get, set_ = controls

    def run(*args: Any, **kwargs: Any) -> Any:
        _enter(get, set_)
        try:
            return fn(*args, **kwargs)
        finally:
            _leave(set_)

    return run
