"""`tb.custom_op`: a Python function of NumPy arrays as an operation of the framework.

Enters: the function, a rule for the types of its results, and a derivative written over tensors. Leaves: a
function of tensors that runs eagerly, under gradients of any order, in `vmap` (one call an element) and
inside `jit`, where it is one step that calls back into Python. Keyword arguments are constants of a call.
The function must be pure: a call whose result nobody needs is left out, and equal calls may be one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from itertools import count
from typing import Any

import numpy as np

from trilobite.base.dtypes import is_inexact
from trilobite.base.errors import ArgumentError, GradientError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.tensor import wrap
from trilobite.framework.transforms import read_tree
from trilobite.ir.primitive import Value, table
from trilobite.ir.primitives.effects import Routine, register_routine, routines, row_by_row
from trilobite.ir.transforms.tape import zeros
from trilobite.ir.types import Dim, TensorType, type_of

Fn = Callable[..., Any]
Config = tuple[tuple[str, Any], ...]


class CustomOp:
    """What `tb.custom_op` makes. `name` is the one under which graphs call it."""

    def __init__(self, fn: Fn, result: Fn | None, name: str | None) -> None:
        self.fn, self.result = fn, result
        self.vjp: Fn | None = None
        self.jvp: Fn | None = None
        self.name = name if name is not None else _unused(fn.__name__)
        update_wrapper(self, fn, updated=())
        register_routine(Routine(self.name, self._types, self._evaluate, self._jvp, self._vjp, self._batch))

    def defvjp(self, rule: Fn) -> Fn:
        """`rule(inputs, result, cotangent, **constants)` gives a cotangent for every input, None for zero.

        All of them are tensors, so the rule may use any operation, other custom ones too. Of an operation
        with several results, `result` and `cotangent` are tuples.
        """
        self.vjp = rule
        return rule

    def defjvp(self, rule: Fn) -> Fn:
        """`rule(inputs, tangents, **constants)` gives the result and its tangent; absent tangents are 0."""
        self.jvp = rule
        return rule

    def __call__(self, *tensors: Any, **constants: Any) -> Any:
        values, _ = read_tree(tensors)
        if len(values) != len(tensors):
            raise ArgumentError(
                f"{self.name} was given a nested argument",
                where=user_location(),
                expected="tensors, arrays and numbers; constants by keyword",
                remedy="pass the tensors one by one",
            )
        config = tuple(sorted(constants.items()))
        self._hashable(config)
        outs = table["custom_call"](*values, name=self.name, config=config)
        return _alone([wrap(o) for o in outs])

    def _hashable(self, config: Config) -> None:
        for word, value in config:
            try:
                hash(value)
            except TypeError:
                raise ArgumentError(
                    f"the constant {word} of {self.name} is a {type(value).__name__}",
                    where=user_location(),
                    expected="numbers, strings and tuples of them as keyword arguments",
                    remedy="pass tensors by position",
                ) from None

    # rules of the routine
    def _types(self, *types: TensorType, config: Config) -> tuple[TensorType, ...]:
        if self.result is None and not types:
            raise ShapeError(
                f"{self.name} has no operand whose type its result could have",
                where=user_location(),
                expected="custom_op(result=...), which gives the types of the results",
            )
        found = types[0] if self.result is None else self.result(*types, **dict(config))
        listed = found if isinstance(found, tuple | list) else (found,)
        return tuple(TensorType(tuple(t.shape), np.dtype(t.dtype)) for t in listed)

    def _evaluate(self, *arrays: Any, config: Config) -> list[Any]:
        """The function sees arrays that it cannot write to, and keeps nothing of them."""
        seen = [np.asarray(a).view() for a in arrays]
        for array in seen:
            array.flags.writeable = False
        found = self.fn(*seen, **dict(config))
        listed = found if isinstance(found, tuple | list) else [found]
        outs = [np.asarray(v) for v in listed]
        return [o.copy() if any(np.may_share_memory(o, a) for a in seen) else o for o in outs]

    def _vjp(
        self, cts: Sequence[Any], inputs: Sequence[Value], outs: Sequence[Value], config: Config
    ) -> list[Any]:
        if self.vjp is None:
            raise _missing(self.name, "reverse", "defvjp")
        full = [wrap(zeros(type_of(o)) if c is None else c) for c, o in zip(cts, outs, strict=True)]
        operands, results = tuple(map(wrap, inputs)), [wrap(o) for o in outs]
        found = self.vjp(operands, _alone(results), _alone(full), **dict(config))
        listed = found if isinstance(found, tuple | list) else (found,)
        if len(listed) != len(inputs):
            raise GradientError(
                f"the vjp rule of {self.name} gave {len(listed)} cotangents",
                where=user_location(),
                expected=f"{len(inputs)}, one for every input",
                remedy="give None where the derivative is zero",
            )
        return [self._cotangent(i, c, v) for i, (c, v) in enumerate(zip(listed, inputs, strict=True))]

    def _cotangent(self, place: int, ct: Any, operand: Value) -> Any:
        wanted = type_of(operand)
        if ct is None or not is_inexact(wanted.dtype):
            return None
        (value,), _ = read_tree((ct,))
        found = type_of(value)
        if found.shape != wanted.shape:
            raise GradientError(
                f"the vjp rule of {self.name} gave {found} for input {place}",
                where=user_location(),
                expected=str(wanted),
                remedy="sum over the axes that were broadcast",
            )
        return value if found.dtype == wanted.dtype else table["cast"](value, dtype=wanted.dtype)

    def _jvp(self, primals: Sequence[Value], tangents: Sequence[Any], config: Config) -> tuple[Any, Any]:
        if self.jvp is None:
            raise _missing(self.name, "forward", "defjvp")
        full = [wrap(zeros(type_of(p)) if t is None else t) for p, t in zip(primals, tangents, strict=True)]
        out, slope = self.jvp(tuple(map(wrap, primals)), tuple(full), **dict(config))
        outs, slopes = ((x if isinstance(x, tuple | list) else (x,)) for x in (out, slope))
        return tuple(read_tree(tuple(outs))[0]), tuple(read_tree(tuple(slopes))[0])

    def _batch(
        self, size: Dim, values: Sequence[Value], mapped: Sequence[bool], config: Config
    ) -> tuple[Value, ...]:
        def one(*row: Value) -> tuple[Value, ...]:
            return tuple(table["custom_call"](*row, name=self.name, config=config))

        types = [type_of(v) for v in values]
        inner = [TensorType(t.shape[1:], t.dtype) if m else t for t, m in zip(types, mapped, strict=True)]
        return row_by_row(one, self._types(*inner, config=config), size, values, mapped)


def custom_op(fn: Fn | None = None, *, result: Fn | None = None, name: str | None = None) -> Any:
    """Make an operation of `fn(*arrays, **constants)`, which takes and gives NumPy arrays.

    `result(*types, **constants)` gives the type of the result, a `tb.TensorType(shape, dtype)`, or a tuple of
    types; left out, the result is like the first operand. `f.defvjp(rule)` states the derivative.
    """
    if fn is None:
        return lambda given: CustomOp(given, result, name)
    return CustomOp(fn, result, name)


def _alone(results: Sequence[Any]) -> Any:
    """One result is itself, several are a tuple."""
    return results[0] if len(results) == 1 else tuple(results)


def _unused(name: str) -> str:
    """A name that no routine has: a notebook's cell may be run twice."""
    candidates = (name if n == 1 else f"{name}_{n}" for n in count(1))
    return next(candidate for candidate in candidates if candidate not in routines)


def _missing(name: str, mode: str, method: str) -> GradientError:
    return GradientError(
        f"the operation {name} has no derivative for {mode} mode",
        where=user_location(),
        expected=f"a rule from {name}.{method}",
        remedy=f"state one with @{name}.{method}, or detach what goes into it",
    )


__all__ = ["CustomOp", "TensorType", "custom_op"]
