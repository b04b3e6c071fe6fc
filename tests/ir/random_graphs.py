"""Random graphs: well-typed ones made by recording random operations, and ones with arbitrary attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from trilobite.base import dtypes as dt
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import Affine, Symbol, TensorType, affine

DTYPES = sorted(dt.ALL, key=str)
FLOATS = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 0.1, 1e-320, -1.5e300]

# -- well-typed ----------------------------------------------------------------------------------------------


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.n = Affine(0, [(Symbol("n", 1, 64), 1)])

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def graph(self, depth: int, types: list[TensorType] | None = None, outputs: int | None = None) -> Graph:
        types = types or [
            TensorType((self.n, 3), dt.float32),
            TensorType((3,), dt.float32),
            TensorType((), dt.float32),
        ]

        def body(*values: Any) -> list[Any]:
            pool = list(values)
            for _ in range(int(self.rng.integers(1, 8))):
                pool += self.step(pool, depth)
            if outputs is not None:
                return [pool[0]] * outputs
            return [self.pick(pool) for _ in range(int(self.rng.integers(1, 4)))]

        return record_graph(body, types, self.pick(["main", "body.fwd", "<lambda>", 'odd "name"']))

    def step(self, pool: list[Any], depth: int) -> list[Any]:
        floats = [v for v in pool if v.dtype == dt.float32]
        x = self.pick(floats)
        choice = int(self.rng.integers(9 if depth else 7))
        if choice == 0:
            return [table[self.pick(["neg", "exp", "floor", "erf"])](x)]
        if choice == 1:
            return [
                table[self.pick(["add", "mul", "maximum"])](
                    x, self.pick([v for v in floats if v.shape == x.shape])
                )
            ]
        if choice == 2:
            return [table["broadcast"](x, shape=(2, *x.shape), axes=tuple(range(1, 1 + x.ndim)))]
        if choice == 3:
            return [table["full"](shape=x.shape, dtype=self.pick(DTYPES), value=self.pick(FLOATS))]
        if choice == 4:
            return (
                [table["add"](c, c) for c in [self.constant()]]
                if self.rng.random() < 0.5
                else [self.constant()]
            )
        if choice == 5:
            table["print"](x, fmt="{} # not a comment")
            return [table["cast"](x, dtype=self.pick([dt.float64, dt.int4, dt.bool_]))]
        if choice == 6:
            return [table["reduce_sum"](x, axes=tuple(range(x.ndim)))]
        return self.region(x, depth)

    def constant(self) -> Any:
        dtype = self.pick([d for d in DTYPES if d != dt.bool_])
        shape = tuple(int(i) for i in self.rng.integers(0, 4, int(self.rng.integers(0, 3))))
        raw = self.rng.integers(0, 16 if dt.bits(dtype) == 4 else 256, (*shape, dtype.itemsize), np.uint8)
        return table["reshape"](np.ascontiguousarray(raw).reshape(-1).view(dtype).reshape(shape), shape=shape)

    def region(self, x: Any, depth: int) -> list[Any]:
        t = TensorType(x.shape, x.dtype)
        if self.rng.random() < 0.5:
            return list(
                table["call"](x, graph=self.graph(depth - 1, [t], 2), name="softmax", tracked=(True, False))
            )
        index = np.asarray(int(self.rng.integers(2)), np.int32)
        return list(table["cond"](index, x, branches=tuple(self.graph(depth - 1, [t], 1) for _ in range(2))))


graphs = st.builds(lambda seed: _Maker(seed).graph(depth=2), st.integers(0, 2**32))

# -- arbitrary attributes ------------------------------------------------------------------------------------

names = st.sampled_from(["n", "m", "f32", "nan", "größe", "n_1"])
symbols = st.builds(
    lambda s, lo, more: Symbol(s, lo, lo + more), names, st.integers(0, 5), st.integers(0, 99)
)
sizes = st.builds(
    affine, st.integers(-5, 5), st.dictionaries(symbols, st.integers(-3, 3), max_size=3).map(dict.items)
)
types = st.builds(
    lambda shape, d: TensorType(tuple(shape), d),
    st.lists(st.integers(0, 4) | sizes.filter(lambda d: isinstance(d, Affine)), max_size=3),
    st.sampled_from(DTYPES),
)  # fmt: skip


@st.composite
def arrays(draw: Any) -> Any:
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    high = 1 if dtype == dt.bool_ else 15 if dt.bits(dtype) == 4 else 255
    size = int(np.prod(shape)) * dtype.itemsize
    if draw(st.booleans()) and size:
        raw = bytes(draw(st.integers(0, high)) for _ in range(dtype.itemsize)) * (size // dtype.itemsize)
    else:
        raw = bytes(draw(st.lists(st.integers(0, high), min_size=size, max_size=size)))
    return np.frombuffer(raw, dtype).reshape(shape)


leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text(max_size=8)
    | st.sampled_from(DTYPES) | sizes | types | arrays().map(Dense)
    | arrays().filter(lambda a: a.size).map(lambda a: a.reshape(-1)[0])
)  # fmt: skip
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8)


@st.composite
def odd_graphs(draw: Any) -> Graph:
    """One equation whose attributes are anything at all; well-typed it is not."""
    inputs = [Var(t) for t in draw(st.lists(types, max_size=3))]
    outputs = [Var(t) for t in draw(st.lists(types, max_size=2))]
    attributes = draw(st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), values, max_size=4))
    e = Equation(table["custom_call"], tuple(inputs), attributes, tuple(outputs))
    return Graph(inputs, [e], [*inputs, *outputs], draw(st.text(max_size=5)))
