"""Graphs: ordered, typed, immutable lists of equations. Equality and hash see structure, never names or
locations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from trilobite.base.locations import UNKNOWN, Location
from trilobite.ir.primitive import Primitive, result_types, table
from trilobite.ir.types import Symbol, TensorType, symbols_of


class Var:
    """A value of a graph. Identity is what counts; its number exists only in print."""

    __slots__ = ("type",)

    def __init__(self, type: TensorType) -> None:
        self.type = type

    def __repr__(self) -> str:
        return f"Var({self.type})"


class Dense:
    """An array as an attribute: immutable, compared bit by bit."""

    __slots__ = ("_key", "array")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        array = array.copy()
        array.flags.writeable = False
        self.array = array
        self._key: tuple[Any, ...] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        if self._key is None:
            self._key = (self.array.shape, self.array.dtype.name, self.array.tobytes())
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dense) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Dense({self.array!r})"


class Equation:
    """`outputs = primitive(inputs, attributes)`, with the user's line it came from."""

    __slots__ = ("attributes", "inputs", "location", "outputs", "primitive")

    def __init__(
        self,
        primitive: Primitive,
        inputs: tuple[Var, ...],
        attributes: Mapping[str, Any],
        outputs: tuple[Var, ...],
        location: Location = UNKNOWN,
    ) -> None:
        self.primitive, self.inputs, self.attributes = primitive, inputs, attributes
        self.outputs, self.location = outputs, location

    @staticmethod
    def of(
        name: str, inputs: Sequence[Var], attributes: Mapping[str, Any], location: Location = UNKNOWN
    ) -> Equation:
        """A primitive's equation with new results, of the types that it gives."""
        primitive = table[name]
        types = result_types(primitive, [v.type for v in inputs], attributes)
        return Equation(primitive, tuple(inputs), attributes, tuple(map(Var, types)), location)

    def reading(self, inputs: tuple[Var, ...]) -> Equation:
        """The same of other operands; itself if they are the same."""
        if inputs == self.inputs:
            return self
        return Equation(self.primitive, inputs, self.attributes, self.outputs, self.location)

    def regions(self) -> Iterator[tuple[str, Graph]]:
        """The graphs among the attributes, by name (`branches.0` for one of several)."""
        for name, value in self.attributes.items():
            if isinstance(value, Graph):
                yield name, value
            elif isinstance(value, tuple):
                for i, v in enumerate(value):
                    if isinstance(v, Graph):
                        yield f"{name}.{i}", v

    def __repr__(self) -> str:
        return f"Equation({self.primitive.name}, {len(self.inputs)} -> {len(self.outputs)})"


def exact(value: Any) -> Any:
    """A number as what tells it apart: 0.0 from -0.0, 1 from 1.0 and True; and NaN is NaN."""
    if isinstance(value, tuple):
        return tuple(map(exact, value))
    if isinstance(value, np.generic):
        return value.dtype.name, value.tobytes()
    if isinstance(value, float):
        return "float", value.hex()
    if isinstance(value, complex):
        return "complex", value.real.hex(), value.imag.hex()
    return ("bool", value) if isinstance(value, bool) else value


class Graph:
    """Inputs, equations in order of execution, outputs. A value: never changed after it is made."""

    def __init__(
        self,
        inputs: Sequence[Var],
        equations: Sequence[Equation],
        outputs: Sequence[Var],
        name: str = "graph",
    ) -> None:
        self.inputs, self.equations, self.outputs = tuple(inputs), tuple(equations), tuple(outputs)
        self.name = name

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        """Itself: a module that holds a graph is copied, the table of primitives is not."""
        return self

    @cached_property
    def input_types(self) -> tuple[TensorType, ...]:
        return tuple(v.type for v in self.inputs)

    @cached_property
    def output_types(self) -> tuple[TensorType, ...]:
        return tuple(v.type for v in self.outputs)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What equality compares: variables numbered in order of definition."""
        number: dict[Var, int] = {}
        for v in self.inputs:
            number[v] = len(number)
        rows = []
        for e in self.equations:
            ins = tuple(number[v] for v in e.inputs)
            for v in e.outputs:
                number[v] = len(number)
            attributes = tuple((k, exact(e.attributes[k])) for k in sorted(e.attributes))
            rows.append((e.primitive.name, ins, attributes, tuple(v.type for v in e.outputs)))
        return self.input_types, tuple(rows), tuple(number[v] for v in self.outputs)

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Graph) and self._hash == other._hash and self.key == other.key
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def symbols(self) -> frozenset[Symbol]:
        """The symbolic sizes that its inputs decide."""
        return frozenset(s for t in self.input_types for s in symbols_of(t.shape))

    @cached_property
    def has_effects(self) -> bool:
        return any(e.primitive.effect or any(g.has_effects for _, g in e.regions()) for e in self.equations)

    def __len__(self) -> int:
        return len(self.equations)

    def __str__(self) -> str:
        from trilobite.ir.text import show

        return show(self, data=False)

    __repr__ = __str__
