"""Averages of parameters over the course of training: exponential, and equal (SWA).

Enters: a module or tensors. Leaves: averages in tensors of their own, updated in place, also inside
`jit`. A module's buffers (running statistics) are not averaged but taken along as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from trilobite.base.dtypes import accumulator, float64, int64, is_inexact, real_of
from trilobite.base.errors import ArgumentError, StateError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.jit import refuse_during_recording
from trilobite.framework.modes import no_grad
from trilobite.framework.optim.arithmetic import ONE, add, cast, complement, div, towards
from trilobite.framework.optim.group import BELOW_1, number
from trilobite.framework.optim.guard import Guarded
from trilobite.framework.optim.state import fitting, names_fit, snapshot, write
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.composite import composite


@composite("average_update")
def average_update(average: Value, p: Value, weight: Value) -> Value:
    """average + (p − average) · weight"""
    return towards(average, cast(p, average.dtype), weight)


class ParameterAverage(Guarded):
    """What the averages share. `update()` after each optimiser step; `applied()` to evaluate with them."""

    def __init__(self, source: Any) -> None:
        self.parameters, buffers = _sources(source)
        self.buffers = buffers
        self.averages = [_copy(p, accumulator(p.dtype)) for p in self.parameters]
        self.taken = [_copy(b, b.dtype) for b in buffers]
        self.count = wrap(np.zeros((), int64))

    def weight(self, count: Value) -> Value:
        """How much of a parameter joins its average at this update, as a float64 number. `count` starts
        from 0.
        """
        raise NotImplementedError

    def update(self) -> None:
        """Let the parameters as they are now join the averages."""
        with no_grad():
            count = self.count._read()
            weight = self.weight(cast(count, float64))
            for p, average in zip(self.parameters, self.averages, strict=True):
                old = average._read()
                cells.write(average._cell, average_update(old, p._read(), cast(weight, real_of(old.dtype))))
            for b, kept in zip(self.buffers, self.taken, strict=True):
                kept.copy_(b)
            cells.write(self.count._cell, add(count, np.asarray(1, int64)))

    def copy_to(self, target: Any = None) -> None:
        """Write the averages into the parameters, or into those of another module of the same build."""
        into = (
            [*self.parameters, *self.buffers] if target is None else [t for s in _sources(target) for t in s]
        )
        mine = [*self.averages, *self.taken]
        if [tuple(t.shape) for t in into] != [tuple(t.shape) for t in mine]:
            raise ArgumentError(
                "copy_to a module whose tensors have other shapes",
                where=user_location(),
                expected=[tuple(t.shape) for t in mine],
            )
        with no_grad():
            for t, average in zip(into, mine, strict=True):
                t.copy_(average)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The parameters hold the averages inside, and what they held before afterwards."""
        self.refuse_recorded("applied()")
        tensors = [*self.parameters, *self.buffers]
        before = [snapshot(t) for t in tensors]
        self.copy_to()
        try:
            yield
        finally:
            with no_grad():
                for t, array in zip(tensors, before, strict=True):
                    t.copy_(array)

    def state_dict(self) -> dict[str, Any]:
        """A copy of averages and count."""
        return {
            "averages": [snapshot(t) for t in self.averages],
            "buffers": [snapshot(t) for t in self.taken],
            "count": snapshot(self.count),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what state_dict() returned. Nothing is changed unless all of it fits."""
        self.refuse_recorded("load_state_dict")
        owner = type(self).__name__
        names_fit(owner, "it", state, ("averages", "buffers", "count"))
        tensors = [*self.averages, *self.taken, self.count]
        found = [*state["averages"], *state["buffers"], state["count"]]
        if len(found) != len(tensors):
            raise StateError(
                f"the state does not fit {owner}: it has {len(found) - 1} tensors", expected=len(tensors) - 1
            )
        arrays = [
            fitting(owner, f"tensor {i}", a, t) for i, (a, t) in enumerate(zip(found, tensors, strict=True))
        ]
        for t, array in zip(tensors, arrays, strict=True):
            write(t, array)


class ExponentialMovingAverage(ParameterAverage):
    """average ← decay · average + (1 − decay) · parameter. With `warmup`, young averages forget faster:
    the decay of update n is at most (1 + n) / (10 + n).
    """

    def __init__(self, source: Any, decay: Any = 0.999, *, warmup: bool = False) -> None:
        super().__init__(source)
        BELOW_1.check("ExponentialMovingAverage", "decay", decay)
        self.decay, self.warmup = number("decay", decay), bool(warmup)

    def weight(self, count: Value) -> Value:
        decay = cast(self.decay._read(), float64)
        if self.warmup:
            decay = table["minimum"](decay, div(add(count, ONE), add(count, np.asarray(10.0))))
        return complement(decay)


class StochasticWeightAverage(ParameterAverage):
    """The equal average of all parameters seen (Izmailov and others 2018). The first update replaces the
    start.
    """

    def weight(self, count: Value) -> Value:
        return div(ONE, add(count, ONE))


def _sources(source: Any) -> tuple[list[Tensor], list[Tensor]]:
    """(parameters, buffers) of a module; tensors alone have no buffers."""
    if hasattr(source, "parameters") and hasattr(source, "buffers"):
        return list(source.parameters()), list(source.buffers())
    listed = [source] if isinstance(source, Tensor) else list(source) if isinstance(source, Iterable) else []
    if not listed or not all(isinstance(t, Tensor) and is_inexact(t.dtype) for t in listed):
        raise ArgumentError(
            f"an average of {type(source).__name__}",
            where=user_location(),
            expected="a module, or a list of float tensors",
        )
    return listed, []


def _copy(t: Tensor, dtype: Any) -> Tensor:
    return wrap(t.detach().numpy().astype(dtype, copy=True))


def update_bn(batches: Iterable[Any], model: Any) -> None:
    """Take the running statistics of a model's batch normalisations anew, as the mean over these batches.

    Averaged parameters have other statistics than those they were trained with. A batch is the model's
    input, or a tuple or list that begins with it.
    """
    refuse_during_recording("update_bn")
    layers = [m for m in model.modules() if getattr(m, "running_mean", None) is not None]
    before = [m.momentum for m in layers]
    training = {m: m.training for m in model.modules()}
    model.train()
    try:
        for m in layers:
            m.reset_running_stats()
            m.momentum = None
        with no_grad():
            for batch in batches:
                x = batch[0] if isinstance(batch, (tuple, list)) else batch
                model(x if isinstance(x, Tensor) else wrap(np.asarray(x)))
    finally:
        for m, momentum in zip(layers, before, strict=True):
            m.momentum = momentum
        for m, mode in training.items():
            m.training = mode


explain_room(globals())
