"""Batching: one program for one element becomes one program for many. The batch is always axis 0 of a mapped
value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from trilobite.base.errors import TraceError
from trilobite.base.locations import user_location
from trilobite.ir.primitive import Absent, Attributes, Primitive, Value, table
from trilobite.ir.transforms.bind import Interpreter, Traced, bind
from trilobite.ir.types import Dim

Randomness = Literal["error", "same", "different"]


class Batched(Traced):
    """A value with a hidden leading axis of the batch's size."""

    __slots__ = ("primal",)

    def __init__(self, batch: Batch, primal: Value) -> None:
        self.interpreter, self.primal = batch, primal
        self.shape, self.dtype = primal.shape[1:], primal.dtype


class Batch(Interpreter):
    """Processes primitives on batched values."""

    __slots__ = ("randomness", "size")

    def __init__(self, level: int, size: Dim, randomness: Randomness = "error") -> None:
        super().__init__(level)
        self.size, self.randomness = size, randomness

    def process(self, primitive: Primitive, values: Sequence[Value], attributes: Attributes) -> Any:
        self.check_alive("vmap")
        mapped = [type(v) is Batched and v.interpreter is self for v in values]
        inner = [v.primal if m else v for v, m in zip(values, mapped, strict=True)]
        if isinstance(primitive.batch, Absent):
            raise TraceError(
                f"{primitive.name} cannot run under vmap: {primitive.batch.why}",
                where=user_location(),
                expected="an operation with a batching rule",
                remedy="call it outside vmap, or write the loop with tb.scan",
            )
        out = primitive.batch(self.size, inner, mapped, attributes)
        if not primitive.multiple:
            return Batched(self, out)
        return tuple(o.value if isinstance(o, Unmapped) else Batched(self, o) for o in out)

    def out(self, value: Value) -> Value:
        """A result with its batch axis in front, whether or not it depends on the batch."""
        if type(value) is Batched and value.interpreter is self:
            return value.primal
        return lead(value, self.size)


class Unmapped:
    """What a batch rule of a region returns for a result that does not depend on the batch."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


def lead(value: Value, size: Dim) -> Value:
    """Repeat a value along a new leading axis."""
    shape = (size, *value.shape)
    return bind(table["broadcast"], value, shape=shape, axes=tuple(range(1, len(shape))))


def all_mapped(size: Dim, values: Sequence[Value], mapped: Sequence[bool]) -> list[Value]:
    return [v if m else lead(v, size) for v, m in zip(values, mapped, strict=True)]
