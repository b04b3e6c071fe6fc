"""From an input that fails to the smallest one that still does.

Enters: a part, the student's module, a case that failed. Leaves: a case with sizes as small as they go while
it fails, and values as plain as they go: whole numbers, then zeros. It is a greedy search within a number of
tries and seconds, so what it gives fails for certain and is small, not proven smallest.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from trilobite.apps.labs.task import Fault, Inputs, Part, Sizes
from trilobite.base.errors import TrilobiteError

TRIES, SECONDS = 400, 8.0
SEEDS = 12
WRITTEN_OUT = 32  # elements of an array that are tried one by one


@dataclass(frozen=True)
class Case:
    """Sizes, the seed of the values, the inputs made of them, and what is wrong."""

    sizes: Sizes
    seed: int
    inputs: Inputs
    fault: Fault


def attempt(part: Part, student: ModuleType, inputs: Inputs) -> Fault | None:
    """What is wrong with one input. An error of the student's code is a fault with the line it came from."""
    kept = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in inputs.items()}
    try:
        return part.judge(student, kept)
    except NotImplementedError:
        return Fault(f"{part.name} is not written yet", shown=False)
    except MemoryError as error:
        return Fault("the memory that a solution may take is used up", found=str(error), hint=_line(student))
    except TrilobiteError as error:
        return Fault(f"{type(error).__name__}: {error}".replace("\n", "\n    "), hint=_line(student))
    except Exception as error:
        return Fault(f"{type(error).__name__}: {error}", hint=_line(student))


def _line(student: ModuleType) -> str:
    """Where in the student's file the error that is being handled came from."""
    import sys

    frames = traceback.extract_tb(sys.exc_info()[2])
    mine = [frame for frame in frames if frame.filename == student.__file__]
    return f"line {mine[-1].lineno} of your file: {mine[-1].line}" if mine else ""


def smallest(part: Part, student: ModuleType, case: Case) -> Case:
    """The case with smaller sizes and plainer values, as long as it fails."""
    found, tries, deadline = case, TRIES, time.monotonic() + SECONDS
    while tries > 0:
        better = None
        for sizes, seed in _smaller(part, found):
            tries -= 1
            inputs = part.make(np.random.default_rng(seed), sizes)
            fault = attempt(part, student, inputs)
            if fault is not None:
                better = Case(sizes, seed, inputs, fault)
            if better is not None or tries <= 0 or time.monotonic() > deadline:
                break
        if better is None:
            break
        found = better
    return _plainer(part, student, found, deadline)


def _smaller(part: Part, case: Case) -> Iterator[tuple[Sizes, int]]:
    """Smaller sizes with the case's own seed, then with others: values of a smaller case are new anyway."""
    for further in range(SEEDS):
        for sizes in _steps_down(part, case.sizes):
            yield sizes, case.seed + further * 7919


def _steps_down(part: Part, sizes: Sizes) -> Iterator[Sizes]:
    """All sizes at their least, then each of them, then halfway there, then one less."""
    least = {name: low for name, (low, _) in part.sizes.items()}
    if sizes != least:
        yield least
    for name, low in least.items():
        now = sizes[name]
        for lower in dict.fromkeys((low, (low + now) // 2, now - 1)):
            if low <= lower < now and {**sizes, name: lower} != least:
                yield {**sizes, name: lower}


def _plainer(part: Part, student: ModuleType, case: Case, deadline: float) -> Case:
    found, tries = case, TRIES
    for name in part.plain:
        for change in _changes(found.inputs[name]):
            tries -= 1
            if tries < 0 or time.monotonic() > deadline:
                return found
            values = found.inputs[name].copy()
            if not change(values):
                continue
            inputs = {**found.inputs, name: values}
            fault = attempt(part, student, inputs)
            if fault is not None:
                found = Case(found.sizes, found.seed, inputs, fault)
    return found


def _changes(values: Any) -> Iterator[Any]:
    """Ways to make an array plainer, in place; each says whether it changed anything."""

    def rounded(array: Any) -> bool:
        whole = np.round(array)
        changed = bool((whole != array).any())
        array[...] = whole
        return changed

    yield rounded
    if values.size <= WRITTEN_OUT:
        for place in range(values.size):
            for number in (0, 1):
                yield lambda array, at=place, to=number: _put(array, at, to)


def _put(array: Any, place: int, number: int) -> bool:
    flat = array.reshape(-1)
    if flat[place] in (0, number):
        return False
    flat[place] = number
    return True
