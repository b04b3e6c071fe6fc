"""Adam's relatives: NAdam (Nesterov's momentum), RAdam (rectified), Adamax (the largest gradient), Adadelta.

Each states, over values, its numbers for a step and the update of one parameter, as `optimizer` asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from trilobite.framework.optim.arithmetic import (
    ONE,
    add,
    closed,
    complement,
    div,
    maximum,
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
)
from trilobite.framework.optim.group import AT_LEAST_0, BELOW_1, Group, Rule
from trilobite.framework.optim.optimizer import Optimizer, Slot, spread_pairs
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

_PAIRS = {"betas": ("beta1", "beta2")}
_BETAS: dict[str, Rule] = {
    "lr": AT_LEAST_0, "beta1": BELOW_1, "beta2": BELOW_1, "eps": AT_LEAST_0, "weight_decay": AT_LEAST_0,
}  # fmt: skip


def _number(x: float) -> Value:
    return np.asarray(float(x))


class _Kin(Optimizer):
    """Means of gradients and of their squares, and how weights decay."""

    rules: ClassVar[Mapping[str, Rule]] = _BETAS
    optional = frozenset({"weight_decay"})
    pairs: ClassVar[Mapping[str, tuple[str, ...]]] = _PAIRS

    def _start(self, group: Group, p: Value, grad: Value, decay: Value, lr: Value) -> tuple[Value, Value]:
        """Parameter and gradient, with the decay in one or the other."""
        decoupled = group.get("decoupled_weight_decay", False)
        has = group.has("weight_decay")
        x, g = opened(p, grad, group["maximize"], decay if has and not decoupled else None)
        if has and decoupled:
            x = scale(x, sub(_like(lr, 1.0), mul(lr, decay)))
        return x, g


def _like(x: Value, value: float) -> Value:
    return table["full"](shape=x.shape, dtype=x.dtype, value=value)


class NAdam(_Kin):
    """Adam with Nesterov's momentum (Dozat 2016)."""

    rules: ClassVar[Mapping[str, Rule]] = {**_BETAS, "momentum_decay": AT_LEAST_0}
    elementwise = False  # the product of momenta is one number per parameter

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: Any = 1e-8,
        weight_decay: Any = 0.0, momentum_decay: Any = 4e-3, decoupled_weight_decay: bool = False,
        *, maximize: bool = False,
    ) -> None:  # fmt: skip
        given = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        numbers = {**spread_pairs(self.pairs, given), "momentum_decay": momentum_decay}
        switches = {"decoupled_weight_decay": bool(decoupled_weight_decay), "maximize": bool(maximize)}
        super().__init__(params, numbers, switches)

    def slots(self, group: Group) -> dict[str, Any]:
        return {"step": None, "mean": 0.0, "mean_square": 0.0, "momenta": Slot(lambda shape: (), 1.0)}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        assert count is not None
        lr, eps, decay = (self.read(group, n) for n in ("lr", "eps", "weight_decay"))
        beta1, beta2 = self.read(group, "beta1"), self.read(group, "beta2")
        fade = self.read(group, "momentum_decay")

        def momentum(t: Value) -> Value:
            return mul(beta1, complement(mul(_number(0.5), pow(_number(0.96), mul(t, fade)))))

        root = sqrt(complement(pow(beta2, count)))
        now, later = momentum(count), momentum(add(count, ONE))
        return lr, eps, decay, complement(beta1), complement(beta2), root, now, later

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        lr, eps, decay, weight, weight_square, root, now, later = numbers
        x, g = self._start(group, p, grad, decay, lr)
        momenta = mul(state["momenta"], now)
        mean = towards(state["mean"], g, weight)
        spare = towards(state["mean_square"], square(g), weight_square)
        size = div(sqrt(spare), spread(root, spare))
        size = add(size, spread(eps, size))
        one = _like(momenta, 1.0)
        of_gradient = div(mul(lr, sub(one, now)), sub(one, momenta))
        of_mean = div(mul(lr, later), sub(one, mul(momenta, later)))
        step = div(add(scale(g, of_gradient), scale(mean, of_mean)), size)
        return closed(sub(x, step), p), {"mean": mean, "mean_square": spare, "momenta": momenta}


class RAdam(_Kin):
    """Adam that trusts its mean square only when it has seen enough (Liu et al. 2020)."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: Any = 1e-8,
        weight_decay: Any = 0.0, decoupled_weight_decay: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        given = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        switches = {"decoupled_weight_decay": bool(decoupled_weight_decay), "maximize": bool(maximize)}
        super().__init__(params, spread_pairs(self.pairs, given), switches)

    def slots(self, group: Group) -> dict[str, Any]:
        return {"step": None, "mean": 0.0, "mean_square": 0.0}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        assert count is not None
        lr, eps, decay = (self.read(group, n) for n in ("lr", "eps", "weight_decay"))
        beta1, beta2 = self.read(group, "beta1"), self.read(group, "beta2")
        two, four = _number(2.0), _number(4.0)
        power = pow(beta2, count)
        limit = sub(div(two, complement(beta2)), ONE)
        seen = sub(limit, div(mul(mul(two, count), power), complement(power)))
        enough = table["gt"](seen, _number(5.0))
        safe = select(enough, seen, _number(6.0))
        above = mul(mul(sub(safe, four), sub(safe, two)), limit)
        below = mul(mul(sub(limit, four), sub(limit, two)), safe)
        rectified = mul(sqrt(div(above, below)), sqrt(complement(power)))
        rate = div(lr, complement(pow(beta1, count)))
        trusted = select(enough, ONE, _number(0.0))
        return lr, rate, eps, decay, complement(beta1), complement(beta2), rectified, trusted

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        lr, rate, eps, decay, weight, weight_square, rectified, trusted = numbers
        x, g = self._start(group, p, grad, decay, lr)
        mean = towards(state["mean"], g, weight)
        spare = towards(state["mean_square"], square(g), weight_square)
        size = sqrt(spare)
        adapted = div(spread(rectified, size), add(size, spread(eps, size)))
        if type(adapted) is np.ndarray and adapted.shape != size.shape:
            adapted = np.broadcast_to(adapted, size.shape)
        plain = _like(size, 1.0)
        factor = add(scale(adapted, trusted), scale(plain, sub(_like(trusted, 1.0), trusted)))
        step = scale(mul(mean, factor), rate)
        return closed(sub(x, step), p), {"mean": mean, "mean_square": spare}


class Adamax(_Kin):
    """Adam that divides by the largest gradient so far, which fades (Kingma, Ba 2015)."""

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: Any = 1e-8,
        weight_decay: Any = 0.0, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        given = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, spread_pairs(self.pairs, given), {"maximize": bool(maximize)})

    def slots(self, group: Group) -> dict[str, Any]:
        return {"step": None, "mean": 0.0, "largest": 0.0}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        assert count is not None
        lr, eps, decay = (self.read(group, n) for n in ("lr", "eps", "weight_decay"))
        beta1, beta2 = self.read(group, "beta1"), self.read(group, "beta2")
        return lr, div(lr, complement(pow(beta1, count))), eps, decay, complement(beta1), beta2

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        lr, rate, eps, decay, weight, fade = numbers
        x, g = self._start(group, p, grad, decay, lr)
        mean = towards(state["mean"], g, weight)
        size = table["abs"](g)
        largest = maximum(scale(state["largest"], fade), add(size, spread(eps, size)))
        return closed(sub(x, scale(div(mean, largest), rate)), p), {"mean": mean, "largest": largest}


class Adadelta(_Kin):
    """Steps as large as the steps were, over gradients as large as they were (Zeiler 2012)."""

    rules: ClassVar[Mapping[str, Rule]] = {
        "lr": AT_LEAST_0, "rho": BELOW_1, "eps": AT_LEAST_0, "weight_decay": AT_LEAST_0,
    }  # fmt: skip
    pairs: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __init__(
        self, params: Any, lr: Any = 1.0, rho: Any = 0.9, eps: Any = 1e-6, weight_decay: Any = 0.0,
        *, maximize: bool = False,
    ) -> None:  # fmt: skip
        numbers = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, numbers, {"maximize": bool(maximize)})

    def slots(self, group: Group) -> dict[str, Any]:
        return {"mean_square": 0.0, "steps_square": 0.0}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        lr, eps, decay, rho = (self.read(group, n) for n in ("lr", "eps", "weight_decay", "rho"))
        return lr, eps, decay, complement(rho)

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        lr, eps, decay, weight = numbers
        x, g = self._start(group, p, grad, decay, lr)
        spare = towards(state["mean_square"], square(g), weight)
        roots = [sqrt(add(v, spread(eps, v))) for v in (state["steps_square"], spare)]
        step = mul(div(*roots), g)
        steps = towards(state["steps_square"], square(step), weight)
        return closed(sub(x, scale(step, lr)), p), {"mean_square": spare, "steps_square": steps}
