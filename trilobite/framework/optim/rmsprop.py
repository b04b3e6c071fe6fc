"""RMSprop: the gradient divided by a running root mean square of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trilobite.framework.optim.arithmetic import (
    ZERO,
    add,
    cast,
    closed,
    complement,
    div,
    maximum,
    opened,
    scale,
    spread,
    sqrt,
    square,
    sub,
    towards,
)  # fmt: skip
from trilobite.framework.optim.group import AT_LEAST_0, BELOW_1, Group, Rule
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.ir.primitive import Value
from trilobite.ir.transforms.composite import composite


@composite("rmsprop_update")
def rmsprop_update(
    p: Value,
    g: Value,
    mean_square: Value,
    *rest: Value,
    centered: bool,
    momentum: bool,
    decays: bool,
    maximize: bool,
) -> tuple[Value, ...]:
    """p ← p − rate · v, v ← inertia · v + g / (√(mean g² − (mean g)²) + ε); without momentum v is the
    quotient alone.

    After the mean square: the mean if centered, the velocity if there is momentum, then rate, decay,
    weight, eps, inertia.
    """
    rate, decay, weight, eps, inertia = rest[-5:]
    x, g = opened(p, g, maximize, decay if decays else None)
    mean_square = towards(mean_square, square(g), weight)
    kept, spare = [mean_square], mean_square
    if centered:
        mean = towards(rest[0], g, weight)
        kept.append(mean)
        # The difference of two roundings may fall below zero where the gradient hardly varies.
        spare = sub(mean_square, square(mean))
        spare = maximum(spare, spread(cast(ZERO, spare.dtype), spare))
    root = sqrt(spare)
    step = div(g, add(root, spread(eps, root)))
    if momentum:
        step = add(scale(rest[centered], inertia), step)
        kept.append(step)
    return closed(sub(x, scale(step, rate)), p), *kept


class RMSprop(Optimizer):
    """RMSprop (Tieleman, Hinton 2012), plain or centered (Graves 2013), with or without momentum."""

    rules: ClassVar[Mapping[str, Rule]] = {
        "lr": AT_LEAST_0,
        "alpha": BELOW_1,
        "eps": AT_LEAST_0,
        "weight_decay": AT_LEAST_0,
        "momentum": AT_LEAST_0,
    }
    optional = frozenset({"weight_decay", "momentum"})

    def __init__(
        self, params: Any, lr: Any = 1e-2, alpha: Any = 0.99, eps: Any = 1e-8, weight_decay: Any = 0.0,
        momentum: Any = 0.0, centered: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        numbers = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, numbers, {"centered": bool(centered), "maximize": bool(maximize)})

    def slots(self, group: Group) -> dict[str, float | None]:
        names = ["mean_square"] + ["mean"] * group["centered"] + ["velocity"] * group.has("momentum")
        return dict.fromkeys(names, 0.0)

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        weight = complement(self.read(group, "alpha"))
        rate, decay, eps, inertia = (self.read(group, n) for n in ("lr", "weight_decay", "eps", "momentum"))
        return rate, decay, weight, eps, inertia

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        form = {"centered": group["centered"], "momentum": group.has("momentum"),
                "decays": group.has("weight_decay"), "maximize": group["maximize"]}  # fmt: skip
        new, *kept = rmsprop_update(p, grad, *state.values(), *numbers, **form)
        return new, dict(zip(state, kept, strict=True))
