"""From tensors to composites and back: operands are read, results wrapped."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import RAW, raise_explained
from trilobite.framework.modes import no_grad
from trilobite.framework.ops.conversion import asarray
from trilobite.framework.ops.inplace import assign
from trilobite.framework.ops.registry import read, wrap_results
from trilobite.framework.replay.plans import planned
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table


class NoOperand(ArgumentError, TypeError):
    """An operand that is none: as in PyTorch a TypeError."""

    def __init__(self, called: str, which: str, value: Any) -> None:
        found = "None" if value is None else f"of type {type(value).__name__}"
        no_result = "look where it comes from: a function that returns nothing gives None"
        super().__init__(
            f"{called}: {which} is {found}",
            where=user_location(),
            expected="a tensor, an array or numbers",
            remedy=no_result if value is None else "tb.asarray makes a tensor of what NumPy reads",
        )


F = TypeVar("F", bound=Callable[..., Any])
_ANY = (Tensor, np.ndarray, np.generic, int, float, complex, list, tuple)  # what can be an operand


def of_tensors(fn: F) -> F:
    """A function that says which operand is none, where it would end in an error of Python's."""

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except RAW as error:
            if isinstance(error, (AttributeError, TypeError)):
                check_operands(fn, args, kwargs, fn.__name__)
            raise_explained(error, fn, args, kwargs, fn.__name__)

    return call  # type: ignore[return-value]


def check_operands(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], called: str) -> None:
    """Raises if what a function takes as a tensor can be none."""
    signature = inspect.signature(fn)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return  # Python says which argument is missing
    for name, value in given.items():
        kind = signature.parameters[name].annotation
        if kind in ("Tensor", Tensor) and not isinstance(value, _ANY):
            raise NoOperand(called, name, value) from None


def _without_none(fn: Callable[..., Any], operands: Sequence[Any]) -> Sequence[Any]:
    """Operands that are None are left out; the first never is."""
    for o in operands:
        if o is None:
            break
    else:
        return operands
    if operands[0] is None:
        raise NoOperand(_name_of(fn), "operand 0", None)
    return [o for o in operands if o is not None]


def _check_absent(fn: Callable[..., Any], operands: Sequence[Any], error: TypeError) -> None:
    """If one that was left out is needed, the user hears of it."""
    absent = [i for i, o in enumerate(operands) if o is None]
    if absent and "required positional argument" in str(error):
        raise NoOperand(_name_of(fn), f"operand {absent[0]}", None) from None


def _name_of(fn: Callable[..., Any]) -> str:
    name: str = getattr(fn, "__name__", getattr(fn, "name", "a function"))
    return name.strip("_").removesuffix("_of")


def as_tensor(x: Any) -> Any:
    """An operand whose values are looked at before it is computed with: arrays and numbers as tensors."""
    return x if x is None or isinstance(x, Tensor) else asarray(x)


def run(fn: Callable[..., Any], *operands: Any, **attributes: Any) -> Tensor:
    """`fn` over values, with one result, applied to tensors; operands that are None are left out."""
    given = _without_none(fn, operands)
    done: Tensor | None = planned(fn, given, attributes)
    if done is not None:
        return done
    values = [read(o) for o in given]
    try:
        out: Tensor = wrap_results(fn(*values, **attributes), values)
    except TypeError as error:
        _check_absent(fn, operands, error)
        raise
    return out


def run_many(fn: Callable[..., Any], *operands: Any, **attributes: Any) -> tuple[Tensor, ...]:
    """`fn` over values, with several results, applied to tensors."""
    given = _without_none(fn, operands)
    done: tuple[Tensor, ...] | None = planned(fn, given, attributes)
    if done is not None:
        return done
    values = [read(o) for o in given]
    return tuple(wrap_results(fn(*values, **attributes), values))


def write(tensor: Tensor, source: Any) -> None:
    """Change state in place, outside of any derivative: cast and broadcast to what the tensor is."""
    with no_grad():
        tensor.copy_(source)


def run_in_place(fn: Callable[..., Value], x: Tensor, **attributes: Any) -> Tensor:
    """The same, and the result is stored in the tensor; `fn` sees a copy, so what it keeps for a gradient
    stays.
    """
    value = x._read()
    copy = table["mul"](value, table["full"](shape=value.shape, dtype=value.dtype, value=1))
    return assign(x, wrap(fn(copy, **attributes)), "an activation in place")


def pointwise(fn: Callable[..., Value], x: Any, inplace: bool, **attributes: Any) -> Tensor:
    """One operand, perhaps in place."""
    if inplace:
        return run_in_place(fn, x, **attributes)
    return run(fn, x, **attributes)
