"""Stochastic gradient descent, with momentum (heavy ball or Nesterov's)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.optim.arithmetic import (
    ONE,
    add,
    closed,
    complement,
    opened,
    scale,
    select,
    sub,
)
from trilobite.framework.optim.group import AT_LEAST_0, FINITE, Group, Rule
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.composite import composite


@composite("sgd_update")
def sgd_update(p: Value, g: Value, rate: Value, decay: Value, *, decays: bool, maximize: bool) -> Value:
    """p − rate · g"""
    x, g = opened(p, g, maximize, decay if decays else None)
    return closed(sub(x, scale(g, rate)), p)


@composite("sgd_momentum_update")
def sgd_momentum_update(
    p: Value, g: Value, velocity: Value, rate: Value, decay: Value, momentum: Value, share: Value,
    *, decays: bool, dampened: bool, nesterov: bool, maximize: bool,
) -> tuple[Value, Value]:  # fmt: skip
    """velocity ← momentum · velocity + share · g; p ← p − rate · velocity (Nesterov: · (g + momentum ·
    velocity))
    """
    x, g = opened(p, g, maximize, decay if decays else None)
    velocity = add(scale(velocity, momentum), scale(g, share) if dampened else g)
    step = add(g, scale(velocity, momentum)) if nesterov else velocity
    return closed(sub(x, scale(step, rate)), p), velocity


class SGD(Optimizer):
    """Gradient descent. The first step takes the whole gradient, later ones 1 − dampening of it."""

    rules: ClassVar[Mapping[str, Rule]] = {
        "lr": AT_LEAST_0,
        "momentum": AT_LEAST_0,
        "dampening": FINITE,
        "weight_decay": AT_LEAST_0,
    }
    optional = frozenset({"momentum", "dampening", "weight_decay"})

    def __init__(
        self, params: Any, lr: Any = 1e-3, momentum: Any = 0.0, dampening: Any = 0.0, weight_decay: Any = 0.0,
        nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        numbers = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, numbers, {"nesterov": bool(nesterov), "maximize": bool(maximize)})

    def check_group(self, group: Group) -> None:
        if group["nesterov"] and (not group.has("momentum") or group.has("dampening")):
            raise ArgumentError(
                "SGD: nesterov=True without momentum, or with dampening",
                where=user_location(),
                expected="a momentum above 0 and dampening=0",
            )

    def slots(self, group: Group) -> dict[str, float | None]:
        if not group.has("momentum"):
            return {}
        return {"step": None, "velocity": 0.0} if group.has("dampening") else {"velocity": 0.0}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        rate, decay = self.read(group, "lr"), self.read(group, "weight_decay")
        share = ONE
        if count is not None:
            share = select(table["gt"](count, ONE), complement(self.read(group, "dampening")), ONE)
        return rate, decay, self.read(group, "momentum"), share

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        form = {"decays": group.has("weight_decay"), "maximize": group["maximize"]}
        if not group.has("momentum"):
            return sgd_update(p, grad, *numbers[:2], **form), {}
        form |= {"dampened": group.has("dampening"), "nesterov": group["nesterov"]}
        new, velocity = sgd_momentum_update(p, grad, state["velocity"], *numbers, **form)
        return new, {"velocity": velocity}
