"""From tensors to composites and back: operands are read, results wrapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.framework.modes import no_grad
from trilobite.framework.ops.conversion import asarray
from trilobite.framework.ops.inplace import assign
from trilobite.framework.ops.registry import read, wrap_results
from trilobite.framework.plans import planned
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table


def as_tensor(x: Any) -> Any:
    """An operand whose values are looked at before it is computed with: arrays and numbers as tensors."""
    return x if x is None or isinstance(x, Tensor) else asarray(x)


def run(fn: Callable[..., Any], *operands: Any, **attributes: Any) -> Tensor:
    """`fn` over values, with one result, applied to tensors; operands that are None are left out."""
    done: Tensor | None = planned(fn, [o for o in operands if o is not None], attributes)
    if done is not None:
        return done
    values = [read(o) for o in operands if o is not None]
    out: Tensor = wrap_results(fn(*values, **attributes), values)
    return out


def run_many(fn: Callable[..., Any], *operands: Any, **attributes: Any) -> tuple[Tensor, ...]:
    """`fn` over values, with several results, applied to tensors."""
    done: tuple[Tensor, ...] | None = planned(fn, [o for o in operands if o is not None], attributes)
    if done is not None:
        return done
    values = [read(o) for o in operands if o is not None]
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
