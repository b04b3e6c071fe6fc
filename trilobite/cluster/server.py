"""A parameter server: one member keeps parameters and optimiser, the others compute gradients.

Synchronous, it waits for the gradients of all workers and takes their mean, in rank order: data parallel by
other means. Asynchronous, it applies each gradient as it comes and sends its parameters back at once; one
that is more than `staleness` steps ahead of the slowest waits for its answer until that one has caught up.
`log` records what happened in which order, so that one process can do the same again (`replay`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster import collectives as c
from trilobite.cluster.gradients import flat, same_start, unflat
from trilobite.cluster.groups import Group, as_group, rank
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.module import Module
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.tensor import Tensor
from trilobite.ir import ranks

_GRADIENTS, _PARAMETERS = 0, 1
Event = tuple[str, int]  # "apply" or "answer", and the worker


class ParameterServer(Module):
    """On the member `server` call `serve(steps)`; on the others compute gradients, then `exchange()`, as many
    times. All parameters have one dtype.
    """

    def __init__(
        self, module: Module, optimizer: Callable[[Any], Optimizer], group: Group | None = None, *,
        server: int = 0, staleness: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.module, self.group = module, as_group(group)
        if (
            self.group.size < 2
            or not 0 <= server < self.group.size
            or (staleness is not None and staleness < 0)
        ):
            raise ArgumentError(
                f"a parameter server on member {server} of {self.group.size}, staleness {staleness}",
                where=user_location(),
                expected="at least two members, one of them the server; a staleness of 0 or more, or None",
            )
        same_start(module, self.group)
        self.server = self.group.members[server]
        self.workers = [r for r in self.group.members if r != self.server]
        self.staleness = staleness
        self.optimizer = optimizer(module.parameters()) if rank() == self.server else None
        self.log: list[Event] = []

    def _line(self) -> list[Tensor]:
        return list(self.module.parameters())

    def exchange(self) -> None:
        """A worker's: gradients to the server, new parameters from it."""
        own = self._line()
        with no_grad():
            c.send(flat([_grad(p) for p in own]), self.server, _GRADIENTS)
            total = sum(p.size for p in own)
            line = c.receive((total,), own[0].dtype, self.server, _PARAMETERS)
            for p, new in zip(own, unflat(line, own), strict=True):
                p._store(new._read())

    def serve(self, steps: int) -> None:
        """The server's: until every worker has made `steps` exchanges."""
        if self.staleness is None:
            for _ in range(steps):
                lines = [self._gradients(w) for w in self.workers]
                total = lines[0]
                for line in lines[1:]:
                    total = total + line
                self._apply(total / float(len(self.workers)))
                for w in self.workers:
                    self._answer(w)
            return
        self._serve_as_they_come(steps)

    def _serve_as_they_come(self, steps: int) -> None:
        clocks = dict.fromkeys(self.workers, 0)
        waiting: set[int] = set()
        while any(clocks[w] < steps for w in self.workers):
            able = [w for w in self.workers if w not in waiting and clocks[w] < steps]
            w = ranks.transport().first_of(able, _GRADIENTS, user_location())
            self._apply(self._gradients(w))
            self.log.append(("apply", w))
            clocks[w] += 1
            waiting.add(w)
            slowest = min(clocks.values())
            for ready in sorted(r for r in waiting if clocks[r] - slowest <= (self.staleness or 0)):
                waiting.discard(ready)
                self._answer(ready)
                self.log.append(("answer", ready))

    def _gradients(self, worker: int) -> Tensor:
        own = self._line()
        return c.receive((sum(p.size for p in own),), own[0].dtype, worker, _GRADIENTS)

    def _apply(self, line: Tensor) -> None:
        own = self._line()
        assert self.optimizer is not None
        for p, g in zip(own, unflat(line, own), strict=True):
            p.grad = g
        self.optimizer.step()

    def _answer(self, worker: int) -> None:
        with no_grad():
            c.send(flat([p.detach() for p in self._line()]), worker, _PARAMETERS)


def _grad(p: Tensor) -> Tensor:
    if p.grad is None:
        raise ArgumentError(
            "a parameter without a gradient is exchanged with a server",
            where=user_location(),
            expected="a backward pass that reaches every parameter",
        )
    return p.grad


def replay(
    module: Module, optimizer: Optimizer, log: Sequence[Event],
    gradients: Callable[[int, int], None],
) -> None:  # fmt: skip
    """What an asynchronous server did, again in one process. `gradients(worker, step)` runs a backward pass
    of the module on that worker's data.
    """
    own = list(module.parameters())
    held: dict[int, Tensor] = {}
    steps: dict[int, int] = {}
    with no_grad():
        start = flat([p.detach() for p in own]).clone()
    for what, worker in log:
        with no_grad():
            now = flat([p.detach() for p in own]).clone()
        if what == "answer":
            held[worker] = now
            continue
        _load(own, held.get(worker, start))
        for p in own:
            p.grad = None
        gradients(worker, steps.setdefault(worker, 0))
        steps[worker] += 1
        _load(own, now)
        optimizer.step()


def _load(own: Sequence[Tensor], line: Tensor) -> None:
    with no_grad():
        for p, new in zip(own, unflat(line, own), strict=True):
            p._store(new._read())
