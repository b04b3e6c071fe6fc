"""Which samples each rank takes: the batches of one process, dealt out.

The order of an epoch depends on seed and epoch alone. A batch is the next `batch` samples of it, whatever the
number of ranks, and each member of the group takes its part. What is remembered is the epoch and how many
samples of it all ranks have taken, so a run resumes on another number of ranks where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster.groups import Group, as_group, part_of


class BatchSampler:
    """Lists of indices: this rank's part of every batch of an epoch. Give it to a loader as its
    `batch_sampler`. The last batch is smaller if `drop_last` is off; a part may then be empty.
    """

    def __init__(
        self, samples: int, batch: int, group: Group | None = None, *,
        shuffle: bool = True, seed: int = 0, drop_last: bool = True,
    ) -> None:  # fmt: skip
        self.group = as_group(group)
        if samples < 0 or batch < self.group.size:
            raise ArgumentError(
                f"batches of {batch} out of {samples} samples for {self.group.size} ranks",
                where=user_location(),
                expected=f"batches of at least {self.group.size}: all ranks together take one",
            )
        self.samples, self.batch, self.shuffle, self.seed, self.drop_last = (
            samples,
            batch,
            shuffle,
            seed,
            drop_last,
        )
        self.epoch, self.taken = 0, 0

    def order(self) -> np.ndarray[Any, Any]:
        """All samples in the order of this epoch."""
        if not self.shuffle:
            return np.arange(self.samples)
        return np.random.Generator(np.random.Philox([self.seed, self.epoch])).permutation(self.samples)

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return self.samples // self.batch if self.drop_last else -(-self.samples // self.batch)

    def __iter__(self) -> Iterator[list[int]]:
        """What is left of this epoch; at its end the next one begins."""
        order = self.order()
        end = len(self) * self.batch if self.drop_last else self.samples
        while self.taken < end:
            whole = order[self.taken : min(self.taken + self.batch, end)]
            begin, stop = part_of(len(whole), self.group)
            self.taken += len(whole)  # before: who saves while this batch is trained has counted it
            yield whole[begin:stop].tolist()
        self.epoch, self.taken = self.epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "taken": self.taken, "seed": self.seed, "samples": self.samples}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on where another run stopped, on however many ranks."""
        if (state["samples"], state["seed"]) != (self.samples, self.seed):
            raise ArgumentError(
                f"the place in {state['samples']} samples with the seed {state['seed']}",
                where=user_location(),
                expected=f"{self.samples} samples with the seed {self.seed}: another order has other places",
            )
        self.epoch, self.taken = int(state["epoch"]), int(state["taken"])
