"""A stated algorithm as lines of a routine: the definition itself is run, on a number that writes.

Enters: a function on float64 arrays made of NumPy's element-by-element operations. Leaves: its result as a
value of a routine. Nothing is restated, so the routine cannot mean anything else. Whole numbers between the
steps of an algorithm (exponents, turns) are below 2^31.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from trilobite.base.errors import IRError
from trilobite.processor.isa.formats import Array
from trilobite.processor.sim.routines.text import Code, Value

KINDS = {np.dtype(np.float64): "double", np.dtype(np.int64): "i64", np.dtype(np.bool_): "i1"}
COMPARE = {np.less: "lt", np.less_equal: "le", np.greater: "gt", np.greater_equal: "ge",
           np.equal: "eq", np.not_equal: "ne"}  # fmt: skip
ROUND: dict[Any, str] = {np.rint: "rint", np.floor: "floor", np.absolute: "fabs", np.sqrt: "sqrt"}
ARITHMETIC: dict[Any, str] = {
    np.add: "__add__", np.subtract: "__sub__", np.multiply: "__mul__", np.divide: "__truediv__",
    np.bitwise_and: "__and__", np.bitwise_or: "__or__", np.left_shift: "__lshift__",
    np.right_shift: "__rshift__",
}  # fmt: skip


class Traced(NDArrayOperatorsMixin):
    """Stands for an array in an algorithm; every operation on it is one of the routine."""

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def code(self) -> Code:
        return self.value.code

    def astype(self, dtype: Any) -> Traced:
        kind = KINDS[np.dtype(dtype)]
        if kind == self.value.kind:
            return self
        if kind == "i64":  # through i32, which hosts convert many at a time
            return Traced(self.value.cast("fptosi", "i32").cast("sext", "i64"))
        if self.value.kind == "i1":
            return Traced(self.value.cast("uitofp", kind))
        return Traced(self.value.cast("trunc", "i32").cast("sitofp", kind))

    def view(self, dtype: Any) -> Traced:
        return Traced(self.value.cast("bitcast", KINDS[np.dtype(dtype)]))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Traced:
        values = self._alike(inputs)
        if ufunc in COMPARE:
            return Traced(values[0].test(_condition(COMPARE[ufunc], values[0]), values[1]))
        if ufunc in ROUND:
            return Traced(self.code.real(ROUND[ufunc], values[0]))
        if ufunc in ARITHMETIC:
            return Traced(getattr(values[0], ARITHMETIC[ufunc])(values[1]))
        return Traced(_OTHERS[ufunc](*values))

    def _alike(self, inputs: Any) -> list[Value]:
        """Numbers and truth values join the type of the rest."""
        kinds = [given.value.kind for given in inputs if isinstance(given, Traced)]
        kind = next((kind for kind in ("double", "i64") if kind in kinds), kinds[0])
        return [self._as(kind, given) for given in inputs]

    def _as(self, kind: str, given: Any) -> Value:
        if not isinstance(given, Traced):
            return self.code.constant(kind, float(given) if kind == "double" else int(given))
        if given.value.kind == kind:
            return given.value
        return given.value.cast("uitofp" if kind == "double" else "zext", kind)

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        if function is np.argwhere:  # elements that only whole numbers can reduce: the routine refuses them
            return ()
        if function is np.where:
            return _where(*given)
        first = given[0]
        if function is np.clip:
            return np.minimum(np.maximum(first, given[1]), given[2])
        if function is np.full_like:
            return Traced(first.code.constant(first.value.kind, given[1]))
        if function is np.ones_like:
            return Traced(first.code.constant(first.value.kind, 1.0))
        raise IRError(
            f"a stated algorithm uses {function.__name__}",
            where="the routine of a transcendental instruction",
            expected="the operations that `traced` names",
        )


def _condition(name: str, sample: Value) -> str:
    if sample.kind == "double":
        return "une" if name == "ne" else f"o{name}"
    return name if name in ("eq", "ne") else f"s{name}"


def _where(test: Traced, yes: Any, no: Any) -> Traced:
    condition = test.value if test.value.kind == "i1" else test.value.test("ne", 0)
    sample = yes if isinstance(yes, Traced) else no
    if not isinstance(sample, Traced):
        code = test.code
        return Traced(condition.choose(code.constant("double", yes), code.constant("double", no)))
    first, second = sample._alike((yes, no))
    return Traced(condition.choose(first, second))


def _least(a: Value, b: Value) -> Value:
    return (a.test("olt", b) | a.is_nan).choose(a, b)


def _most(a: Value, b: Value) -> Value:
    return (a.test("ogt", b) | a.is_nan).choose(a, b)


_OTHERS: dict[Any, Callable[..., Value]] = {
    np.isnan: lambda x: x.is_nan,
    np.isfinite: lambda x: x.code.real("fabs", x).test("olt", np.inf),
    np.negative: lambda x: x.code.new(x.kind, f"fneg {x.kind} {x.name}"),
    np.minimum: _least,
    np.maximum: _most,
    np.copysign: lambda a, b: a.code.real("copysign", a, b),
}


def traced(algorithm: Callable[[Array], Array], x: Value) -> Value:
    """The algorithm's result for a double."""
    stand_in: Any = Traced(x)
    result: Any = algorithm(stand_in)
    assert isinstance(result, Traced)
    return result.value
