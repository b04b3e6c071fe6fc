"""Samplers for several processes: each takes its share of the items."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.pytorch import distributed
from trilobite.framework.pytorch.utils.samplers import Sampler
from trilobite.framework.random.calls import randperm
from trilobite.framework.random.generator import Generator


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th item from the rank's own on; items at the begin come again, or the last are
    left out, so that all have as many. With `shuffle`, `set_epoch` gives each epoch its order, the same on
    all ranks.
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        alone = not distributed.is_initialized()
        self.num_replicas = (
            (1 if alone else distributed.get_world_size()) if num_replicas is None else num_replicas
        )
        self.rank = (0 if alone else distributed.get_rank()) if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ArgumentError(
                f"DistributedSampler for rank {self.rank} of {self.num_replicas}",
                where=user_location(),
                expected="0 <= rank < num_replicas",
            )
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.epoch = 0
        n, replicas = len(dataset), self.num_replicas
        uneven = drop_last and n % replicas
        self.num_samples = math.ceil((n - replicas) / replicas) if uneven else math.ceil(n / replicas)
        self.total_size = self.num_samples * replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        order = list(range(n))
        if self.shuffle:
            drawn = Generator()
            drawn.manual_seed(self.seed + self.epoch)
            order = randperm(n, generator=drawn).tolist()
        missing = self.total_size - n
        if missing > 0 and n:
            order += (order * math.ceil(missing / n))[:missing]
        return iter(order[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """The order of another epoch."""
        self.epoch = epoch
