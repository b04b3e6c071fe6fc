"""The loops that only kernels have: pipelined, and unrolled at compile time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trilobite.processor.lang.python.operations import intrinsic


@dataclass
class Pipeline:
    """A range whose iterations overlap: loads run ahead of computation, stores behind it."""

    start: Any
    stop: Any
    step: Any

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop, self.step))


@dataclass
class StaticRange:
    """A range that is unrolled while the kernel is compiled."""

    values: range

    def __iter__(self) -> Iterator[int]:
        return iter(self.values)


@intrinsic
def pipeline(start: Any, stop: Any = None, step: Any = 1) -> Pipeline:
    """`for i in dlp.pipeline(...)`: as range, but `dlp.load`, computation and `dlp.store` of neighbouring
    iterations run beside each other. Buffers made in the body are doubled where that needs it."""
    return Pipeline(0, start, 1) if stop is None else Pipeline(start, stop, step)


@intrinsic
def static_range(start: int, stop: int | None = None, step: int = 1) -> StaticRange:
    """`for i in dlp.static_range(...)`: i is a constant of the compiler in each copy of the body."""
    return StaticRange(range(start) if stop is None else range(start, stop, step))
