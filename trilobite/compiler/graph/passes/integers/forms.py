"""Forms of a value while a graph is written on integers, and the means to write it.

A value is there as numbers, as `Codes` (bytes less a zero point, times a scale) or as `Sums` (integers that a
product added up, with a scale, a bias and a clamp that are applied when somebody reads them). Scales, zero
points and biases are constants of the graph here; weights are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import DType, float32, int8, uint8
from trilobite.base.locations import UNKNOWN
from trilobite.base.records import dataclass
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.types import Affine

Array = np.ndarray[Any, Any]
BYTES = frozenset({int8, uint8})
HALF = 128  # what is between unsigned bytes and signed ones
ROOM = 1 << 30  # what sums of products may reach, and biases beside them, inside 32 bits


@dataclass(frozen=True)
class Codes:
    """(q - zero)·scale, with one scale and zero point, or one each per place on `axis`. `q` is of int8.
    Without a scale it is the integer q - zero itself; `moving` is then a zero point that only a run knows.
    """

    q: Var
    scale: Array | None
    zero: Array
    axis: int | None
    moving: Var | None = None

    @property
    def is_plain(self) -> bool:
        """One grid for all elements."""
        return self.axis is None

    @property
    def has_zero(self) -> bool:
        return self.moving is not None or bool(self.zero.any())

    @property
    def reach(self) -> int:
        """The largest magnitude of q - zero."""
        if self.moving is not None:
            return 255
        zero = self.zero.astype(np.int64)
        return int(max((zero + HALF).max(), (HALF - 1 - zero).max()))

    def same_grid(self, other: Codes) -> bool:
        return (
            self.is_plain and other.is_plain and self.moving is other.moving is None
            and self.zero == other.zero
            and (self.scale is other.scale is None or _equal(self.scale, other.scale))
        )  # fmt: skip


def _equal(a: Array | None, b: Array | None) -> bool:
    return a is not None and b is not None and bool(a == b)


@dataclass(frozen=True)
class Sums:
    """(total + bias/scale)·scale, clamped. `place` is the axis of the scales, `at` that of the bias."""

    total: Var
    scale: Array  # float64
    place: int | None
    bias: Array | None = None  # float64
    at: int | None = None
    low: float = -np.inf
    high: float = np.inf
    reach: float = np.inf  # the largest magnitude of `total`
    without: Callable[[Array], Var] | None = None  # the total with zeros for these channels of the weight
    alone: Array | None = None  # channels of which the bias is all there is

    @property
    def is_clamped(self) -> bool:
        return bool(np.isfinite(self.low) or np.isfinite(self.high))

    def before_clamp(self, other: Sums) -> bool:
        """Is the other these same sums, perhaps clamped?"""
        return self.total is other.total and self.bias is other.bias and self.scale is other.scale

    @property
    def steps(self) -> Array | None:
        """The bias as an integer beside the sums; None if there is none. `ROOM` must hold it."""
        return None if self.bias is None else np.rint(self.bias / self.scale)


class Repeated(NamedTuple):
    """A constant that is the same along all axes but one (None: along all)."""

    values: Array
    axis: int | None


class Constants:
    """What the graph says about its constants."""

    def __init__(self, graph: Graph) -> None:
        self.makers = {v: e for e in graph.equations for v in e.outputs}
        self.arrays: dict[Var, Array] = {}
        for e in graph.equations:
            if e.primitive.name == "constant":
                self.arrays[e.outputs[0]] = e.attributes["value"].array
            elif e.primitive.name == "full" and not any(isinstance(d, Affine) for d in e.attributes["shape"]):
                self.arrays[e.outputs[0]] = e.primitive.evaluate(**e.attributes)

    def array(self, v: Var) -> Array | None:
        return self.arrays.get(v)

    def repeated(self, v: Var) -> Repeated | None:
        """A value of constants, as what it repeats."""
        e = self.makers.get(v)
        axes = tuple(range(v.type.ndim))
        if e is not None and e.primitive.name == "broadcast":
            v, axes = e.inputs[0], e.attributes["axes"]
        elif e is not None and e.primitive.name == "full":
            return Repeated(np.asarray(e.primitive.evaluate(**{**e.attributes, "shape": ()})), None)
        array = self.arrays.get(v)
        if array is None:
            return None
        if not array.size:
            return None
        for i in range(array.ndim):  # a folded broadcast
            first = array.take([0], axis=i)
            array = first if bool((array == first).all()) else array
        wide = [a for a, n in zip(axes, array.shape, strict=True) if n != 1]
        if len(wide) > 1:
            return None
        return Repeated(array.reshape(-1), wide[0]) if wide else Repeated(array.reshape(()), None)

    def number(self, v: Var) -> float | None:
        found = self.repeated(v)
        return None if found is None or found.axis is not None else float(found.values)


class Writer:
    """The new graph, equation by equation."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.makers: dict[Var, Equation] = {}
        self.location = UNKNOWN

    def make(self, name: str, *inputs: Var, **attributes: Any) -> Var:
        made = Equation.of(name, inputs, attributes, self.location)
        self.equations.append(made)
        self.makers[made.outputs[0]] = made
        return made.outputs[0]

    def copied(self, e: Equation, inputs: tuple[Var, ...]) -> None:
        self.equations.append(e.reading(inputs))

    def constant(self, array: Array, dtype: DType) -> Var:
        flat = array.astype(dtype)
        if flat.size and bool((flat == flat.reshape(-1)[0]).all()):
            return self.full(flat.shape, dtype, flat.reshape(-1)[0])
        return self.make("constant", value=Dense(np.ascontiguousarray(flat)))

    def full(self, shape: Any, dtype: DType, value: Any) -> Var:
        number: Any = float(value) if dtype == float32 else int(value)
        return self.make("full", shape=tuple(shape), dtype=dtype, value=number)

    def cast(self, v: Var, dtype: DType) -> Var:
        return v if v.type.dtype == dtype else self.make("cast", v, dtype=dtype)

    def along(self, v: Var, like: Var, axis: int | None) -> Var:
        """A vector, or a number, as wide as a value."""
        return self.make("broadcast", v, shape=like.type.shape, axes=() if axis is None else (axis,))

    def signed(self, q: Var) -> Var:
        """Unsigned bytes less 128, or signed ones plus 128: the highest bit the other way round."""
        other = int8 if q.type.dtype == uint8 else uint8
        unsigned = self.cast(q, uint8)
        turned = self.make("xor", unsigned, self.full(q.type.shape, uint8, HALF))
        return self.cast(turned, other)
