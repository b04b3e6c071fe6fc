"""What a lab is: parts that draw random cases and judge what a student's file makes of them.

A `Part` is one thing that is asked for. A case of it is a choice of sizes and a seed; `make` turns them into
named inputs, `judge` runs the student's code on them and gives a `Fault`, or None if all is right. Sizes are
drawn from small to large, so the first case that fails is small already; `smallest.py` makes it smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

Inputs = dict[str, Any]
Sizes = dict[str, int]
Array = np.ndarray[Any, Any]
SHOWN = 24  # elements of an array that are printed whole


@dataclass(frozen=True)
class Fault:
    """What is wrong with one result: what was asked, what came, and what may be behind it."""

    what: str
    expected: str = ""
    found: str = ""
    hint: str = ""
    shown: bool = True  # whether the input that shows it is of interest

    def lines(self) -> list[str]:
        parts = (("expected", self.expected), ("found", self.found), ("hint", self.hint))
        return [self.what, *(f"{label}: {text}" for label, text in parts if text)]


@dataclass(frozen=True)
class Part:
    """One thing that a lab asks for; `sizes` says from where to where each size of a case may go."""

    name: str
    task: str
    make: Callable[[np.random.Generator, Sizes], Inputs]
    judge: Callable[[ModuleType, Inputs], Fault | None]
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cases: int = 24
    plain: Sequence[str] = ()  # inputs whose values may be rounded and zeroed to show a fault more clearly


@dataclass(frozen=True)
class Lab:
    """A lab by name, with its parts in the order in which a student writes them."""

    name: str
    title: str
    parts: tuple[Part, ...]
    seconds: int = 120  # that a student's file may take, all parts together
    mebibytes: int = 2048  # of memory that it may use


# -- comparing ---------------------------------------------------------------------------------------------


def show(value: Any) -> str:
    """A value on few lines: small arrays whole, others by their shape and first elements."""
    if isinstance(value, str) and "\n" in value:
        return "\n    " + value.strip().replace("\n", "\n    ")
    if not isinstance(value, np.ndarray):
        text = value if isinstance(value, str) else repr(value)
        return text if len(text) <= 300 else text[:297] + "..."
    if value.size <= SHOWN:
        return np.array2string(value, precision=6, separator=", ", suppress_small=True).replace("\n", "")
    first = np.array2string(value.reshape(-1)[:6], precision=6, separator=", ", suppress_small=True)
    return f"{value.dtype} of shape {value.shape}, {first[:-1]}, ...]"


def as_array(value: Any) -> Array | None:
    """Tensors, lists and numbers as an array; None for what is none of these."""
    try:
        plain = value.detach().numpy() if hasattr(value, "detach") else value
        found = np.asarray(plain)
    except (TypeError, ValueError):
        return None
    return None if found.dtype == object else found


def compare(name: str, found: Any, wanted: Array, tolerance: float = 0.0, hint: str = "") -> Fault | None:
    """A fault where a result is no array, has another shape, or differs by more than `tolerance`.

    The tolerance is relative to the largest value that is expected; 0 asks for equality.
    """
    got = as_array(found)
    if found is None or got is None:
        return Fault(f"{name} is {found!r}", f"an array of shape {wanted.shape}", hint="is there a return?")
    if got.shape != wanted.shape:
        return Fault(f"{name} has the wrong shape", str(wanted.shape), str(got.shape), hint)
    room = tolerance * max(1.0, float(np.abs(np.nan_to_num(wanted)).max(initial=0)))
    with np.errstate(invalid="ignore", over="ignore"):
        same = (got == wanted) | (np.isnan(_real(got)) & np.isnan(_real(wanted)))
        if tolerance:
            same |= np.abs(got.astype(np.float64) - wanted.astype(np.float64)) <= room
    if same.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    place = f"{name}{list(at)}" if at else name
    wrong = f"{int((~same).sum())} of {same.size} elements are wrong; the first is {place}"
    return Fault(wrong, f"{wanted[at]!s} in {show(wanted)}", f"{got[at]!s} in {show(got)}", hint)


def _real(values: Array) -> Array:
    return values.astype(np.float64) if values.dtype.kind in "fV" else np.zeros(values.shape)


def first(*faults: Fault | None) -> Fault | None:
    """The first fault that there is."""
    return next((fault for fault in faults if fault is not None), None)


def normal(rng: np.random.Generator, *shape: int) -> Array:
    """Signed doubles of wide range."""
    return np.asarray(rng.normal(size=shape) * 2.0 ** rng.integers(-3, 4, size=shape))
