"""LAMB: Adam's direction, as long as the parameter itself: for very large batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trilobite.framework.optim.arithmetic import (
    ONE,
    ZERO,
    add,
    cast,
    closed,
    complement,
    div,
    mul,
    opened,
    pow,
    scale,
    select,
    spread,
    sqrt,
    square,
    sub,
    towards,
)  # fmt: skip
from trilobite.framework.optim.group import AT_LEAST_0, BELOW_1, Group, Rule
from trilobite.framework.optim.optimizer import Optimizer, spread_pairs
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.composite import composite


def _length(x: Value) -> Value:
    return sqrt(table["reduce_sum"](square(x), axes=tuple(range(x.ndim))))


def _trust(x: Value, step: Value) -> Value:
    """|x| / |step|, and 1 where either is zero."""
    zero, one = cast(ZERO, x.dtype), cast(ONE, x.dtype)
    length, reach = _length(x), _length(step)
    moves = table["and"](table["gt"](length, zero), table["gt"](reach, zero))
    return select(moves, div(length, select(moves, reach, one)), one)


@composite("lamb_update")
def lamb_update(
    p: Value, g: Value, mean: Value, mean_square: Value, rate: Value, lift: Value, root: Value, weight: Value,
    weight_square: Value, eps: Value, decay: Value, *, decays: bool, maximize: bool,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """step = lift · m / (√s / root + ε) + decay · p; p ← p − rate · (|p| / |step|) · step"""
    x, g = opened(p, g, maximize)
    mean = towards(mean, g, weight)
    mean_square = towards(mean_square, square(g), weight_square)
    size = sqrt(mean_square)
    size = div(size, spread(root, size))
    step = div(scale(mean, lift), add(size, spread(eps, size)))
    if decays:
        step = add(step, scale(x, decay))
    return closed(sub(x, scale(step, mul(rate, _trust(x, step)))), p), mean, mean_square


class LAMB(Optimizer):
    """LAMB (You and others 2020). The trust ratio |p| / |step| is taken per parameter tensor."""

    rules: ClassVar[Mapping[str, Rule]] = {
        "lr": AT_LEAST_0,
        "beta1": BELOW_1,
        "beta2": BELOW_1,
        "eps": AT_LEAST_0,
        "weight_decay": AT_LEAST_0,
    }
    optional = frozenset({"weight_decay"})
    pairs: ClassVar[Mapping[str, tuple[str, ...]]] = {"betas": ("beta1", "beta2")}
    elementwise = False  # the trust ratio is of the whole tensor

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: Any = 1e-6,
        weight_decay: Any = 0.0, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        numbers = spread_pairs(
            self.pairs, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )
        super().__init__(params, numbers, {"maximize": bool(maximize)})

    def slots(self, group: Group) -> dict[str, float | None]:
        return {"step": None, "mean": 0.0, "mean_square": 0.0}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        lr, eps, decay = (self.read(group, n) for n in ("lr", "eps", "weight_decay"))
        beta1, beta2 = self.read(group, "beta1"), self.read(group, "beta2")
        lift = div(ONE, complement(pow(beta1, count)))
        root = sqrt(complement(pow(beta2, count)))
        return lr, lift, root, complement(beta1), complement(beta2), eps, decay

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        form = {"decays": group.has("weight_decay"), "maximize": group["maximize"]}
        new, mean, mean_square = lamb_update(p, grad, state["mean"], state["mean_square"], *numbers, **form)
        return new, {"mean": mean, "mean_square": mean_square}
