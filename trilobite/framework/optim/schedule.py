"""What the schedules share: a count of steps, and learning rates written into the optimiser's own
tensors.

A schedule is a function of the count: `rate(base, t)`, both 0-d float64 tensors, `base` the learning rate
that the optimiser was made with. Nothing is carried from step to step but the count, so a schedule may be
combined with others, saved, and stepped inside `jit`. The formulas are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from trilobite.base.dtypes import float64, int64
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explains
from trilobite.framework.modes import no_grad
from trilobite.framework.optim.arithmetic import add, cast
from trilobite.framework.optim.group import Group
from trilobite.framework.optim.guard import Guarded
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.optim.state import fitting, names_fit, snapshot, write
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.transforms import cells

Number = Any
"""A 0-d float64 tensor. Tensors get their operators from the operator table, where a type checker does
not look.
"""


class Schedule(Guarded):
    """The base of all schedules. Making one sets the rates of step 0; `step()` moves on by one."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        made = cls.__dict__.get("__init__")
        if made is not None and cls.__module__.startswith("trilobite.framework.optim."):
            setattr(cls, "__init__", explains(_with_habits(made)))  # noqa: B010  mypy: it never changes

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(
                f"{type(self).__name__} of a {type(optimizer).__name__}",
                where=user_location(),
                expected="an optimiser",
                remedy="pass the optimiser first: StepLR(tb.optim.SGD(parameters, lr=0.1), ...)",
            )
        optimizer.refuse_recorded(f"a new {type(self).__name__}")
        self.optimizer = optimizer
        self.count = wrap(np.zeros((), int64))
        for group in optimizer.param_groups:
            group.add("initial_lr", group["lr"].item())
        self._write()

    def rate(self, base: Number, t: Number, group: int) -> Number:
        """The learning rate of a group after `t` steps."""
        raise NotImplementedError

    def others(self, t: Number, group: int) -> dict[str, Number]:
        """Further numbers that this schedule sets."""
        return {}

    @property
    def last_epoch(self) -> int:
        """How many steps there were."""
        return int(self.count.item())

    @property
    def base_lrs(self) -> list[float]:
        """The rates that the optimiser was made with."""
        return [group["initial_lr"].item() for group in self.optimizer.param_groups]

    def __repr__(self) -> str:
        rates = ", ".join(f"{r:.6g}" for r in self.get_last_lr())
        return f"{type(self).__name__}(step {self.last_epoch}, lr {rates})"

    def step(self, epoch: Any = None) -> None:
        """Move on by one step; with `epoch`, to that one."""
        if epoch is not None:
            with no_grad():
                cells.write(self.count._cell, np.asarray(int(epoch), int64))
            self._write()
            return
        with no_grad():
            cells.write(self.count._cell, add(self.count._read(), np.asarray(1, int64)))
        self._write()

    def _write(self) -> None:
        with no_grad():
            t = wrap(cast(self.count._read(), float64))
            for i, group in enumerate(self.optimizer.param_groups):
                group["lr"] = self.rate(base_rate(group), t, i)
                for name, value in self.others(t, i).items():
                    group[name] = value

    def get_last_lr(self) -> list[float]:
        """The learning rates that are set now, one per group."""
        return [group["lr"].item() for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """A copy of what changes. What the schedule was made with is not part of it."""
        return {name: snapshot(t) for name, t in self._tensors().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what state_dict() returned. The rates themselves come with the optimiser's state."""
        self.refuse_recorded("load_state_dict")
        owner, tensors = type(self).__name__, self._tensors()
        names_fit(owner, "it", state, list(tensors))
        arrays = {name: fitting(owner, name, state[name], t) for name, t in tensors.items()}
        for name, t in tensors.items():
            write(t, arrays[name])

    def _tensors(self) -> dict[str, Tensor]:
        return {"count": self.count}


def _with_habits(made: Callable[..., None]) -> Callable[..., None]:
    """A constructor that also takes PyTorch's `last_epoch` (-1, from the start) and `verbose`."""

    @wraps(made)
    def init(self: Any, *args: Any, last_epoch: int = -1, verbose: Any = None, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        if last_epoch > 0:
            self.step(last_epoch)

    return init


def base_rate(group: Group) -> Tensor:
    """The learning rate that a group began with, in float64."""
    return wrap(cast(group["initial_lr"]._read(), float64))


def per_group(owner: str, name: str, given: Any, optimizer: Optimizer) -> list[Any]:
    """One value for all groups, or one for each."""
    groups = len(optimizer.param_groups)
    if not isinstance(given, Sequence):
        return [given] * groups
    if len(given) != groups:
        raise ArgumentError(
            f"{owner}: {len(given)} values of {name}",
            where=user_location(),
            expected=f"one for each of {groups} groups",
        )
    return list(given)


def whole(owner: str, name: str, given: Any, least: int = 1) -> int:
    """A number of steps."""
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < least:
        raise ArgumentError(
            f"{owner}: {name} is {given!r}",
            where=user_location(),
            expected=f"an integer of at least {least}",
            remedy=f"{name} counts calls of step()",
        )
    return int(given)


def one_of(owner: str, name: str, given: Any, known: Sequence[str]) -> None:
    if given not in known:
        raise ArgumentError(
            f"{owner}: {name} is {given!r}",
            where=user_location(),
            expected=f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}",
        )
