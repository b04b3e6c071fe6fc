"""Runs of memory: copied, widened or filled with one value, whole vectors first and then what is left."""

from __future__ import annotations

from collections.abc import Callable

from trilobite.base.dtypes import DType
from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import memory_type


def each_vector(
    t: Text, lanes: int, last: Value, body: Callable[[Value, Value | None], None],
    first: Value | None = None, name: str = "channel",
) -> None:  # fmt: skip
    """body(place, None) for whole vectors up to `last`, body(place, how many) for one that is cut off."""
    whole = t.and_(last if first is None else t.sub(last, first), -lanes)
    whole = whole if first is None else t.add(first, whole)
    with t.loop(0 if first is None else first, whole, lanes, name=name) as i:
        body(i.index, None)
    with t.when(t.icmp("slt", whole, last)):
        body(whole, t.sub(last, whole))


class Vectors:
    """Vectors of one dtype, whole ones or cut off."""

    def __init__(self, t: Text, dtype: DType, lanes: int) -> None:
        self.t, self.dtype, self.lanes = t, dtype, lanes

    def each(
        self, last: Value, body: Callable[[Value, Value | None], None], first: Value | None = None
    ) -> None:
        each_vector(self.t, self.lanes, last, body, first)

    def load(self, at: Value, count: Value | None) -> Value:
        return self.t.load_partial(self.dtype, at, count, self.lanes)

    def store(self, value: Value, at: Value, count: Value | None) -> None:
        self.t.store_partial(self.dtype, value, at, count)


def zero_run(t: Text, dtype: DType, target: Value, count: Value) -> None:
    """Single elements: runs of zeros beside others are short."""
    fill_run(t, dtype, t.constant(memory_type(dtype), 0), target, count)


def fill_run(t: Text, dtype: DType, value: Value, target: Value, count: Value) -> None:
    """The same of any value."""
    with t.loop(0, count, name="zero") as i:
        t.store_type(value, t.address(target, i.index, dtype))


def copy_run(
    t: Text, dtypes: tuple[DType, DType], source: Value, target: Value, count: Value, lanes: int
) -> None:
    """Of equal dtypes the bits stay as they are."""
    (dtype, wide), whole = dtypes, t.and_(count, -lanes)
    for first, last, step in ((t.constant("i64", 0), whole, lanes), (whole, count, 0)):
        with t.loop(first, last, step or 1, name="copy") as i:
            at, to = t.address(source, i.index, dtype), t.address(target, i.index, wide)
            if dtype == wide:
                t.store_type(t.load_type(memory_type(dtype, step), at), to)
            else:
                t.store(wide, widen(t, t.load(dtype, at, step), dtype, wide), to)
