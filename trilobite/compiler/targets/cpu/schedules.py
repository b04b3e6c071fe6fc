"""`tb.schedules`: loops that you write down, and how they run, step by step.

Enters: arrays, loops around statements over their elements, and a `Schedule`. Leaves: the loops as text at
every step, and machine code that runs on NumPy arrays. What is computed and how it runs are apart: a step
that would change results (but for the order of sums that a statement declares as `add`) is refused with the
dependence in the way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from trilobite.base.dtypes import DType
from trilobite.base.errors import ArgumentError, DTypeError
from trilobite.compiler.targets.cpu.loops import schedule as _schedule
from trilobite.compiler.targets.cpu.loops.emit_llvm import emit, local_offsets
from trilobite.compiler.targets.cpu.loops.index import Index, as_index, variable
from trilobite.compiler.targets.cpu.loops.interpret import interpret
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Load,
    Loop,
    Nest,
    Node,
    Statement,
    Target,
    statements,
)
from trilobite.compiler.targets.cpu.loops.transform import extent_of
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import TensorType
from trilobite.native.cache import kernels
from trilobite.native.host import features
from trilobite.native.memory import empty
from trilobite.native.objects import assembly

__all__ = [
    "Array",
    "Compiled",
    "Expression",
    "Schedule",
    "array",
    "call",
    "loop",
    "loops",
    "nest",
    "variables",
]

_LEVEL = 2  # of the code generator: addresses are strength-reduced there
Place = Index | int


# -- what is computed --------------------------------------------------------------------------------------


class Expression:
    """A number made of elements and other numbers: `a[i, k] * b[k, j] + 1`."""

    def __init__(self, primitive: str, operands: Sequence[Expression | float]) -> None:
        self.primitive, self.operands = primitive, tuple(operands)

    def __add__(self, other: Expression | float) -> Expression:
        return Expression("add", (self, other))

    def __radd__(self, other: float) -> Expression:
        return Expression("add", (other, self))

    def __sub__(self, other: Expression | float) -> Expression:
        return Expression("sub", (self, other))

    def __rsub__(self, other: float) -> Expression:
        return Expression("sub", (other, self))

    def __mul__(self, other: Expression | float) -> Expression:
        return Expression("mul", (self, other))

    def __rmul__(self, other: float) -> Expression:
        return Expression("mul", (other, self))

    def __truediv__(self, other: Expression | float) -> Expression:
        return Expression("div", (self, other))

    def __neg__(self) -> Expression:
        return Expression("neg", (self,))


def call(primitive: str, *operands: Expression | float) -> Expression:
    """An elementwise primitive by its name: `call("maximum", x[i], 0.0)`, `call("exp", x[i])`."""
    return Expression(primitive, operands)


class Element(Expression):
    """An element of an array, to be read in expressions, or to be written: `set`, `add`, `maximum`, ..."""

    def __init__(self, array: Array, index: tuple[Index, ...]) -> None:
        super().__init__("", ())
        self.array, self.index = array, index

    def set(self, value: Expression | float) -> Statement:
        """The statement that stores a value here."""
        return _statement(self, value, None)

    def add(self, value: Expression | float) -> Statement:
        """Adds a value to what stands here. Sums may be taken in any order."""
        return _statement(self, value, "add")

    def combine(self, primitive: str, value: Expression | float) -> Statement:
        """Joins a value to what stands here by `mul`, `maximum`, `minimum`, `and` or `or`, in any order."""
        return _statement(self, value, primitive)


class Array:
    """Memory that loops read and write; `a[i, j + 1]` is an element. It is row-major."""

    def __init__(self, name: str, shape: Sequence[int], dtype: DType) -> None:
        self.buffer = Buffer(name, dtype, tuple(shape))

    def __getitem__(self, index: Place | tuple[Place, ...]) -> Element:
        places = index if isinstance(index, tuple) else (index,)
        return Element(self, tuple(as_index(p) for p in places))


def array(name: str, shape: Sequence[int], dtype: Any = "float32") -> Array:
    return Array(name, shape, np.dtype(dtype))


def variables(names: str) -> list[Index]:
    """Loop variables: `i, j, k = variables("i j k")`. Sums and multiples of them are places."""
    return [variable(name) for name in names.split()]


class _Body:
    """The scalar graph of one statement, and what it reads."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.leaves: dict[Load, Var] = {}
        self.equations: list[Equation] = []

    def value(self, x: Expression | float) -> Var:
        if isinstance(x, Element):
            if x.array.buffer.dtype != self.dtype:
                raise DTypeError(
                    f"{x.array.buffer.name} holds {x.array.buffer.dtype}",
                    expected=f"{self.dtype}, as what the statement writes to",
                    remedy="arrays of one dtype; convert beforehand",
                )
            load = Load(x.array.buffer.name, x.index)
            return self.leaves.setdefault(load, Var(TensorType((), self.dtype)))
        if isinstance(x, Expression):
            return self._emit(x.primitive, [self.value(o) for o in x.operands], {})
        return self._emit("full", [], {"shape": (), "dtype": self.dtype, "value": x})

    def _emit(self, name: str, inputs: list[Var], attributes: Mapping[str, Any]) -> Var:
        self.equations.append(Equation.of(name, inputs, dict(attributes)))
        return self.equations[-1].outputs[0]


def _statement(to: Element, value: Expression | float, combine: str | None) -> Statement:
    dtype = to.array.buffer.dtype
    body = _Body(dtype)
    out = body.value(value)
    if out in body.leaves.values():
        out = body._emit("stop_gradient", [out], {})
    graph = Graph(tuple(body.leaves.values()), body.equations, (out,), "statement")
    return Statement(tuple(body.leaves), graph, (Target(to.array.buffer.name, to.index, combine),))


def loop(var: str, iterations: int, *body: Node) -> Loop:
    """`for var in range(iterations)` around statements and loops."""
    return Loop(var, (Index(iterations),), body)


def loops(iterations: Mapping[str, int], *body: Node) -> Loop:
    """Loops inside each other, the first outermost: `loops({"i": m, "j": n}, ...)`."""
    if not iterations:
        raise ArgumentError("no loops", expected="at least one name with its number of iterations")
    for var, count in reversed(list(iterations.items())):
        body = (loop(var, count, *body),)
    (out,) = body
    assert isinstance(out, Loop)
    return out


def nest(name: str, arrays: Sequence[Array], *body: Node) -> Nest:
    """Loops and statements over arrays, which are the arguments of what is compiled, in this order."""
    return Nest(name, tuple(a.buffer for a in arrays), body)


# -- how it runs -------------------------------------------------------------------------------------------


class Schedule(_schedule.Schedule):
    """A nest and how it runs. Steps chain: `split`, `tile`, `fuse`, `reorder`, `skew`, `transform`,
    `auto_tile`, `unroll`, `vectorise`, `parallelise`, `compute_at`, `pack`, `tensorise`. `str` shows the
    loops, `steps` what was done.
    """

    def __str__(self) -> str:
        return str(self.nest)

    def stage(self, level: Literal["loops", "llvm", "assembly"]) -> str:
        """The text of a level."""
        if level == "loops":
            return str(self.nest)
        text = emit(self.nest, features())
        return text if level == "llvm" else assembly(text, _LEVEL, features())

    def interpret(self, *arrays: np.ndarray[Any, Any]) -> None:
        """Every statement one after the other by NumPy's rules: what the loops mean. Slow."""
        interpret(self.nest, _checked(self.nest, arrays))

    def compile(self, threads: int = 1) -> Compiled:
        """Machine code. With more than one thread, iterations of the parallel loop are shared among them."""
        return Compiled(self.nest, threads)


class Compiled:
    """A nest as a function of NumPy arrays, which it writes to."""

    def __init__(self, nest: Nest, threads: int) -> None:
        if threads < 1:
            raise ArgumentError(f"{threads} threads", expected="at least one")
        self.nest, self.threads = nest, threads
        self._kernels = kernels([(emit(nest, features()), _LEVEL)])
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        self._entry = kind(self._kernels.addresses[0])

    @cached_property
    def _units(self) -> int:
        top = self.nest.body[0] if self.nest.body else None
        iterations = extent_of(top) if isinstance(top, Loop) and top.kind == "parallel" else 1
        assert isinstance(iterations, int)
        return iterations

    @cached_property
    def _workers(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads)

    def __call__(self, *arrays: np.ndarray[Any, Any]) -> None:
        given = _checked(self.nest, arrays)
        words = np.array([a.ctypes.data for a in given], np.int64)
        cuts = [self._units * k // self.threads for k in range(self.threads + 1)]
        parts = [(a, b) for a, b in pairwise(cuts) if a < b]
        if len(parts) == 1:
            self._run(words, *parts[0])
        else:
            for each in [self._workers.submit(self._run, words, a, b) for a, b in parts]:
                each.result()

    def _run(self, words: np.ndarray[Any, Any], first: int, last: int) -> None:
        scratch = empty((local_offsets(self.nest)[1] + 64,), np.uint8)
        self._entry(words.ctypes.data, first, last, scratch.ctypes.data)


def _checked(nest: Nest, arrays: Sequence[Any]) -> Sequence[np.ndarray[Any, Any]]:
    wanted = nest.arguments
    names = ", ".join(f"{b.name}: {b.dtype}{list(b.shape)}" for b in wanted)
    if len(arrays) != len(wanted):
        raise ArgumentError(f"{len(arrays)} arrays for the nest {nest.name}", expected=names)
    for a, b in zip(arrays, wanted, strict=True):
        fits = isinstance(a, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
        if not fits or not a.flags.c_contiguous:
            found = f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else type(a).__name__
            raise ArgumentError(
                f"{b.name} is {found}", expected=f"a row-major NumPy array, {b.dtype}{list(b.shape)}",
                remedy="numpy.ascontiguousarray(x, dtype)",
            )  # fmt: skip
    written = {t.buffer for s in statements(nest.body) for t in s.targets}
    for a, b in zip(arrays, wanted, strict=True):
        if b.name in written and not a.flags.writeable:
            raise ArgumentError(
                f"{b.name} is written to, and read-only", expected="an array that can be written"
            )
    return arrays
