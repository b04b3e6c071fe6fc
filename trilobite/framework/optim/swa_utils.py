"""`tb.optim.swa_utils`: averages of weights under PyTorch's names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from trilobite.base.dtypes import int64, is_inexact
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.module import Module
from trilobite.framework.ops.registry import operators
from trilobite.framework.optim.averaging import (
    ExponentialMovingAverage,
    ParameterAverage,
    StochasticWeightAverage,
    update_bn,
)
from trilobite.framework.optim.group import BELOW_1
from trilobite.framework.optim.schedules import SWALR
from trilobite.framework.tensor import Tensor

Average = Callable[[Any, Any, Any], Any]


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those seen: equal ones, or as `avg_fn` says of one
    tensor (average, parameter, how many there were) or `multi_avg_fn`, in place, of lists. The first update
    takes the parameters as they are. Buffers are averaged with `use_buffers`, else taken along.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Any,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Average | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ArgumentError(
                "AveragedModel with avg_fn and multi_avg_fn",
                where=user_location(),
                expected="one of them at most",
            )
        self.module = copy.deepcopy(model) if device is None else copy.deepcopy(model).to(device)
        self.register_buffer("n_averaged", operators["zeros"].public((), dtype=int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, bool(use_buffers)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model makes of it."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Any) -> None:
        """Let the parameters of a model, as they are now, join the averages."""
        mine, theirs = self._averaged(self.module), self._averaged(model)
        with no_grad():
            is_first = self.n_averaged == 0
            for average, now, new in zip(mine, theirs, self._joined(mine, theirs), strict=True):
                average.copy_(operators["where"].public(is_first, now, new.to(average.dtype)))
            if not self.use_buffers:
                for kept, now in zip(self.module.buffers(), model.buffers(), strict=True):
                    kept.copy_(now)
            self.n_averaged += 1

    def _averaged(self, model: Any) -> list[Tensor]:
        return list(chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters())

    def _joined(self, mine: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
        """The next averages."""
        if self.avg_fn is not None or self.multi_avg_fn is None:
            fn = self.avg_fn or get_swa_avg_fn()
            return [fn(a.detach(), p.detach(), self.n_averaged) for a, p in zip(mine, theirs, strict=True)]
        made = [a.detach().clone() for a in mine]
        for dtype in dict.fromkeys(a.dtype for a in made):
            rows = [(a, p.detach()) for a, p in zip(made, theirs, strict=True) if a.dtype == dtype]
            self.multi_avg_fn([a for a, _ in rows], [p for _, p in rows], self.n_averaged)
        return made


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """average · decay + parameter · (1 − decay)"""
    if decay != 1:
        BELOW_1.check("get_ema_avg_fn", "decay", decay)

    def ema_update(average: Any, parameter: Any, count: Any) -> Any:
        return average * decay + parameter * (1 - decay)

    return ema_update


def get_swa_avg_fn() -> Average:
    """average + (parameter − average) / (count + 1)"""

    def swa_update(average: Any, parameter: Any, count: Any) -> Any:
        return average + (parameter - average) / (count + 1).to(_divisor(average))

    return swa_update


def _divisor(average: Tensor) -> Any:
    return average.dtype if is_inexact(average.dtype) else int64


def _of_lists(update: Average) -> Average:
    def multi(averages: Sequence[Any], parameters: Sequence[Any], count: Any) -> None:
        with no_grad():
            for a, p in zip(averages, parameters, strict=True):
                a.copy_(update(a, p, count))

    return multi


def get_ema_multi_avg_fn(decay: float = 0.999) -> Average:
    """`get_ema_avg_fn` for lists, in place."""
    return _of_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Average:
    """`get_swa_avg_fn` for lists, in place."""
    return _of_lists(get_swa_avg_fn())


__all__ = [
    "SWALR", "AveragedModel", "ExponentialMovingAverage", "ParameterAverage", "StochasticWeightAverage",
    "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip

explain_room(globals())
