"""Pipelines: the layers of a model as stages on several ranks, a batch as micro-batches that pass through.

Enters: all stages in order (stage s runs on rank s mod n of the group; more stages than ranks are
interleaved), and a schedule. Leaves: the mean loss on every rank, and the gradients of this rank's stages.
The same batch in one process gives the same loss and gradients, dropout included: every stage draws the keys
that it would draw there. Batch norm sees micro-batches, so it differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import BY_NAME
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster import collectives as c
from trilobite.cluster.groups import Group, as_group
from trilobite.cluster.randomness import rows
from trilobite.cluster.schedules import Plan, Task, plan
from trilobite.framework.jit import eval_shape
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.module import Module
from trilobite.framework.random import keys
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.transforms.cells import read, write
from trilobite.ir.types import TensorType

_DTYPES = [BY_NAME[name] for name in sorted(BY_NAME)]  # numbered alike in all processes
_DESCRIPTION = TensorType((12,), np.dtype(np.int64))  # of a tensor: its number of axes, dtype and sizes
_TYPES, _FORWARD, _BACKWARD = 0, 1, 2  # kinds of messages


class Pipeline(Module):
    """This rank's stages of a model, and the steps of all of them."""

    def __init__(
        self, stages: Sequence[Module | Callable[[], Module]], group: Group | None = None, *,
        schedule: str = "1f1b", micro_batches: int = 4, data: Group | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.group, self.data, self.micros, self.count = as_group(group), data, micro_batches, len(stages)
        n = self.group.size
        if len(stages) % n:
            raise ArgumentError(
                f"{len(stages)} stages on {n} ranks", where=user_location(), expected=f"a multiple of {n}"
            )
        self.plan: Plan = plan(schedule, n, len(stages) // n, micro_batches)
        for s in range(self.group.index, len(stages), n):
            found: Any = stages[s]
            setattr(self, f"stage{s}", found if isinstance(found, Module) else found())
        self._types: dict[Any, dict[int, TensorType]] = {}
        self._draws: list[int] = []

    def stage(self, s: int) -> Module:
        found: Module = getattr(self, f"stage{s}")
        return found

    def _has(self, s: int) -> bool:
        return s % self.group.size == self.group.index

    # -- what passes between stages ------------------------------------------------------------------------

    def _tag(self, kind: int, s: int, micro: int) -> int:
        return (kind * self.count + s) * self.micros + micro

    def _send(self, x: Tensor, s: int, kind: int, micro: int) -> None:
        """To stage s, which may be on this rank."""
        tag = self._tag(kind, s, micro)
        if self._has(s):
            self._here[tag] = x
        else:
            c.send(x, self.group.members[s % self.group.size], tag)

    def _receive(self, t: TensorType, to: int, source: int, kind: int, micro: int) -> Tensor:
        """What stage `source` sent to stage `to`."""
        tag = self._tag(kind, to, micro)
        if self._has(source):
            return self._here.pop(tag)
        shape = [int(d) for d in t.shape]
        return c.receive(shape, t.dtype, self.group.members[source % self.group.size], tag)

    def _learn(self, x: Tensor) -> dict[int, TensorType]:
        """What leaves each of this rank's stages and what enters them, and how many keys each stage draws."""
        known = self._types.get((tuple(x.shape), x.dtype))
        if known is not None:
            return known
        self._here: dict[int, Tensor] = {}
        out, draws = {-1: TensorType(tuple(x.shape), x._peek().dtype)}, np.zeros(self.count, np.int64)
        for s in range(self.group.index, self.count, self.group.size):
            if s:
                row = self._receive(_DESCRIPTION, s, s - 1, _TYPES, 0).numpy().tolist()
                out[s - 1] = TensorType(tuple(row[2 : 2 + row[0]]), _DTYPES[row[1]])
            before = keys.draws[0]
            given = wrap(np.zeros(tuple(map(int, out[s - 1].shape)))).to(out[s - 1].dtype)
            state = read(keys.state)
            with no_grad():
                leaves = eval_shape(self.stage(s), given)
            write(keys.state, state)
            draws[s] = keys.draws[0] - before
            out[s] = TensorType(tuple(leaves.shape), leaves.dtype)
            if s < self.count - 1:
                row = [len(leaves.shape), _DTYPES.index(leaves.dtype), *map(int, leaves.shape)]
                self._send(wrap(np.array(row + [0] * (12 - len(row)))), s + 1, _TYPES, 0)
        total = c.all_reduce(wrap(draws), group=self.group)
        self._draws = [int(d) for d in total.numpy()]
        self._types[tuple(x.shape), x.dtype] = out
        return out

    # -- a step --------------------------------------------------------------------------------------------

    def step(self, x: Tensor, y: Tensor, loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The mean of `loss(output, y)` over micro-batches, with gradients added to this rank's parameters.
        Every rank passes the same x and y.
        """
        if x.shape[0] % self.micros:
            raise ArgumentError(
                f"a batch of {x.shape[0]} in {self.micros} micro-batches",
                where=user_location(),
                expected=f"a multiple of {self.micros}",
            )
        size = int(x.shape[0]) // self.micros
        types = self._learn(x[:size])
        run = _Step(self, x, y, loss, size, types)
        for task in self.plan.tasks[self.group.index]:
            (run.backward if task.backward else run.forward)(task)
        write(keys.state, run.end)
        last = (self.count - 1) % self.group.size
        return c.broadcast(run.total(), last, group=self.group)


class _Step:
    """One step: what waits for its backward pass."""

    def __init__(
        self, pipe: Pipeline, x: Any, y: Any, loss: Any, size: int, types: dict[int, TensorType]
    ) -> None:
        self.pipe, self.x, self.y, self.loss, self.size, self.types = pipe, x, y, loss, size, types
        pipe._here = {}
        self.entered: dict[tuple[int, int], Tensor] = {}
        self.left: dict[tuple[int, int], Tensor] = {}
        self.losses: list[Tensor] = []
        starts, state = [], read(keys.state)
        for draws in pipe._draws:
            starts.append(state)
            for _ in range(draws):
                state = keys.split_value(state, 2)[0]
        self.starts, self.end = starts, state

    def _rows(self, micro: int) -> tuple[int, int]:
        """Where a micro-batch begins in the batch of all ranks, and how large that is."""
        whole, data = self.size * self.pipe.micros, self.pipe.data
        at, n = (0, 1) if data is None else (data.index, data.size)
        return at * whole + micro * self.size, whole * n

    def forward(self, t: Task) -> None:
        pipe, at = self.pipe, slice(t.micro * self.size, (t.micro + 1) * self.size)
        x = self.x[at]
        if t.stage:
            kind = self.types[t.stage - 1]
            x = pipe._receive(kind, t.stage, t.stage - 1, _FORWARD, t.micro).detach().requires_grad_()
        write(keys.state, self.starts[t.stage])
        with rows(*self._rows(t.micro)):
            out = pipe.stage(t.stage)(x)
        if t.stage == pipe.count - 1:
            out = self.loss(out, self.y[at]) / pipe.micros
            self.losses.append(out.detach())
        else:
            pipe._send(out.detach(), t.stage + 1, _FORWARD, t.micro)
        self.entered[t.stage, t.micro], self.left[t.stage, t.micro] = x, out

    def backward(self, t: Task) -> None:
        pipe = self.pipe
        x, out = self.entered.pop((t.stage, t.micro)), self.left.pop((t.stage, t.micro))
        if t.stage == pipe.count - 1:
            out.backward()
        else:
            out.backward(pipe._receive(self.types[t.stage], t.stage, t.stage + 1, _BACKWARD, t.micro))
        if t.stage:
            assert x.grad is not None
            pipe._send(x.grad, t.stage - 1, _BACKWARD, t.micro)

    def total(self) -> Tensor:
        """The loss in double precision, on the rank of the last stage; zero elsewhere."""
        found = wrap(np.zeros((), np.float64))
        for loss in self.losses:
            found = found + loss.to(found.dtype)
        return found
