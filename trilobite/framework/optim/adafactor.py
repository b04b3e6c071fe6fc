"""Adafactor (Shazeer, Stern 2018): mean squares of matrices kept as those of their rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from trilobite.base.dtypes import accumulator, real_of
from trilobite.framework.ops.dtypes import finfo
from trilobite.framework.optim.arithmetic import (
    closed,
    complement,
    div,
    maximum,
    mul,
    opened,
    pow,
    scale,
    sqrt,
    square,
    sub,
    towards,
)
from trilobite.framework.optim.group import AT_LEAST_0, FINITE, Group, Rule
from trilobite.framework.optim.optimizer import Optimizer, Slot
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table


def _average(x: Value, axis: int) -> Value:
    """The mean along an axis, which stays with size 1."""
    n = x.ndim
    shape = tuple(1 if i == axis % n else d for i, d in enumerate(x.shape))
    total = table["reshape"](table["reduce_sum"](x, axes=(axis % n,)), shape=shape)
    return scale(total, np.asarray(1.0 / int(x.shape[axis]), x.dtype))


def _over(x: Value, shape: Any) -> Value:
    return table["broadcast"](x, shape=tuple(shape), axes=tuple(range(x.ndim)))


def _root_mean_square(x: Value) -> Value:
    total = table["reduce_sum"](square(x), axes=tuple(range(x.ndim)))
    return sqrt(mul(total, np.asarray(1.0 / max(int(np.prod(x.shape)), 1), x.dtype)))


class Adafactor(Optimizer):
    """Steps relative to the size of the parameters, with little memory: rows and columns instead of all."""

    rules: ClassVar[Mapping[str, Rule]] = {
        "lr": AT_LEAST_0, "beta2_decay": FINITE, "eps2": AT_LEAST_0, "d": AT_LEAST_0,
        "weight_decay": AT_LEAST_0,
    }  # fmt: skip
    optional = frozenset({"weight_decay"})
    elementwise = False

    def __init__(
        self, params: Any, lr: Any = 1e-2, beta2_decay: Any = -0.8, eps: tuple[Any, Any] = (None, 1e-3),
        d: Any = 1.0, weight_decay: Any = 0.0, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        numbers = {"lr": lr, "beta2_decay": beta2_decay, "eps2": eps[1], "d": d, "weight_decay": weight_decay}
        super().__init__(params, numbers, {"eps1": eps[0], "maximize": bool(maximize)})

    def slots(self, group: Group) -> dict[str, Any]:
        def rows(shape: Any) -> Any:
            return (*shape[:-1], 1) if len(shape) > 1 else shape

        def columns(shape: Any) -> Any:
            return (*shape[:-2], 1, shape[-1]) if len(shape) > 1 else (0,)

        return {"step": None, "rows": Slot(rows, 0.0), "columns": Slot(columns, 0.0)}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        assert count is not None
        lr, eps2, d, decay = (self.read(group, n) for n in ("lr", "eps2", "d", "weight_decay"))
        weight = pow(count, self.read(group, "beta2_decay"))
        rate = table["minimum"](lr, div(np.asarray(1.0), sqrt(count)))
        return rate, eps2, d, complement(mul(lr, decay)), weight

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        rate, eps2, d, kept, weight = numbers
        x, g = opened(p, grad, group["maximize"])
        eps1 = group["eps1"]
        tiny = np.asarray(finfo(accumulator(real_of(p.dtype))).eps if eps1 is None else eps1, x.dtype)
        step_size = mul(maximum(eps2, _root_mean_square(x)), rate)
        if group.has("weight_decay"):
            x = scale(x, kept)
        changed = self._variances(g, state, weight)
        estimate = changed["rows"]
        if g.ndim > 1:
            middle = _average(estimate, -2)
            middle = maximum(middle, _over(np.broadcast_to(tiny, (1,) * middle.ndim), middle.shape))
            product = mul(_over(estimate, g.shape), _over(changed["columns"], g.shape))
            estimate = div(product, _over(middle, g.shape))
        least = table["full"](shape=g.shape, dtype=g.dtype, value=float(tiny) ** 2)
        move = div(g, sqrt(maximum(estimate, least)))
        size = div(_root_mean_square(move), d)
        bound = maximum(size, np.asarray(1.0, size.dtype))
        return closed(sub(x, scale(move, div(step_size, bound))), p), changed

    @staticmethod
    def _variances(g: Value, state: Mapping[str, Value], weight: Value) -> dict[str, Value]:
        squares = square(g)
        if g.ndim <= 1:
            return {"rows": towards(state["rows"], squares, weight), "columns": state["columns"]}
        return {
            "rows": towards(state["rows"], _average(squares, -1), weight),
            "columns": towards(state["columns"], _average(squares, -2), weight),
        }
