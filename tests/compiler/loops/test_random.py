"""Random regions three ways: the primitives' rules, the interpreter of their nests, and the machine.

Floats are small whole numbers, NaN and infinities, so that sums are exact in any order and every way must
give the same bits.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits
from tests.compiler.loops.regions import Array, Region, fusion_of, native, reference, size_of
from trilobite.base import dtypes as dt
from trilobite.base.errors import ShapeError
from trilobite.compiler.program.kernels import Operand
from trilobite.compiler.targets.cpu.loops.dependence import carried
from trilobite.compiler.targets.cpu.loops.interpret import interpret
from trilobite.compiler.targets.cpu.loops.ir import Nest, loops, node_indices, walk
from trilobite.compiler.targets.cpu.loops.verify import verify
from trilobite.compiler.targets.cpu.nests.lower import accepts, lower, nests_of
from trilobite.ir.graph import Graph, Var
from trilobite.ir.types import TensorType, dim

DTYPES = [dt.float32, dt.float32, dt.float64, dt.int32, dt.int8, dt.uint8, dt.int64, dt.bool_]
UNARY = ("neg", "abs", "sign", "floor", "stop_gradient")
BINARY = ("add", "sub", "maximum", "minimum")


class Maker:
    """Grows a region by random equations."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.r = rng, Region()
        self.values: list[Var] = []
        for _ in range(rng.integers(1, 4)):
            shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 8, 9, 17, 33], rng.integers(0, 4)))
            self.values.append(self.r.input(shape, self.pick(DTYPES)))

    def pick(self, items: Any) -> Any:
        return items[self.rng.integers(len(items))]

    def like(self, x: Var) -> Var:
        """Another value of the same type, made from x if there is none."""
        same = [v for v in self.values if v.type == x.type]
        return self.pick(same)

    def grow(self) -> None:
        x = self.pick(self.values)
        found = getattr(self, self.pick(STEPS))(x)
        if found is not None and found.type.ndim <= 4 and 0 < np.prod(found.type.shape) <= 4000:
            self.values.append(found)

    def unary(self, x: Var) -> Var | None:
        if x.type.dtype == dt.bool_:
            return self.r.not_(x)
        return getattr(self.r, self.pick(UNARY))(x)

    def binary(self, x: Var) -> Var:
        names = ("and", "or", "xor") if x.type.dtype == dt.bool_ else BINARY
        return getattr(self.r, self.pick(names))(x, self.like(x))

    def compare(self, x: Var) -> Var:
        y = self.like(x)
        return self.r.select(getattr(self.r, self.pick(("lt", "eq", "ge")))(x, y), x, self.like(x))

    def cast(self, x: Var) -> Var:
        return self.r.cast(x, dtype=self.pick(DTYPES))

    def broadcast(self, x: Var) -> Var:
        axis = int(self.rng.integers(x.type.ndim + 1))
        shape = (*x.type.shape[:axis], int(self.pick([1, 2, 5, 9])), *x.type.shape[axis:])
        return self.r.broadcast(x, shape=shape, axes=tuple(a for a in range(len(shape)) if a != axis))

    def transpose(self, x: Var) -> Var:
        return self.r.transpose(x, axes=tuple(int(a) for a in self.rng.permutation(x.type.ndim)))

    def reverse(self, x: Var) -> Var:
        return self.r.reverse(x, axes=tuple(a for a in range(x.type.ndim) if self.rng.random() < 0.5))

    def slice(self, x: Var) -> Var:
        start = [int(self.rng.integers(d)) for d in x.type.shape]
        stop = [int(self.rng.integers(s + 1, d + 1)) for s, d in zip(start, x.type.shape, strict=True)]
        step = tuple(int(self.rng.integers(1, 4)) for _ in start)
        return self.r.slice(x, start=tuple(start), stop=tuple(stop), step=step)

    def pad(self, x: Var) -> Var | None:
        low, high = (tuple(int(n) for n in self.rng.integers(-1, 3, x.type.ndim)) for _ in range(2))
        between = tuple(int(n) for n in self.rng.choice([0, 0, 1, 2], x.type.ndim))
        sizes = zip(x.type.shape, low, high, between, strict=True)
        if any((d - 1) * (b + 1) + 1 + lo + hi <= 0 for d, lo, hi, b in sizes):
            return None
        return self.r.pad(x, low=low, high=high, between=between, value=float(self.rng.integers(2)))

    def concatenate(self, x: Var) -> Var | None:
        if not x.type.ndim:
            return None
        return self.r.concatenate(x, self.like(x), x, axis=int(self.rng.integers(x.type.ndim)))

    def reshape(self, x: Var) -> Var:
        shape = list(x.type.shape)
        if len(shape) > 1 and self.rng.random() < 0.6:
            a = int(self.rng.integers(len(shape) - 1))
            shape[a : a + 2] = [shape[a] * shape[a + 1]]
        elif shape and shape[0] % 3 == 0:
            shape[:1] = [3, shape[0] // 3]
        return self.r.reshape(x, shape=tuple(shape))

    def reduce(self, x: Var) -> Var:
        axes = tuple(a for a in range(x.type.ndim) if self.rng.random() < 0.5)
        names = ("reduce_and", "reduce_or") if x.type.dtype == dt.bool_ else ("reduce_sum", "reduce_max")
        return getattr(self.r, self.pick(names))(x, axes=axes)

    def centre(self, x: Var) -> Var | None:
        """Reduce, spread, subtract: what normalisations are made of."""
        if x.type.dtype == dt.bool_ or not x.type.ndim:
            return None
        axes = tuple(a for a in range(x.type.ndim) if self.rng.random() < 0.6)
        low = self.r.reduce_min(x, axes=axes)
        return self.r.sub(x, self.r.spread(low, x.type.shape, *axes))

    def place(self, x: Var) -> Var | None:
        if not x.type.ndim or x.type.dtype == dt.bool_:
            return None
        return self.r.argmax(x, axis=int(self.rng.integers(x.type.ndim)))

    def gather(self, x: Var) -> Var | None:
        numbers = [v for v in self.values if v.type.dtype in dt.INTEGERS and v.type.ndim <= 2]
        if not x.type.ndim or not numbers:
            return None
        return self.r.gather(x, self.pick(numbers), axis=int(self.rng.integers(x.type.ndim)))

    def run(self, x: Var) -> Var | None:
        if not x.type.ndim or x.type.dtype == dt.bool_:
            return None
        return self.r.cumulative(x, axis=int(self.rng.integers(x.type.ndim)), kind=self.pick(("max", "sum")),
                                 reverse=bool(self.rng.integers(2)))  # fmt: skip

    def graph(self) -> Graph:
        count = min(len(self.values), int(self.rng.integers(1, 4)))
        return self.r.graph(*(self.values[-k - 1] for k in range(count)))


STEPS = (
    "unary binary binary compare cast broadcast transpose reverse slice pad concatenate reshape reduce "
    "reduce centre place gather run".split()
)


def arrays_of(region: Graph, rng: np.random.Generator) -> list[Array]:
    out = []
    for t in region.input_types:
        numbers = rng.integers(0 if t.dtype.kind == "u" else -8, 9, t.shape)
        if t.dtype in dt.FLOATS:
            special = rng.choice([np.nan, np.inf, -np.inf], t.shape)
            numbers = np.where(rng.random(t.shape) < 0.05, special, numbers)
        out.append(np.asarray(numbers).astype(t.dtype))
    return out


def interpreted(region: Graph, values: list[Array]) -> list[Array]:
    """The outputs by the interpreter of loops."""
    lowering = lower(fusion_of(region))
    outputs = [np.zeros(t.shape, t.dtype) for t in region.output_types]
    nests = nests_of(region)
    kept: dict[int, Array] = {}
    for nest, step in zip(nests, lowering.steps, strict=True):
        verify(nest)
        arrays = []
        for b, a in zip(nest.arguments, step.args, strict=False):  # sizes follow the buffers
            assert isinstance(a, Operand)
            if a.role == "temporary":
                count = int(np.prod([int(d) for d in b.shape]))
                arrays.append(kept.setdefault(a.index, np.zeros(count, b.dtype)))
            else:
                arrays.append({"in": values, "out": outputs}[a.role][a.index])
        interpret(nest, arrays)
    return outputs


def check(seed: int, slowly: bool) -> bool:
    rng = np.random.default_rng(seed)
    maker = Maker(rng)
    for _ in range(rng.integers(2, 12)):
        maker.grow()
    region = maker.graph()
    assert accepts(region) is None, f"{accepts(region)}: {region}"
    values = arrays_of(region, rng)
    expected = reference(region, values)
    for found in (native(region, values, cuts=1 + seed % 3), interpreted(region, values) if slowly else []):
        for a, b in zip(found, expected, strict=bool(found)):
            whole = b + np.zeros((), b.dtype) if b.dtype in dt.FLOATS else b  # -0.0 and 0.0 are one here
            assert_same_bits(
                a + np.zeros((), b.dtype) if b.dtype in dt.FLOATS else a, whole, f"{seed}\n{region}"
            )
    return True


@pytest.mark.parametrize("seed", range(60))
def test_random_regions(seed: int) -> None:
    assert check(seed, slowly=seed % 4 == 0)


def plain(nest: Nest) -> bool:
    """Is every index linear, so that the dependence test is exact?"""
    return all(isinstance(atom, str) for n in walk(nest.body) for i in node_indices(n) for atom, _ in i.terms)


def test_default_schedules_pass_the_dependence_test() -> None:
    """Parallel and vector loops of default schedules carry nothing but what may be combined in any order."""
    looked = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        maker = Maker(rng)
        for _ in range(rng.integers(1, 6)):
            maker.grow()
        for nest in filter(plain, nests_of(maker.graph())):
            local = {b.name for b in nest.buffers if b.kind == "local"}
            for each in loops(nest.body):
                if each.kind == "parallel":
                    assert not [d for d in carried(nest, each.var) if d.first.buffer not in local], str(nest)
                elif each.kind == "vector":
                    assert all(d.reordable for d in carried(nest, each.var)), str(nest)
                looked += each.kind in ("parallel", "vector")
    assert looked > 50


class SymbolicMaker(Maker):
    """Inputs with symbolic axes; an equation that their sizes do not allow is left out."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.r = rng, Region()
        n, m = dim("n", max=40), dim("m", min=2, max=40)
        choices = [n, n, m, 2 * n, n + 1, 3, 8, 17]
        self.values = [
            self.r.input([self.pick(choices) for _ in range(rng.integers(1, 4))], self.pick(DTYPES))
            for _ in range(rng.integers(1, 4))
        ]

    def grow(self) -> None:
        x = self.pick(self.values)
        with contextlib.suppress(ShapeError, TypeError):  # sizes that nobody can compare or take apart
            found = getattr(self, self.pick(STEPS))(x)
            if found is not None and found.type.ndim <= 4:
                self.values.append(found)


def check_symbolic(seed: int) -> bool:
    """Whatever is accepted is lowered once and right for every size."""
    rng = np.random.default_rng(seed)
    maker = SymbolicMaker(rng)
    for _ in range(rng.integers(1, 7)):
        maker.grow()
    region = maker.graph()
    if accepts(region) is not None:
        return False
    for number in (1, int(rng.integers(2, 41))):
        sizes = {s: max(number, s.lower) for s in region.symbols}
        fixed = Graph(
            [Var(TensorType(tuple(size_of(d, sizes) for d in t.shape), t.dtype)) for t in region.input_types],
            (), (),
        )  # fmt: skip
        values = arrays_of(fixed, rng)
        expected = reference(region, values)
        if any(v.size > 1 << 20 for v in expected):
            continue
        for a, b in zip(native(region, values, sizes, cuts=1 + seed % 3), expected, strict=True):
            zero = np.zeros((), b.dtype) if b.dtype in dt.FLOATS else None
            same = (a, b) if zero is None else (a + zero, b + zero)
            assert_same_bits(*same, f"{seed} {sizes}\n{region}")
    return True


def test_symbolic_regions() -> None:
    assert sum(map(check_symbolic, range(60))) > 30  # and the others are refused before anything runs


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_random_regions() -> None:
    assert all(check(seed, slowly=seed % 10 == 0) for seed in range(1000, 6000))
