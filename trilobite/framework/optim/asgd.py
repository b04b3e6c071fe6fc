"""ASGD: gradient descent that keeps a mean of what it passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trilobite.framework.optim.arithmetic import (
    ONE,
    add,
    cast,
    closed,
    div,
    maximum,
    mul,
    opened,
    pow,
    scale,
    select,
    sub,
    towards,
)
from trilobite.framework.optim.group import AT_LEAST_0, FINITE, Group, Rule
from trilobite.framework.optim.optimizer import Optimizer, Slot
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table


class ASGD(Optimizer):
    """Averaged gradient descent (Polyak, Juditsky 1992). The mean is `state[p]["ax"]`; up to step t0 + 2 it
    is the parameter itself.

    The rate of a step, `eta`, falls as lr / (1 + lambd · lr · t)^alpha, and parameters shrink by lambd · eta.
    """

    rules: ClassVar[Mapping[str, Rule]] = {
        "lr": AT_LEAST_0, "lambd": FINITE, "alpha": FINITE, "t0": FINITE, "weight_decay": AT_LEAST_0,
    }  # fmt: skip
    optional = frozenset({"weight_decay"})
    elementwise = False  # the rate and the weight of the mean are one number per parameter

    def __init__(
        self, params: Any, lr: Any = 1e-2, lambd: Any = 1e-4, alpha: Any = 0.75, t0: Any = 1e6,
        weight_decay: Any = 0.0, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        numbers = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        super().__init__(params, numbers, {"maximize": bool(maximize)})

    def slots(self, group: Group) -> dict[str, Any]:
        rate = Slot(lambda shape: (), float(group["lr"]))
        return {"step": None, "eta": rate, "mu": Slot(lambda shape: (), 1.0), "ax": 0.0}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        assert count is not None
        lr, lambd, alpha, t0 = (self.read(group, n) for n in ("lr", "lambd", "alpha", "t0"))
        later = div(lr, pow(add(ONE, mul(mul(lambd, lr), count)), alpha))
        weight = div(ONE, maximum(ONE, sub(count, t0)))
        return lambd, self.read(group, "weight_decay"), later, weight

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        lambd, decay, later, weight = numbers
        x, g = opened(p, grad, group["maximize"], decay if group.has("weight_decay") else None)
        eta, mu = state["eta"], state["mu"]
        new = sub(scale(x, sub(cast(ONE, eta.dtype), mul(lambd, eta))), scale(g, eta))
        begins = table["ge"](mu, cast(ONE, mu.dtype))
        mean = select(
            table["broadcast"](begins, shape=new.shape, axes=()), new, towards(state["ax"], new, mu)
        )
        kept = {"eta": cast(later, eta.dtype), "mu": cast(weight, mu.dtype), "ax": mean}
        return closed(new, p), kept
