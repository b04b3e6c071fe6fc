"""Rprop: steps whose sizes know only the signs of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.optim.arithmetic import closed, maximum, mul, opened, select, spread, sub
from trilobite.framework.optim.group import AT_LEAST_0, Group, Rule
from trilobite.framework.optim.optimizer import Optimizer, spread_pairs
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

_ABOVE_1 = Rule("above 1", lambda x: x > 1)
_WITHIN = Rule("in (0, 1)", lambda x: 0 < x < 1)


class Rprop(Optimizer):
    """Resilient propagation (Riedmiller, Braun 1993), for whole batches.

    Each element has a step of its own: it grows by the second of `etas` where the gradient keeps its sign and
    shrinks by the first where it turns; then that element rests for one step.
    """

    rules: ClassVar[Mapping[str, Rule]] = {
        "lr": AT_LEAST_0, "shrinks": _WITHIN, "grows": _ABOVE_1, "least": AT_LEAST_0, "most": AT_LEAST_0,
    }  # fmt: skip
    pairs: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "etas": ("shrinks", "grows"),
        "step_sizes": ("least", "most"),
    }

    def __init__(
        self, params: Any, lr: Any = 1e-2, etas: tuple[Any, Any] = (0.5, 1.2),
        step_sizes: tuple[Any, Any] = (1e-6, 50.0), *, maximize: bool = False,
    ) -> None:  # fmt: skip
        numbers = spread_pairs(self.pairs, {"lr": lr, "etas": etas, "step_sizes": step_sizes})
        super().__init__(params, numbers, {"maximize": bool(maximize)})

    def check_group(self, group: Group) -> None:
        least, most = float(group["least"]), float(group["most"])
        if least > most:
            raise ArgumentError(
                f"Rprop: step_sizes is ({least:g}, {most:g})",
                where=user_location(),
                expected="the smallest step first",
            )

    def slots(self, group: Group) -> dict[str, Any]:
        return {"prev": 0.0, "step_size": float(group["lr"])}

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        return [self.read(group, name) for name in ("shrinks", "grows", "least", "most")]

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        x, g = opened(p, grad, group["maximize"])
        shrinks, grows, least, most = (spread(n, g) for n in numbers)
        none = table["full"](shape=g.shape, dtype=g.dtype, value=0.0)
        kept = table["sign"](mul(g, state["prev"]))
        turned = table["lt"](kept, none)
        size = state["step_size"]
        size = select(turned, mul(size, shrinks), select(table["gt"](kept, none), mul(size, grows), size))
        size = table["minimum"](maximum(size, least), most)
        g = select(turned, none, g)
        return closed(sub(x, mul(table["sign"](g), size)), p), {"prev": g, "step_size": size}
