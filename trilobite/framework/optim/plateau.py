"""ReduceLROnPlateau: the learning rate falls when a metric has stopped getting better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import float64, int64
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.modes import no_grad
from trilobite.framework.ops.creation import to_array
from trilobite.framework.optim import rates
from trilobite.framework.optim.arithmetic import add, cast, maximum, mul, select, sub
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.optim.schedule import Schedule, per_group, whole
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import cells

_ONE, _ZERO = np.asarray(1, int64), np.asarray(0, int64)


class ReduceLROnPlateau(Schedule):
    """Multiplies the rates by `factor` after more than `patience` steps in a row without a better metric.

    Better means below (mode "min") or above ("max") the best so far by `threshold`, relative or absolute
    (`threshold_mode` "rel", "abs"). After a reduction, `cooldown` steps do not count. A metric that is
    not a number is never better. The best, the counts and the rates are tensors: `step(metric)` works
    inside `jit`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs") or not 0.0 < factor < 1.0:
            raise ArgumentError(
                f"ReduceLROnPlateau(mode={mode!r}, threshold_mode={threshold_mode!r}, factor={factor})",
                where=user_location(),
                expected="mode 'min' or 'max', threshold_mode 'rel' or 'abs', factor between 0 and 1",
            )
        self.falling, self.relative = mode == "min", threshold_mode == "rel"
        self.factor, self.threshold, self.eps = float(factor), float(threshold), float(eps)
        self.patience = whole("ReduceLROnPlateau", "patience", patience, 0)
        self.cooldown = whole("ReduceLROnPlateau", "cooldown", cooldown, 0)
        self.floors = [float(m) for m in per_group("ReduceLROnPlateau", "min_lr", min_lr, optimizer)]
        self.best = wrap(np.asarray(math.inf if self.falling else -math.inf))
        self.bad_steps, self.resting = wrap(np.zeros((), int64)), wrap(np.zeros((), int64))
        super().__init__(optimizer)

    def _write(self, epoch: Any = None) -> None:
        """Making one leaves the rates as they are."""

    def step(self, metric: Any = None) -> None:
        """Take note of a metric, a number or a 0-d tensor."""
        if metric is None:
            raise ArgumentError(
                "ReduceLROnPlateau.step() without a metric",
                where=user_location(),
                expected="the number to watch: step(validation_loss)",
            )
        value = metric.detach()._read() if isinstance(metric, Tensor) else to_array(float(metric), float64)
        with no_grad():
            cells.write(self.count._cell, add(self.count._read(), _ONE))
            self._take(cast(value, float64))

    def _take(self, metric: Value) -> None:
        best, resting = self.best._read(), self.resting._read()
        better = self._better(metric, best)
        bad = select(better, _ZERO, add(self.bad_steps._read(), _ONE))
        rests = table["gt"](resting, _ZERO)
        bad = select(rests, _ZERO, bad)
        resting = select(rests, sub(resting, _ONE), resting)
        reduces = table["gt"](bad, np.asarray(self.patience, int64))
        for group, floor in zip(self.optimizer.param_groups, self.floors, strict=True):
            old = rates.current(group)._read()
            new = maximum(mul(old, np.asarray(self.factor)), np.asarray(floor))
            worth = table["gt"](sub(old, new), np.asarray(self.eps))
            rates.assign(group, "lr", wrap(select(table["and"](reduces, worth), new, old)))
        cells.write(self.best._cell, select(better, metric, best))
        cells.write(self.bad_steps._cell, select(reduces, _ZERO, bad))
        cells.write(self.resting._cell, select(reduces, np.asarray(self.cooldown, int64), resting))

    def _better(self, metric: Value, best: Value) -> Value:
        sign = -1.0 if self.falling else 1.0
        if self.relative:
            bound = mul(best, np.asarray(1.0 + sign * self.threshold))
        else:
            bound = add(best, np.asarray(sign * self.threshold))
        return table["lt" if self.falling else "gt"](metric, bound)

    def _tensors(self) -> dict[str, Tensor]:
        return {"count": self.count, "best": self.best, "bad_steps": self.bad_steps, "resting": self.resting}
