"""Random well-typed graphs: every dtype, shapes without axes and without elements, symbolic sizes,
broadcasting, reductions, products, gathers, casts, control flow, calls.

`random_graph(seed)` gives a `Sample`: the graph, and which of its results are rough: they depend on an
operation that may round otherwise on another way through the same algebra (a sum of floats, a function such
as exp). What is not rough must be equal in every bit on every target. Operations with jumps (rounding,
comparison, sorting, truncation to integers) are applied to values that are not rough, so that a rounding
error stays a rounding error. `graphs` is the strategy for hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.compiler.random_values import DTYPES
from tests.compiler.random_windows import WindowSteps
from trilobite.base import dtypes as dt
from trilobite.base.errors import TrilobiteError
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import Affine, Dim, TensorType

SMOOTH = "exp exp2 expm1 log log2 log1p sin cos tanh atan erf sinh cosh asinh lgamma".split()
EXACT_UNARY = "neg abs sqrt conj not popcount clz".split()
JUMPING_UNARY = "floor ceil trunc round sign is_nan is_finite is_inf signbit".split()
EXACT_BINARY = "add sub mul div maximum minimum and or xor".split()
JUMPING_BINARY = "eq ne lt le gt ge floor_div rem copysign shift_left shift_right".split()
ROUGH_BINARY = "pow atan2 hypot logaddexp".split()
OPEN_BINARY = [*ROUGH_BINARY, "maximum", "minimum"]  # which of two zeros an extreme gives is open
REDUCTIONS = "reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or".split()


@dataclass(frozen=True)
class Sample:
    graph: Graph
    rough: tuple[bool, ...]  # per result


def random_graph(
    seed: int, *, steps: int = 14, depth: int = 2, symbolic: bool = False, fused: bool = False
) -> Sample:
    """A graph of about that many equations, with regions nested so deep at most. `fused`: for a target that
    keeps short floats in float32 within a kernel, arithmetic on them is rough.
    """
    maker = _Maker(seed, symbolic)
    maker.fused = fused
    return maker.sample(steps, depth)


graphs = st.builds(random_graph, st.integers(0, 2**32), symbolic=st.booleans())


class _Maker(WindowSteps):
    depth = 0  # how deep regions may still nest
    fused = False

    # -- graphs ----------------------------------------------------------------------------------------------

    def sample(self, steps: int, depth: int) -> Sample:
        self.depth = depth
        types = [TensorType((self.size, 3), dt.float32), TensorType((self.size,), dt.int32)]
        types += [TensorType(self.shape(), self.dtype()) for _ in range(int(self.rng.integers(1, 4)))]
        rough: list[bool] = []

        def body(*values: Any) -> list[Any]:
            pool = list(values)
            self.fill(pool, steps)
            outs = [*(self.pick(pool) for _ in range(3)), *pool[-2:]]
            rough.extend(self.is_rough(o) for o in outs)
            return outs

        return Sample(record_graph(body, types, "random"), tuple(rough))

    def fill(self, pool: list[Any], steps: int) -> None:
        """Add the results of that many steps. One that the type rules refuse is another one's turn."""
        done = 0
        while done < steps:
            try:
                pool += self.pick(STEPS)(self, pool)
                done += 1
            except TrilobiteError:
                continue

    def region(
        self, types: Sequence[TensorType], outputs: Sequence[TensorType], rough: Sequence[bool]
    ) -> Graph:
        """A graph of these types; its results are rough only where all of the caller's are."""
        self.depth -= 1
        outside = self.size  # inside, only what the operands decide is a size
        if not any(isinstance(d, Affine) for t in types for d in t.shape):
            self.size = 3

        def body(*values: Any) -> list[Any]:
            pool = list(values)
            for v, r in zip(values, rough, strict=True):
                self.mark(r, v)
            self.fill(pool, int(self.rng.integers(1, 5)))
            return [self.like(pool, t, smooth=False) for t in outputs]

        found = record_graph(body, types, self.pick(["body", "branch.0", "<lambda>"]))
        self.depth, self.size = self.depth + 1, outside
        return found

    # -- steps: pointwise ------------------------------------------------------------------------------------

    def unary(self, pool: list[Any]) -> list[Any]:
        if self.chance(0.5):
            x = self.pick(pool)
            return self.mark(self.is_rough(x) or self._is_short(x), table[self.pick(EXACT_UNARY)](x))
        if self.chance(0.5):
            return [table[self.pick(JUMPING_UNARY)](self.firm(pool))]
        floats = [v for v in pool if dt.is_float(v.dtype)]
        return self.mark(True, table[self.pick(SMOOTH)](self.pick(floats or [self.firm([])])))

    def binary(self, pool: list[Any]) -> list[Any]:
        x = self.pick(pool)
        y = self.like(pool, TensorType(x.shape, x.dtype))
        x, y = (x, y) if self.chance(0.7) else (y, x)
        name = self.pick(EXACT_BINARY if self.chance(0.8) else ROUGH_BINARY)
        rounds = (name in OPEN_BINARY and dt.is_inexact(x.dtype)) or self._is_short(x)
        if name == "pow" and dt.is_float(x.dtype):
            x = table["abs"](x)  # of a number below 0, whether the exponent is whole would be a jump
        return self.mark(self.is_rough(x, y) or rounds, table[name](x, y))

    def _is_short(self, x: Any) -> bool:
        return self.fused and x.dtype in dt.SMALL_FLOATS

    def jumping(self, pool: list[Any]) -> list[Any]:
        x = self.firm(pool)
        y = self.like(pool, TensorType(x.shape, x.dtype), smooth=False)
        return [table[self.pick(JUMPING_BINARY)](x, y)]

    def select(self, pool: list[Any]) -> list[Any]:
        x = self.pick(pool)
        y = self.like(pool, TensorType(x.shape, x.dtype))
        p = self.like(pool, TensorType(x.shape, dt.bool_), smooth=False)
        return self.mark(self.is_rough(x, y), table["select"](p, x, y))

    def cast(self, pool: list[Any]) -> list[Any]:
        dtype = self.dtype()
        x = self.pick(pool) if dt.is_inexact(dtype) else self.firm(pool)
        open_sign = dtype == dt.float4_e2m1fn  # a zero for NaN, whose own sign is anyone's
        return self.mark(self.is_rough(x) or open_sign, table["cast"](x, dtype=dtype))

    def bitcast(self, pool: list[Any]) -> list[Any]:
        x = self.firm(pool)
        if dt.is_float(x.dtype):  # the sign of NaN is anyone's
            zero = table["full"](shape=x.shape, dtype=x.dtype, value=0.0)
            x = table["select"](table["is_nan"](x), zero, x)
        return [table["bitcast"](x, dtype=self.pick([d for d in DTYPES if dt.bits(d) == dt.bits(x.dtype)]))]

    # -- steps: moving data ----------------------------------------------------------------------------------

    def broadcast(self, pool: list[Any]) -> list[Any]:
        x = self.pick([v for v in pool if len(v.shape) < 4] or [self.firm([])])
        shape, axes = list[Dim](), list[int]()
        for d in (*x.shape, None):
            while self.chance(0.3) and len(shape) < 4:
                shape.append(self.pick([1, 2, 3, self.size]))
            if d is not None:
                axes.append(len(shape))
                shape.append(self.pick([2, 3]) if d == 1 and self.chance(0.5) else d)
        return self.mark(self.is_rough(x), table["broadcast"](x, shape=tuple(shape), axes=tuple(axes)))

    def reshape(self, pool: list[Any]) -> list[Any]:
        x = self.pick(pool)
        shape = list(x.shape)
        if len(shape) > 1 and self.chance(0.5):
            i = int(self.rng.integers(len(shape) - 1))
            shape[i : i + 2] = [shape[i] * shape[i + 1]]
        elif shape and self.chance(0.5):
            i = int(self.rng.integers(len(shape)))
            shape[i : i + 1] = [2, shape[i] // 2] if shape[i] % 2 == 0 else [shape[i], 1]
        else:
            shape.insert(int(self.rng.integers(len(shape) + 1)), 1)
        return self.mark(self.is_rough(x), table["reshape"](x, shape=tuple(shape)))

    def transpose(self, pool: list[Any]) -> list[Any]:
        x = self.pick(pool)
        order = tuple(int(i) for i in self.rng.permutation(len(x.shape)))
        return self.mark(self.is_rough(x), table["transpose"](x, axes=order))

    def slice(self, pool: list[Any]) -> list[Any]:
        x = self.pick(pool)
        at = [_span(self.rng, d) for d in x.shape]
        start, stop, step = (tuple(column) for column in zip(*at, strict=True)) if at else ((), (), ())
        if self.chance(0.3):
            part = table["slice"](x, start=start, stop=stop, step=step)
            y = self.like(pool, TensorType(part.shape, x.dtype))
            out = table["update_slice"](x, y, start=start, stop=stop, step=step)
            return self.mark(self.is_rough(x, y), out)
        return self.mark(self.is_rough(x), table["slice"](x, start=start, stop=stop, step=step))

    def pad(self, pool: list[Any]) -> list[Any]:
        x = self.pick(pool)
        low, high = (tuple(int(i) for i in self.rng.integers(-1, 3, len(x.shape))) for _ in range(2))
        between = tuple(int(not isinstance(d, Affine) and self.chance(0.3)) for d in x.shape)
        return self.mark(
            self.is_rough(x), table["pad"](x, low=low, high=high, between=between, value=self.pick([0, 1]))
        )

    def concatenate(self, pool: list[Any]) -> list[Any]:
        x = self.pick([v for v in pool if v.shape] or [self.constant(TensorType((2,), dt.float32))])
        parts = [
            x,
            *(self.like(pool, TensorType(x.shape, x.dtype)) for _ in range(int(self.rng.integers(3)))),
        ]
        axis = int(self.rng.integers(len(x.shape)))
        return self.mark(self.is_rough(*parts), table["concatenate"](*parts, axis=axis))

    def reverse(self, pool: list[Any]) -> list[Any]:
        x = self.pick(pool)
        return self.mark(self.is_rough(x), table["reverse"](x, axes=self.axes(len(x.shape))))

    def create(self, pool: list[Any]) -> list[Any]:
        shape, dtype = self.shape(), self.dtype()
        if shape and self.chance(0.4):
            return [table["iota"](shape=shape, dtype=dtype, axis=int(self.rng.integers(len(shape))))]
        if self.chance(0.5):
            return [self.constant(TensorType(shape, dtype))]
        return [table["full"](shape=shape, dtype=dtype, value=self.pick([0, 1, 2, 3.0, 0.5]))]

    def mean_nothing(self, pool: list[Any]) -> list[Any]:
        x = self.pick(pool)
        return self.mark(self.is_rough(x), table[self.pick(["barrier", "stop_gradient"])](x))

    def gather(self, pool: list[Any]) -> list[Any]:
        x = self.pick([v for v in pool if v.shape] or [self.constant(TensorType((4,), dt.float32))])
        axis = int(self.rng.integers(len(x.shape)))
        if self.chance(0.5):
            indices = self.like(pool, TensorType(self.shape(2), dt.int32), smooth=False)
            return self.mark(self.is_rough(x), table["gather"](x, indices, axis=axis))
        indices = self.like(pool, TensorType(x.shape, dt.int64), smooth=False)
        return self.mark(self.is_rough(x), table["take_along"](x, indices, axis=axis))

    # -- steps: many to one ----------------------------------------------------------------------------------

    def reduce(self, pool: list[Any]) -> list[Any]:
        x, name = self.pick(pool), self.pick(REDUCTIONS)
        rough = self.is_rough(x) or dt.is_inexact(x.dtype)
        return self.mark(rough, table[name](x, axes=self.axes(len(x.shape))))

    def order(self, pool: list[Any]) -> list[Any]:
        x = self.firm([v for v in pool if v.shape])
        axis = int(self.rng.integers(max(len(x.shape), 1)))
        return [table[self.pick(["argmax", "argmin"])](x, axis=axis)]

    def dot(self, pool: list[Any]) -> list[Any]:
        x = self.pick([v for v in pool if v.shape] or [self.constant(TensorType((3,), dt.float32))])
        k = int(self.rng.integers(len(x.shape)))
        batch = [i for i in range(len(x.shape)) if i != k and self.chance(0.3)]
        free = [self.pick([1, 2, 5]) for _ in range(int(self.rng.integers(3)))]
        shape = [*(x.shape[i] for i in batch), x.shape[k], *free]
        order = [int(i) for i in self.rng.permutation(len(shape))]
        y = self.like(pool, TensorType(tuple(shape[i] for i in order), x.dtype))
        if self.chance(0.5):
            y, order = (
                table["transpose"](y, axes=tuple(int(i) for i in np.argsort(order))),
                list(range(len(shape))),
            )
        places = tuple(order.index(i) for i in range(len(batch)))
        attributes = {"contract": ((k,), (order.index(len(batch)),)), "batch": (tuple(batch), places)}
        rough = self.is_rough(x, y) or dt.is_inexact(x.dtype)
        return self.mark(rough, table["dot"](x, y, **attributes, dtype=x.dtype))

    def cumulate(self, pool: list[Any]) -> list[Any]:
        x = self.pick([v for v in pool if v.shape] or [self.constant(TensorType((3,), dt.float32))])
        axis, kind = int(self.rng.integers(len(x.shape))), self.pick(["sum", "max", "min"])
        rough = self.is_rough(x) or dt.is_inexact(x.dtype)
        return self.mark(rough, table["cumulative"](x, axis=axis, kind=kind, reverse=self.chance(0.5)))

    def random_bits(self, pool: list[Any]) -> list[Any]:
        key, counter = (np.uint32(self.rng.integers(0, 2**32, 2)) for _ in range(2))
        return [table["random_bits"](key, counter, shape=(int(self.rng.integers(1, 9)),), stream=0)]

    # -- steps: graphs in graphs -----------------------------------------------------------------------------

    def cond(self, pool: list[Any]) -> list[Any]:
        self.need_depth()
        operands = [self.pick(pool) for _ in range(int(self.rng.integers(1, 4)))]
        types, rough = _types(operands), [self.is_rough(v) for v in operands]
        outputs = [self.pick(types) for _ in range(int(self.rng.integers(1, 3)))]
        branches = tuple(self.region(types, outputs, rough) for _ in range(int(self.rng.integers(1, 4))))
        index = self.like(pool, TensorType((), dt.int32), smooth=False)
        return list(table["cond"](index, *operands, branches=branches))

    def scan(self, pool: list[Any]) -> list[Any]:
        self.need_depth()
        k, c = int(self.rng.integers(0, 3)), int(self.rng.integers(1, 3))
        length: Dim = self.pick([1, 2, 3, self.size])
        fixed = [self.firm(pool) for _ in range(k + c)]
        types = _types(fixed)
        inner = [TensorType(self.shape(2), self.dtype()) for _ in range(int(self.rng.integers(0, 3)))]
        xs = [self.like(pool, TensorType((length, *t.shape), t.dtype), smooth=False) for t in inner]
        every = [*types, *inner]
        outputs = [*types[k:], *(self.pick(every) for _ in range(int(self.rng.integers(0, 3))))]
        body = self.region(every, outputs, [False] * len(every))
        attributes = {"body": body, "consts": k, "carries": c, "length": length, "reverse": self.chance(0.5)}
        return list(table["scan"](*fixed, *xs, **attributes))

    def while_loop(self, pool: list[Any]) -> list[Any]:
        """A counter and other carries, until the counter reaches a limit."""
        self.need_depth()
        carries = [self.firm(pool) for _ in range(int(self.rng.integers(1, 3)))]
        count, types = TensorType((), dt.int32), _types(carries)
        inner = self.region(types, types, [False] * len(types))

        def test(limit: Any, i: Any, *rest: Any) -> list[Any]:
            return [table["lt"](i, limit)]

        def body(i: Any, *rest: Any) -> list[Any]:
            return [table["add"](i, np.asarray(1, np.int32)), *table["call"](*rest, graph=inner, name="step")]

        limit, start = np.asarray(int(self.rng.integers(0, 4)), np.int32), np.asarray(0, np.int32)
        attributes = {
            "test": record_graph(test, [count, count, *types], "test"),
            "body": record_graph(body, [count, *types], "body"),
            "consts": (1, 0),
        }
        return list(table["while"](limit, start, *carries, **attributes))

    def call(self, pool: list[Any]) -> list[Any]:
        self.need_depth()
        operands = [self.pick(pool) for _ in range(int(self.rng.integers(1, 4)))]
        types, rough = _types(operands), [self.is_rough(v) for v in operands]
        graph = self.region(types, [self.pick(types) for _ in range(2)], rough)
        return list(table["call"](*operands, graph=graph, name="inner"))

    def need_depth(self) -> None:
        if self.depth == 0:
            raise TrilobiteError("regions are as deep as they may be")


STEPS: Sequence[Callable[[_Maker, list[Any]], list[Any]]] = (
    *[_Maker.unary] * 4, *[_Maker.binary] * 6, *[_Maker.jumping] * 2, *[_Maker.select] * 2,
    *[_Maker.cast] * 3, _Maker.bitcast, *[_Maker.broadcast] * 3, *[_Maker.reshape] * 3,
    *[_Maker.transpose] * 3, *[_Maker.slice] * 2, _Maker.pad, _Maker.concatenate, _Maker.reverse,
    *[_Maker.create] * 2, _Maker.mean_nothing, _Maker.gather, *[_Maker.reduce] * 3, _Maker.order,
    *[_Maker.dot] * 2, _Maker.cumulate, _Maker.random_bits, _Maker.cond, _Maker.scan, _Maker.while_loop,
    _Maker.call, _Maker.conv, _Maker.window_reduce, _Maker.scatter, _Maker.sort, _Maker.dynamic_slice,
    _Maker.quantise,
)  # fmt: skip


def _types(values: Sequence[Any]) -> list[TensorType]:
    return [TensorType(v.shape, v.dtype) for v in values]


def _span(rng: np.random.Generator, d: Dim) -> tuple[Dim, Dim, int]:
    """A start, stop and step within a size."""
    if isinstance(d, Affine):
        return 0, d, 1
    start = int(rng.integers(0, d + 1))
    return start, int(rng.integers(start, d + 1)), int(rng.integers(1, 4))
