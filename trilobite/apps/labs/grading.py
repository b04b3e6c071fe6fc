"""Grading in the student's own process: every part on fresh random cases, small ones first.

Enters: a lab, a student's module, a seed. Leaves: one verdict a part. What it is doing is told to
`tell` before each case, and what was found to be wrong before a smaller input is looked for, so that a
process that never comes back can still be asked what it was doing.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from trilobite.apps.labs.smallest import Case, attempt, smallest
from trilobite.apps.labs.task import Fault, Lab, Part, Sizes, show
from trilobite.base.errors import FileError

Tell = Callable[[str, Sizes, tuple[str, ...]], None]


@dataclass(frozen=True)
class Verdict:
    """A part, how many cases were tried, and for a wrong one what is wrong, line by line."""

    part: str
    cases: int
    problem: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        return not self.problem


def read(path: Path) -> ModuleType:
    """The student's file as a module. A `.mlu` file is a module whose SOURCE is its text."""
    if path.suffix == ".mlu":
        module = ModuleType("solution")
        module.__file__, module.SOURCE = str(path), path.read_text(encoding="utf-8")  # type: ignore[attr-defined]
        return module
    specification = importlib.util.spec_from_file_location("solution", path)
    if specification is None or specification.loader is None:
        raise FileError(
            f"{path.name} is no Python file", where=path, expected="a file that ends in .py or .mlu"
        )
    module = importlib.util.module_from_spec(specification)
    sys.modules["solution"] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = f", line {frames[-1].lineno}" if frames else ""
        raise FileError(
            f"the file cannot be read: {type(error).__name__}: {error}",
            where=f"{path}{line}",
            remedy="run it by itself first: python " + path.name,
        ) from error
    return module


def quiet(_part: str, _sizes: Sizes, _found: tuple[str, ...]) -> None:
    """Tells nobody."""


def grade(
    lab: Lab, student: ModuleType, seed: int, most: int | None = None, tell: Tell = quiet
) -> list[Verdict]:
    """A verdict for every part of the lab; at most `most` cases each."""
    return [grade_part(part, student, seed, most, tell) for part in lab.parts]


def grade_part(
    part: Part, student: ModuleType, seed: int, most: int | None = None, tell: Tell = quiet
) -> Verdict:
    cases = part.cases if most is None else min(part.cases, most)
    for number in range(cases):
        case = seed + number
        sizes = _sizes(part, number, cases, case)
        tell(part.name, sizes, ())
        inputs = part.make(np.random.default_rng(case), sizes)
        fault = attempt(part, student, inputs)
        if fault is not None and not fault.shown:
            return Verdict(part.name, number + 1, tuple(fault.lines()))
        if fault is not None:
            tell(part.name, sizes, tuple(fault.lines()))
            found = smallest(part, student, Case(sizes, case, inputs, fault))
            return Verdict(part.name, number + 1, _problem(found))
    return Verdict(part.name, cases)


def _sizes(part: Part, number: int, cases: int, seed: int) -> Sizes:
    """Sizes between the least and a bound that grows from case to case: in every other case by factors, so
    that wide ranges have small cases too, else by steps.
    """
    rng, share = np.random.default_rng(seed), (number + 1) / cases
    sizes = {}
    for name, (low, high) in part.sizes.items():
        span = high - low
        room = (span + 1) ** share - 1 if number % 2 == 0 else span * share
        sizes[name] = int(rng.integers(low, low + round(room) + 1))
    return sizes


def _problem(case: Case) -> tuple[str, ...]:
    fault: Fault = case.fault
    lines = fault.lines()
    if case.sizes:
        lines.append("smallest failing input: " + ", ".join(f"{k}={v}" for k, v in case.sizes.items()))
    lines += [f"  {name} = {show(value)}" for name, value in case.inputs.items() if not name.startswith("_")]
    return tuple(lines)
