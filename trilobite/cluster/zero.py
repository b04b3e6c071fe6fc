"""ZeRO: data-parallel ranks that each keep a part of what all of them would keep (FSDP is stage 3).

| stage | optimiser state | gradients | parameters | moved in a step, per rank |
|---|---|---|---|---|
| 1 | a part | all, until they are summed | all | all_reduce of gradients, all_gather of parameters |
| 2 | a part | a part | all | reduce_scatter of each gradient as it is there, all_gather of parameters |
| 3 | a part | a part | a part | all_gather where a unit runs, reduce_scatter of its gradients |

A rank's part of a parameter is a piece of its elements in one line; in stages 1 and 2 it lies in the memory
of the whole one. The optimiser sees these pieces as its parameters, so it must treat every element alone:
those that look at whole parameters (LAMB, Adafactor) are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from trilobite.base.dtypes import bool_, int32
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster import collectives as c
from trilobite.cluster.gradients import (
    alike,
    clip_grad_norm_,
    complete_gradients,
    rows_of_all,
    same_start,
    told_gradients,
    weighed,
    weight_of,
)
from trilobite.cluster.groups import Group, as_group, part_of
from trilobite.cluster.randomness import one_randomness
from trilobite.framework.checkpointing import checkpoint
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.nn.skeleton import functional_call
from trilobite.framework.nn.state import LoadResult
from trilobite.framework.ops.creation import zeros
from trilobite.framework.optim.clipping import keep_apart
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.tensor import Tensor


class Zero(Module):
    """A model and its optimiser, split over the members of a group.

    `optimizer` makes one for parameters: `lambda ps: optim.Adam(ps, lr=1e-3)`. `units` are the modules of
    stage 3 whose parameters come and go together; with `again` they go after the forward pass and come again,
    with what they computed, in the backward pass. Uneven batches: as `DataParallel` says.
    """

    rows: int | None = None

    def __init__(
        self, module: Module, optimizer: Callable[[list[Parameter]], Optimizer], stage: int = 1,
        group: Group | None = None, units: Sequence[Module] | None = None, again: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if stage not in (1, 2, 3):
            raise ArgumentError(f"ZeRO of stage {stage!r}", where=user_location(), expected="1, 2 or 3")
        self.stage, self.group, self.module = stage, as_group(group), module
        same_start(module, self.group)
        self._whole = list(module.parameters())
        self._shapes = [tuple(p.shape) for p in self._whole]
        self.shards = [self._shard(p) for p in self._whole]
        self.optimizer = optimizer(self.shards)
        self._refuse_whole()
        self._scattered: list[int] = []  # stage 2: whose gradients this member has summed, in order
        if self.group.size > 1:
            self.optimizer.agreed = self._agreed
            keep_apart((*self._whole, *self.shards), "clip_grad_norm_(max_norm) of cluster.Zero")
        if stage < 3:
            self.optimizer.register_step_post_hook(lambda *_: self.gather_parameters())
            self._lie_in_whole()
        if stage == 3:
            self._take_away(units or _units(module), again)
        elif stage == 2:
            for k, p in enumerate(self._whole):
                if p.requires_grad:
                    p.register_post_accumulate_grad_hook(partial(self._scatter, k))

    def _refuse_whole(self) -> None:
        if not self.optimizer.elementwise or len(self.optimizer.param_groups) == 0:
            raise ArgumentError(
                f"ZeRO with {self.optimizer.name}, which looks at whole parameters",
                where=user_location(),
                expected="an optimiser that treats every element alone: SGD, Adam, AdamW, RMSprop, Lion, ...",
                remedy="use cluster.DataParallel with this one",
            )

    def _agreed(self, fine: Tensor) -> Tensor:
        """Is it so on all members?"""
        found: Tensor = c.all_reduce(fine.to(int32), "min", group=self.group).to(bool_)
        return found

    def _shard(self, p: Tensor) -> Parameter:
        with no_grad():
            line = c.part(p.detach().reshape(-1), group=self.group)
        return Parameter(line.numpy().copy(), requires_grad=p.requires_grad)

    def _lie_in_whole(self) -> None:
        """Parts take no memory of their own, as long as the whole parameters are arrays that are there."""
        cuts = [part_of(_count(shape), self.group) for shape in self._shapes]
        for p, q, (begin, end) in zip(self._whole, self.shards, cuts, strict=True):
            whole, own = p._cell.held, q._cell.held
            if type(whole) is not np.ndarray or type(own) is not np.ndarray or not whole.flags.c_contiguous:
                continue
            line = whole.reshape(-1)[begin:end]
            if own.shape == line.shape and own.dtype == line.dtype and not np.may_share_memory(own, line):
                q._cell.value = line

    def _gathered(self, k: int) -> Tensor:
        """A whole parameter; its gradient goes to the shards, summed over the members."""
        shape = self._shapes[k]
        total = _count(shape)
        whole: Tensor = c.all_gather(self.shards[k], group=self.group, size=total).reshape(shape)
        return whole

    # -- stage 3: parameters that come and go ---------------------------------------------------------------

    def _take_away(self, units: Sequence[Module], again: bool) -> None:
        index = {p: k for k, p in enumerate(self._whole)}
        claimed: set[int] = set()
        for number, unit in enumerate(units):
            # Units may share a parameter (tied weights): each gathers it, and their gradients add up.
            places = {name: index[p] for name, p in unit.named_parameters()}
            claimed |= set(places.values())
            self._wrap(unit, places, again, number)
        left = [k for k in range(len(self._whole)) if k not in claimed]
        if left:
            names = [n for n, p in self.module.named_parameters() if index[p] in left]
            raise ArgumentError(
                f"no unit of stage 3 holds {', '.join(names)}",
                where=user_location(),
                expected="every parameter in one of the units",
            )
        self._empty()
        for p in self._whole:
            p.requires_grad_(False)

    def _wrap(self, unit: Module, places: dict[str, int], again: bool, number: int) -> None:
        plain = type(unit).forward

        def inner(*args: Any, **kwargs: Any) -> Any:
            if self.group.size > 1:
                alike(f"parameters of unit {number}", self.group)
            whole = {name: self._gathered(k) for name, k in places.items()}
            return functional_call(
                _Plain(unit, plain), {f"unit.{n}": t for n, t in whole.items()}, args, kwargs
            )

        object.__setattr__(unit, "forward", checkpoint(inner) if again else inner)

    # -- a step ----------------------------------------------------------------------------------------------

    @property
    def weight(self) -> float:
        """What this member's mean loss counts for in the mean of all, where parts are uneven."""
        return weight_of(self)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module on this rank's part of the batch."""
        with one_randomness(self.group, total=rows_of_all(self, args, kwargs)):
            return weighed(self, self.module(*args, **kwargs))

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """That of the module in one process, whole on every member. All members call it."""
        if self.stage < 3:
            return self.module.state_dict(*args, **kwargs)
        self._bring_back()
        try:
            found = self.module.state_dict(*args, **kwargs)
            return {name: t.clone() for name, t in found.items()}
        finally:
            self._empty()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> LoadResult:
        """Takes this member's parts out of whole parameters, as `state_dict` gives them."""
        if self.stage == 3:
            self._bring_back()
        try:
            return self.module.load_state_dict(state_dict, strict)
        finally:
            with no_grad():
                for p, q in zip(self._whole, self.shards, strict=True):
                    q._store(self._shard(p)._read())
            if self.stage == 3:
                self._empty()

    def _bring_back(self) -> None:
        """Whole parameters in the module, for a moment."""
        with no_grad():
            for k, p in enumerate(self._whole):
                p._cell.value = self._gathered(k).detach()._read()

    def _empty(self) -> None:
        """The elements of the module's own parameters are the shards' now."""
        for p in self._whole:
            p._cell.value = zeros((0,), dtype=p.dtype)._read()

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._scattered.clear()
        for p in (*self._whole, *self.shards):
            p.grad = None

    def reduce_gradients(self) -> None:
        """The shards' gradients: those of the mean loss over all ranks."""
        n = self.group.size
        with no_grad():
            if self.stage == 1 and n > 1:
                complete_gradients(self._whole, self.group)
            elif self.stage == 2 and n > 1:
                self._compare_scattered()
            for p, q in zip(self._whole, self.shards, strict=True):
                if self.stage == 1 and p.grad is not None:
                    q.grad, p.grad = self._summed(p.grad.reshape(-1)), None
                if q.grad is not None:
                    q.grad = q.grad / n

    def _summed(self, line: Tensor) -> Tensor:
        """This member's part of the sum."""
        if self.stage == 2:
            return c.reduce_scatter(line, group=self.group)
        return c.part(c.all_reduce(line, group=self.group), group=self.group)

    def _scatter(self, k: int, p: Tensor) -> None:
        """Stage 2: a gradient is summed and cut as soon as it is there, so that no rank keeps it whole."""
        with no_grad():
            assert p.grad is not None
            own = self._summed(p.grad.reshape(-1))
            self._scattered.append(k)
            p.grad, q = None, self.shards[k]
            q.grad = own if q.grad is None else q.grad + own

    def _compare_scattered(self) -> None:
        """Sums by position have mixed up parameters if members have used other ones."""
        told_gradients(self._whole, self._scattered, self.group)
        self._scattered.clear()

    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """Between reduce_gradients() and step()."""
        return clip_grad_norm_([], max_norm, split={self.group: self.shards})

    def told(self) -> list[str]:
        """Parameters of all members are made of the same shards."""
        return []

    def step(self) -> None:
        """Update the shards, and in stages 1 and 2 the parameters from them: so does the optimiser's own."""
        self.optimizer.step()

    def gather_parameters(self) -> None:
        """Whole parameters of stages 1 and 2 from the shards of all members."""
        with no_grad():
            for k, p in enumerate(self._whole):
                p._store(self._gathered(k).detach()._read())
        self._lie_in_whole()

    def parameters_whole(self) -> dict[str, Tensor]:
        """All parameters by their names in the module, whole, on every member."""
        with no_grad():
            names = [name for name, _ in self.module.named_parameters()]
            return {name: self._gathered(k).detach() for k, name in enumerate(names)}


class _Plain(Module):
    """A unit with the forward function that its class has."""

    def __init__(self, unit: Module, plain: Callable[..., Any]) -> None:
        super().__init__()
        self.unit, self.plain = unit, plain

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.plain(self.unit, *args, **kwargs)


def _units(module: Module) -> list[Module]:
    """The parts of a module that run by themselves: its children, or those of a list of modules. A module
    with parameters of its own is one unit.
    """
    if any("." not in name for name, _ in module.named_parameters()):
        return [module]
    out: list[Module] = []
    for child in module.children():
        runs = type(child).forward is not Module.forward
        if any(True for _ in child.parameters()):
            out += [child] if runs else _units(child)
    return out


def _count(shape: Sequence[Any]) -> int:
    total = 1
    for d in shape:
        total *= int(d)
    return total
