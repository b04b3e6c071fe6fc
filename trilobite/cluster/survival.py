"""A training that outlives its ranks: `survive(train)` calls `train` again, with those that are left.

Needs an MPI that goes on when a process dies: Open MPI's ULFM (`trilobite launch --survive`, or `mpirun
--with-ft ulfm`). `Copies` hold the state of the last completed step in the memory of two ranks each, so that
one of them may die; if both did, or before there is any, the last checkpoint serves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from trilobite.base.dtypes import BY_NAME
from trilobite.cluster import collectives as c
from trilobite.cluster import state as s
from trilobite.cluster.checkpoints import check_names, load, take
from trilobite.cluster.groups import rank, size
from trilobite.cluster.notices import LostRank
from trilobite.cluster.talk import told
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.module import Module
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.random import keys
from trilobite.ir import ranks

_COPY = 7  # the tag of arrays that go to the next rank
T = TypeVar("T")


class Kept(NamedTuple):
    """A state that all ranks together have whole: `arrays` are those that lie here."""

    number: int
    arrays: dict[s.Path, s.Array]
    types: dict[s.Path, tuple[str, tuple[int, ...]]]
    groups: list[dict[str, Any]]
    extra: Any
    random: s.Array


class Copies:
    """The last completed step in the memory of ranks: every array on one rank and on the next."""

    def __init__(self, checkpoint: str | Path | None = None) -> None:
        self.checkpoint = checkpoint
        self.coming: Kept | None = None  # complete here, perhaps not everywhere
        self.last: Kept | None = None  # complete everywhere

    def keep(self, module: Module, optimizer: Optimizer | None, extra: Any = None) -> None:
        """Remember the state as it is. All ranks call it; what was kept before serves until all have."""
        rows = list(s.places(module, optimizer))
        found = s.outline(rows, s.groups_of(module, optimizer))
        here, before, behind = rank(), (rank() - 1) % size(), (rank() + 1) % size()
        arrays = s.kept(rows, lambda p: found.keepers[p] in (here, before))
        for p, keeper in found.keepers.items():
            if keeper == here and behind not in found.holders[p]:
                c.send(arrays[p], behind, _COPY)
        for p, keeper in found.keepers.items():
            if keeper == before and here not in found.holders[p]:
                dtype, shape = found.types[p]
                arrays[p] = c.receive(shape, BY_NAME[dtype], before, _COPY).numpy()
        number = 1 if self.last is None else self.last.number + 1
        random = np.array(keys.state.value)
        self.coming = Kept(number, arrays, found.types, found.groups, extra, random)
        c.barrier()
        self.last = self.coming

    def restore(self, module: Module, optimizer: Optimizer | None) -> Any:
        """Take over what was kept last, or else the checkpoint, and give what was `extra` there; None where
        there is neither: the training begins. All ranks call it.
        """
        last = max(told(0 if self.last is None else self.last.number))
        kept = next((k for k in (self.last, self.coming) if k is not None and k.number == last), None)
        self.last = self.coming = kept
        if kept is None or not self._load(kept, module, optimizer):
            there = self.checkpoint is not None and all(told(Path(self.checkpoint).exists()))
            return load(str(self.checkpoint), module, optimizer) if there else None
        keys.state.value = kept.random
        return kept.extra

    def _load(self, kept: Kept, module: Module, optimizer: Optimizer | None) -> bool:
        """Array by array, from a rank that has it to all. False if one is nowhere."""
        have = [{tuple(p) for p in paths} for paths in told([list(p) for p in kept.arrays])]
        roots = {p: next((r for r, own in enumerate(have) if p in own), -1) for p in kept.types}
        if -1 in roots.values():
            return False
        rows = list(s.places(module, optimizer))
        check_names({p[1] for p in kept.types if p[0] == "model"}, rows)
        wanted = {p.path: p for p in rows}
        parts = []
        for path, root in roots.items():
            dtype, shape = kept.types[path]
            own = kept.arrays.get(path)
            whole = c.broadcast(np.zeros(shape, BY_NAME[dtype]) if own is None else own, root).numpy()
            if path in wanted:
                parts.append((wanted[path], wanted[path].part(whole)))
        with no_grad():
            take(module, optimizer, parts, kept.groups)
        return True


def survive(train: Callable[[Copies], T], checkpoint: str | Path | None = None) -> T:
    """`train(copies)`, again with fewer ranks each time that some have died. It builds model and optimiser
    for the ranks that there are, calls `copies.restore(model, opt)`, and `copies.keep(model, opt, done)`
    after steps.
    """
    copies = Copies(checkpoint)
    while True:
        try:
            done = train(copies)
            if size() > 1:
                c.barrier()  # until all are done, any of them may have to go back
            return done
        except LostRank as lost:
            _shrink(lost)


def _shrink(lost: LostRank) -> None:
    at: Any = ranks.transport()
    left = at.shrunk()
    ranks.install(left)
    if left.rank == 0:
        what = lost.what.partition("\n")[0]
        print(f"trilobite: {what}: {left.size} of {at.size} go on", file=sys.stderr, flush=True)
