"""What a log is: numbers by name, step after step.

In: `log(step, {name: value})`. Out: a file others can read. Steps may repeat (the entries of one step belong
together) but not go back: a run that resumes says from where with `resume=`, and what an earlier run wrote
beyond is dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from trilobite.base.errors import ArgumentError, DTypeError, ShapeError

Scalar = bool | int | float


class Logger(ABC):
    """Takes named values per step. It is its own context manager: leaving it closes it."""

    @abstractmethod
    def log(self, step: int, values: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def check_step(step: Any) -> int:
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or not 0 <= step < 1 << 63:
        raise ArgumentError(f"step {step!r}", expected="an integer from 0 to 2**63 - 1")
    return int(step)


def check_name(name: Any) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ArgumentError(f"a value is named {name!r}", expected="a name of printable characters")
    return name


def scalar(value: Any, name: str) -> Scalar:
    """One number out of whatever holds one: Python's, NumPy's, or a tensor with one element."""
    if isinstance(value, bool | int | float):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "OSUcMm":
        raise DTypeError(f"value {name!r} is a {type(value).__name__}", expected="a real number")
    if array.size != 1:
        raise ShapeError(
            f"value {name!r} has shape {array.shape}",
            expected="one number",
            remedy="log its mean, or a Histogram",
        )
    number = array.reshape(()).item()
    return number if isinstance(number, bool | int | float) else float(number)
