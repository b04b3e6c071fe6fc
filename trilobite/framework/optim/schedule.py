"""What the schedules share: a count of steps, and learning rates written into the optimiser's own
tensors.

A schedule is a function of the count: `rate(base, t)`, both 0-d float64 tensors, `base` the learning rate
that the optimiser was made with. Nothing is carried from step to step but the count, so a schedule may be
combined with others, saved, and stepped inside `jit`. Where somebody else has changed the rate since the last
step (another schedule, or an assignment), one that `chains` moves on from what it finds. Subclasses written
for PyTorch state `get_lr()` instead, in plain numbers; they run eagerly. The formulas are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from trilobite.base.dtypes import float64, int64
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explains
from trilobite.framework.modes import no_grad
from trilobite.framework.optim import rates
from trilobite.framework.optim.arithmetic import add, cast
from trilobite.framework.optim.guard import Guarded
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.optim.state import fitting, names_fit, snapshot, write
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells

Number = Any
"""A 0-d float64 tensor. Tensors get their operators from the operator table, where a type checker does
not look.
"""


_ONE = np.asarray(1, int64)
_last: WeakKeyDictionary[Schedule, tuple[int, list[float]]] = WeakKeyDictionary()
"""What each schedule set last, and at which count: no part of what a recording sees of it."""


class Schedule(Guarded):
    """The base of all schedules. Making one sets the rates of step 0; `step()` moves on by one."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        made = cls.__dict__.get("__init__")
        if made is not None and cls.__module__.startswith("trilobite.framework.optim."):
            setattr(cls, "__init__", explains(_with_habits(made)))  # noqa: B010  mypy: it never changes

    chains: ClassVar[bool] = False
    """Does a step multiply the rate that it finds, or set the rate whatever it was?"""
    resumes: ClassVar[bool] = False
    """Does one that is made with `last_epoch` leave the rate that it finds?"""
    floor: float = 0.0
    """Where rates end: what a chained step multiplies is the distance to it."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1, verbose: Any = None) -> None:
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
            rates.keep_initial(group)
        last_epoch = self.__dict__.pop("_done", last_epoch)
        if last_epoch >= 0:
            self.last_epoch = last_epoch + 1
        if last_epoch < 0 or not self.resumes:
            self._write()

    def rate(self, base: Number, t: Number, group: int) -> Number:
        """The learning rate of a group after `t` steps."""
        raise NotImplementedError

    def others(self, t: Number, group: int) -> dict[str, Number]:
        """Further numbers that this schedule sets."""
        return {}

    def get_lr(self) -> list[float]:
        """The rates of this count, one per group: what subclasses that were written for PyTorch state."""
        groups = enumerate(self.optimizer.param_groups)
        return [float(self._rate_of(group, i, self._chained(None))) for i, group in groups]

    @property
    def last_epoch(self) -> int:
        """How many steps there were."""
        return int(self.count.item())

    @last_epoch.setter
    def last_epoch(self, steps: int) -> None:
        cells.write(self.count._cell, np.asarray(int(steps), int64))

    @property
    def base_lrs(self) -> list[float]:
        """The rates that the optimiser was made with."""
        return [float(group["initial_lr"]) for group in self.optimizer.param_groups]

    @base_lrs.setter
    def base_lrs(self, given: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, given, strict=True):
            rates.assign(group, "initial_lr", rate)

    def __repr__(self) -> str:
        rates = ", ".join(f"{r:.6g}" for r in self.get_last_lr())
        return f"{type(self).__name__}(step {self.last_epoch}, lr {rates})"

    def step(self, epoch: Any = None) -> None:
        """Move on by one step; with `epoch`, to that one."""
        with no_grad():
            count = np.asarray(int(epoch), int64) if epoch is not None else add(self.count._read(), _ONE)
            cells.write(self.count._cell, count)
        self._write(epoch)

    def _write(self, epoch: Any = None) -> None:
        """The rates of the count; with `epoch`, which need not be the next one, whatever they were."""
        chained = self._chained(epoch)
        with no_grad():
            stated = self.get_lr() if type(self).get_lr is not Schedule.get_lr else None
            for i, group in enumerate(self.optimizer.param_groups):
                new = self._rate_of(group, i, chained) if stated is None else stated[i]
                rates.assign(group, "lr", new)
                others = self.others(self._steps(), i) if stated is None else {}
                for name, value in others.items():
                    rates.assign(group, name, value)
        self._keep()

    def _steps(self) -> Number:
        return wrap(cast(self.count._read(), float64))

    def _chained(self, epoch: Any) -> bool:
        return self.chains and epoch is None

    def _rate_of(self, group: Any, i: int, chained: bool) -> Number:
        """The rate of this count; if it is not what this schedule set before, that rate moved on as far."""
        t, base = self._steps(), rates.base_rate(group)
        new = self.rate(base, t, i)
        if not chained:
            return new
        start = wrap(
            table["select"](table["le"](t._read(), np.asarray(0.0)), base._read(), self._before(base, t, i))
        )
        return rates.moved_on(rates.current(group), start, new, self.floor)

    def _before(self, base: Number, t: Number, i: int) -> Value:
        """The rate of the step before."""
        return cast(self.rate(base, t - 1.0, i)._read(), float64)

    def _keep(self) -> None:
        """What this schedule has set, for `get_last_lr`; a recorded step keeps nothing."""
        if entry.threads.context.recorder is None:
            now = [float(group["lr"]) for group in self.optimizer.param_groups]
            _last[self] = (self.last_epoch, now)

    def get_last_lr(self) -> list[float]:
        """The learning rates that this schedule set last, one per group; those that are set now where a
        compiled function has moved it on since.
        """
        count, kept = _last.get(self, (-1, []))
        if count == self.last_epoch:
            return list(kept)
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    @property
    def _last_lr(self) -> list[float]:
        return self.get_last_lr()

    @_last_lr.setter
    def _last_lr(self, given: Sequence[float]) -> None:
        _last[self] = (self.last_epoch, [float(rate) for rate in given])

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
    """A constructor that also takes PyTorch's `last_epoch` (how many steps were done, less one: the first is
    taken at once) and `verbose`, also by their places.
    """
    most = made.__code__.co_argcount - 1

    @wraps(made)
    def init(self: Any, *args: Any, last_epoch: int = -1, verbose: Any = None, **kwargs: Any) -> None:
        if most < len(args) <= most + 2:
            args, last_epoch = args[:most], args[most]
        if last_epoch >= 0:
            self.__dict__["_done"] = last_epoch
        made(self, *args, **kwargs)

    stated = signature(made)
    further = Parameter("last_epoch", Parameter.POSITIONAL_OR_KEYWORD, default=-1, annotation="int")
    if "last_epoch" not in stated.parameters:
        vars(init)["__signature__"] = stated.replace(parameters=[*stated.parameters.values(), further])
    return init


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
