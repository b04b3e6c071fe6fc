"""Lion: only the sign of a momentum counts, so every element moves by the same amount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trilobite.framework.optim.arithmetic import closed, complement, mul, opened, scale, sub, towards
from trilobite.framework.optim.group import AT_LEAST_0, BELOW_1, Group, Rule
from trilobite.framework.optim.optimizer import Optimizer, spread_pairs
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.composite import composite


@composite("lion_update")
def lion_update(
    p: Value,
    g: Value,
    mean: Value,
    rate: Value,
    weight: Value,
    keeps: Value,
    shrink: Value,
    *,
    decays: bool,
    maximize: bool,
) -> tuple[Value, Value]:
    """p ← shrink · p − rate · sign(m + (g − m)(1 − β₁)); m ← m + (g − m)(1 − β₂)"""
    x, g = opened(p, g, maximize)
    if decays:
        x = scale(x, shrink)
    step = table["sign"](towards(mean, g, weight))
    return closed(sub(x, scale(step, rate)), p), towards(mean, g, keeps)


class Lion(Optimizer):
    """Lion (Chen and others 2023), with decoupled weight decay."""

    rules: ClassVar[Mapping[str, Rule]] = {
        "lr": AT_LEAST_0,
        "beta1": BELOW_1,
        "beta2": BELOW_1,
        "weight_decay": AT_LEAST_0,
    }
    optional = frozenset({"weight_decay"})
    pairs: ClassVar[Mapping[str, tuple[str, ...]]] = {"betas": ("beta1", "beta2")}

    def __init__(
        self, params: Any, lr: Any = 1e-4, betas: tuple[Any, Any] = (0.9, 0.99), weight_decay: Any = 0.0,
        *, maximize: bool = False,
    ) -> None:  # fmt: skip
        numbers = spread_pairs(self.pairs, {"lr": lr, "betas": betas, "weight_decay": weight_decay})
        super().__init__(params, numbers, {"maximize": bool(maximize)})

    def slots(self, group: Group) -> dict[str, float | None]:
        return {"mean": 0.0}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        lr = self.read(group, "lr")
        shrink = complement(mul(lr, self.read(group, "weight_decay")))
        return lr, complement(self.read(group, "beta1")), complement(self.read(group, "beta2")), shrink

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        form = {"decays": group.has("weight_decay"), "maximize": group["maximize"]}
        new, mean = lion_update(p, grad, state["mean"], *numbers, **form)
        return new, {"mean": mean}
