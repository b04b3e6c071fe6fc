"""The loader: batches of a dataset, epoch after epoch, from any number of workers, resumable at any batch.

In: a dataset and how to visit it. Out: collated batches (NumPy arrays, or what `to` makes of them). The
sequence of batches is a pure function of (dataset, transform, sampler, seed, epoch): it does not depend on
workers, prefetching or timing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trilobite.base import pytree
from trilobite.base.errors import ArgumentError, StateError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.data import streams
from trilobite.framework.data.collate import collate as stack_items
from trilobite.framework.data.dataset import Dataset, IterableDataset
from trilobite.framework.data.fetch import End, Recipe, Task
from trilobite.framework.data.samplers import BatchSampler, RandomSampler, Sampler, SequentialSampler, count
from trilobite.framework.data.workers import KINDS, Crew

VERSION = 1


class Loader:
    """Iterating over it is one epoch: `for batch in loader`. Every iteration starts the next epoch.

    - `sampler`: a `Sampler` (order), or a `BatchSampler` (order and batches); `shuffle=True` stands for a
    random one. - `transform`: see `transforms.apply_to_item`; each item has a generator of its own, by (seed,
    epoch, index). - `workers`: 0 works in this process; `worker_kind` is "process" or "thread"; each has
    `prefetch` batches under way. - `to`: applied to every array of a batch, in this process: how a framework
    asks for its own tensors. - `keep_workers`: processes live on between epochs, and do not see later changes
    of the dataset. - `timeout`: seconds after which a batch that has not come is an error.
    """

    def __init__(
        self,
        dataset: Dataset | IterableDataset,
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        seed: int = 0,
        workers: int = 0,
        prefetch: int = 2,
        drop_last: bool = False,
        collate: Callable[[Sequence[Any]], Any] = stack_items,
        sampler: Sampler | BatchSampler | None = None,
        transform: Any = None,
        to: Callable[[npt.NDArray[Any]], Any] | None = None,
        worker_kind: str = "process",
        keep_workers: bool = False,
        timeout: float | None = None,
    ) -> None:
        self.dataset, self.transform, self.to, self._collate = dataset, transform, to, collate
        self.batch_size, self.drop_last = count("Loader: batch_size", batch_size, 1), bool(drop_last)
        self.seed = streams.check_seed(seed)
        self.workers, self.prefetch = (
            count("Loader: workers", workers),
            count("Loader: prefetch", prefetch, 1),
        )
        if worker_kind not in KINDS:
            raise ArgumentError(f"Loader: worker_kind {worker_kind!r}", expected=f"one of {', '.join(KINDS)}")
        self.worker_kind, self.keep_workers, self.timeout = worker_kind, bool(keep_workers), timeout
        self._shuffle, self._given = bool(shuffle), sampler
        self._sampler = self._choose_sampler()
        self._next = self._at = (0, 0)  # where the next iteration starts; what has been delivered
        self._current: object = None  # the iteration that `_at` follows
        self._idle: Crew | None = None

    def _choose_sampler(self) -> BatchSampler | None:
        given = self._given
        if isinstance(self.dataset, IterableDataset):
            if self._shuffle or given is not None:
                raise ArgumentError(
                    "Loader: a stream has an order of its own",
                    expected="neither shuffle nor sampler for an IterableDataset",
                    remedy="shuffle in its stream(epoch, start)",
                )
            return None
        if given is None:
            n = len(self.dataset)
            order: Sampler = RandomSampler(n, self.seed) if self._shuffle else SequentialSampler(n)
            return BatchSampler(order, self.batch_size, drop_last=self.drop_last)
        if self._shuffle:
            raise ArgumentError("Loader: both shuffle and sampler are given", expected="one of them")
        if isinstance(given, BatchSampler):
            if self.batch_size != 1 or self.drop_last:
                raise ArgumentError(
                    "Loader: the sampler makes its own batches",
                    expected="neither batch_size nor drop_last beside it",
                )
            return given
        if not isinstance(given, Sampler):
            raise ArgumentError(
                f"Loader: sampler is a {type(given).__name__}",
                expected="a Sampler with order(epoch), or a BatchSampler with batches(epoch)",
                remedy="for a fixed list of indices, load a Subset",
            )
        return BatchSampler(given, self.batch_size, drop_last=self.drop_last)

    def __len__(self) -> int:
        """Batches in an epoch."""
        if self._sampler is not None:
            return len(self._sampler)
        if not hasattr(self.dataset, "__len__"):
            raise TypeError(
                "this loader reads a stream without a length; give the dataset a __len__ if it has one"
            )
        n = len(self.dataset)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        epoch, first = self._next
        self._next, self._at = (epoch + 1, 0), (epoch, first)
        self._current = token = object()
        return self._deliver(epoch, first, token)

    def _deliver(self, epoch: int, first: int, token: object) -> Iterator[Any]:
        for number, batch in self._batches(epoch, first):
            ready = batch if self.to is None else self._convert(batch)
            if self._current is token:
                self._at = (epoch, number + 1)
            yield ready
        if self._current is token:
            self._at = self._next

    def _convert(self, batch: Any) -> Any:
        to = self.to
        assert to is not None
        return pytree.map(lambda leaf: to(leaf) if isinstance(leaf, np.ndarray) else leaf, batch)

    def _tasks(self, epoch: int, first: int) -> Iterator[Task]:
        if self._sampler is None:
            return (Task(epoch, number, None) for number in itertools.count(first))
        batches = self._sampler.batches(epoch)
        return (
            Task(epoch, number, np.asarray(batches[number], np.int64))
            for number in range(first, len(batches))
        )

    def _batches(self, epoch: int, first: int) -> Iterator[tuple[int, Any]]:
        """(number, batch) in order, with `prefetch` batches per worker under way."""
        tasks = self._tasks(epoch, first)
        crew, self._idle = (self._start() if self._idle is None else self._idle), None
        depth, healthy = max(1, self.workers * self.prefetch), False
        try:
            crew.drain()
            for task in itertools.islice(tasks, depth):
                crew.send(task)
            for number in itertools.count(first):
                if not crew.busy or isinstance(batch := crew.receive(), End):
                    break
                for task in itertools.islice(tasks, 1):
                    crew.send(task)
                yield number, batch
            healthy = True
        except GeneratorExit:  # the caller has broken off; the workers are well
            healthy = True
            raise
        finally:
            self._release(crew, healthy)

    def _start(self) -> Crew:
        repeats = self._sampler is not None and self._sampler.repeats
        recipe = Recipe(
            self.dataset, self.transform, self._collate, self.seed, repeats, self.batch_size, self.drop_last
        )
        return Crew(recipe, self.workers, self.worker_kind, self.timeout)

    def _release(self, crew: Crew, healthy: bool) -> None:
        if self.keep_workers and healthy and self._idle is None:
            self._idle = crew
        else:
            crew.close()

    def close(self) -> None:
        """End kept workers now; otherwise they end with the loader."""
        crew, self._idle = self._idle, None
        if crew is not None:
            crew.close()

    def state_dict(self) -> dict[str, Any]:
        """Where the newest iteration stands, in JSON's types; only delivered batches count."""
        epoch, batch = self._at
        return {
            "version": VERSION,
            "epoch": epoch,
            "batch": batch,
            "seed": self.seed,
            "order": self._signature(),
        }

    def _signature(self) -> dict[str, Any]:
        if self._sampler is not None:
            return self._sampler.signature()
        return {"kind": "stream", "batch_size": self.batch_size, "drop_last": self.drop_last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next iteration deliver what was still to come. The seed is taken over."""
        epoch, batch, seed = (_number(state, name) for name in ("epoch", "batch", "seed"))
        if state.get("version") != VERSION:
            raise StateError(
                f"loader state has version {state.get('version')!r}", expected=f"version {VERSION}"
            )
        before, self.seed = self.seed, seed
        sampler, self._sampler = self._sampler, self._choose_sampler()
        try:
            self._check_order(state.get("order"), batch)
        except StateError:
            self.seed, self._sampler = before, sampler
            raise
        self.close()  # kept workers know the old seed
        self._next = self._at = (epoch, batch)
        self._current = None

    def _check_order(self, saved: Any, batch: int) -> None:
        mine = self._signature()
        if saved != mine:
            raise StateError(
                "loader state was saved with another order or other batches",
                where=f"saved: {saved}",
                expected=f"{mine}",
                remedy="build the loader with the same dataset, batch_size, drop_last and sampler",
            )
        if self._sampler is not None and batch > len(self._sampler):
            raise StateError(f"loader state is at batch {batch}", expected=f"0 to {len(self._sampler)}")


def _number(state: Any, name: str) -> int:
    value = state.get(name) if isinstance(state, dict) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise StateError(
            f"loader state has {name} = {value!r}",
            where=user_location(),
            expected="what Loader.state_dict() returned",
            remedy="save loader.state_dict() beside the model, and load that",
        )
    return value


explain_room(globals())
