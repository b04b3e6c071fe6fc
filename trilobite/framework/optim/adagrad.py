"""Adagrad: each element's rate falls with the squares of its gradients so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trilobite.framework.optim.arithmetic import (
    ONE,
    add,
    closed,
    div,
    mul,
    opened,
    scale,
    spread,
    sqrt,
    square,
    sub,
)
from trilobite.framework.optim.group import AT_LEAST_0, Group, Rule
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.ir.primitive import Value
from trilobite.ir.transforms.composite import composite


@composite("adagrad_update")
def adagrad_update(
    p: Value, g: Value, total: Value, rate: Value, decay: Value, eps: Value, *, decays: bool, maximize: bool
) -> tuple[Value, Value]:
    """total ← total + g²; p ← p − rate · g / (√total + ε)"""
    x, g = opened(p, g, maximize, decay if decays else None)
    total = add(total, square(g))
    root = sqrt(total)
    return closed(sub(x, scale(div(g, add(root, spread(eps, root))), rate)), p), total


class Adagrad(Optimizer):
    """Adagrad (Duchi, Hazan, Singer 2011); lr_decay lowers the rate as 1 / (1 + steps · lr_decay)."""

    rules: ClassVar[Mapping[str, Rule]] = {
        "lr": AT_LEAST_0,
        "lr_decay": AT_LEAST_0,
        "weight_decay": AT_LEAST_0,
        "eps": AT_LEAST_0,
        "initial_accumulator_value": AT_LEAST_0,
    }
    optional = frozenset({"lr_decay", "weight_decay"})

    def __init__(
        self, params: Any, lr: Any = 1e-2, lr_decay: Any = 0.0, weight_decay: Any = 0.0,
        initial_accumulator_value: float = 0.0, eps: Any = 1e-10, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        numbers = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps,
                   "initial_accumulator_value": initial_accumulator_value}  # fmt: skip
        super().__init__(params, numbers, {"maximize": bool(maximize)})

    def slots(self, group: Group) -> dict[str, float | None]:
        start = group["initial_accumulator_value"].item()
        return {"step": None, "total": start} if group.has("lr_decay") else {"total": start}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        rate = self.read(group, "lr")
        if count is not None:
            rate = div(rate, add(ONE, mul(sub(count, ONE), self.read(group, "lr_decay"))))
        return rate, self.read(group, "weight_decay"), self.read(group, "eps")

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        form = {"decays": group.has("weight_decay"), "maximize": group["maximize"]}
        new, total = adagrad_update(p, grad, state["total"], *numbers, **form)
        return new, {"total": total}
