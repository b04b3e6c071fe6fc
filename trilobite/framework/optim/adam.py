"""Adam and AdamW: means of the gradient and of its square, both corrected for having started from zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trilobite.framework.optim.arithmetic import (
    add,
    closed,
    complement,
    div,
    maximum,
    mul,
    opened,
    pow,
    scale,
    spread,
    sqrt,
    square,
    sub,
    towards,
)  # fmt: skip
from trilobite.framework.optim.group import AT_LEAST_0, BELOW_1, Group, Rule
from trilobite.framework.optim.optimizer import Optimizer, spread_pairs
from trilobite.ir.primitive import Value
from trilobite.ir.transforms.composite import composite


@composite("adam_update")
def adam_update(
    p: Value,
    g: Value,
    mean: Value,
    mean_square: Value,
    *rest: Value,
    amsgrad: bool,
    decay: str,
    maximize: bool,
) -> tuple[Value, ...]:
    """m ← m + (g − m)(1 − β₁); s ← s + (g² − s)(1 − β₂); p ← p − rate · m / (√s / root + ε)

    After the mean square: the largest so far if amsgrad, then rate = lr / (1 − β₁ᵗ), root = √(1 − β₂ᵗ), 1
    − β₁, 1 − β₂, ε, and what decay takes: for "l2" the factor that joins the gradient, for "decoupled"
    the factor p is multiplied by.
    """
    rate, root, weight, weight_square, eps, decay_number = rest[-6:]
    x, g = opened(p, g, maximize, decay_number if decay == "l2" else None)
    if decay == "decoupled":
        x = scale(x, decay_number)
    mean = towards(mean, g, weight)
    mean_square = towards(mean_square, square(g), weight_square)
    kept, spare = [mean, mean_square], mean_square
    if amsgrad:
        spare = maximum(rest[0], mean_square)
        kept.append(spare)
    size = sqrt(spare)
    size = div(size, spread(root, size))
    step = div(mean, add(size, spread(eps, size)))
    return closed(sub(x, scale(step, rate)), p), *kept


class Adam(Optimizer):
    """Adam (Kingma, Ba 2015); amsgrad divides by the largest mean square so far. Weight decay joins the
    gradient.
    """

    rules: ClassVar[Mapping[str, Rule]] = {
        "lr": AT_LEAST_0,
        "beta1": BELOW_1,
        "beta2": BELOW_1,
        "eps": AT_LEAST_0,
        "weight_decay": AT_LEAST_0,
    }
    optional = frozenset({"weight_decay"})
    pairs: ClassVar[Mapping[str, tuple[str, ...]]] = {"betas": ("beta1", "beta2")}
    decay = "l2"

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: Any = 1e-8,
        weight_decay: Any = 0.0, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        numbers = spread_pairs(
            self.pairs, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )
        super().__init__(params, numbers, {"amsgrad": bool(amsgrad), "maximize": bool(maximize)})

    def slots(self, group: Group) -> dict[str, float | None]:
        names = ["mean", "mean_square"] + ["largest"] * group["amsgrad"]
        return {"step": None, **dict.fromkeys(names, 0.0)}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        lr, eps, decay = (self.read(group, n) for n in ("lr", "eps", "weight_decay"))
        beta1, beta2 = self.read(group, "beta1"), self.read(group, "beta2")
        rate = div(lr, complement(pow(beta1, count)))
        root = sqrt(complement(pow(beta2, count)))
        if self.decay == "decoupled":
            decay = complement(mul(lr, decay))
        return rate, root, complement(beta1), complement(beta2), eps, decay

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        decay = self.decay if group.has("weight_decay") else "none"
        form = {"amsgrad": group["amsgrad"], "decay": decay, "maximize": group["maximize"]}
        new, *changed = adam_update(p, grad, *state.values(), *numbers, **form)
        return new, dict(zip(state, changed, strict=True))


class AdamW(Adam):
    """Adam whose weight decay (Loshchilov, Hutter 2019) shrinks the parameter itself, by lr ·
    weight_decay a step.
    """

    decay = "decoupled"

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: Any = 1e-8,
        weight_decay: Any = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
