"""Fetching: the work of one worker, whether it is this process, a thread or another process.

In: a `Recipe` (once) and a `Task` per batch. Out: the collated batch, or `End` when a stream is over. A batch
depends on its recipe and task alone. What goes wrong is told as a `DataError` that names the item; its cause
is the original error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from trilobite.base.errors import DataError
from trilobite.base.records import dataclass
from trilobite.framework.data.collate import collate as stack_items
from trilobite.framework.data.dataset import IterableDataset, get_batch
from trilobite.framework.data.samplers import Indices
from trilobite.framework.data.streams import ItemStreams
from trilobite.framework.data.transforms.base import apply_to_item


@dataclass(frozen=True)
class Task:
    """Which batch: its epoch, its number in the epoch, and its items (None: whatever the stream brings)."""

    epoch: int
    number: int
    indices: Indices | None


@dataclass(frozen=True)
class End:
    """Instead of a batch: the stream has no more items."""


@dataclass(frozen=True)
class Recipe:
    """All that a worker needs to know about a loader."""

    dataset: Any
    transform: Any
    collate: Callable[[Sequence[Any]], Any]
    seed: int
    repeats: bool
    batch_size: int
    drop_last: bool

    def fetcher(self) -> Callable[[Task], Any]:
        return StreamFetcher(self) if isinstance(self.dataset, IterableDataset) else IndexFetcher(self)


class _Fetcher:
    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.streams = ItemStreams(recipe.seed)

    def finish(self, task: Task, slot: int, index: int, item: Any) -> Any:
        """The item after its transform, with a generator that belongs to it."""
        if self.recipe.transform is None:
            return item
        repeat = (task.number << 32 | slot) + 1 if self.recipe.repeats else 0
        try:
            return apply_to_item(self.recipe.transform, item, self.streams.at(task.epoch, index, repeat))
        except Exception as error:
            _fail(f"item {index} could not be transformed", task, error)

    def collate(self, task: Task, items: Sequence[Any], indices: Sequence[int]) -> Any:
        try:
            return self.recipe.collate(items)
        except Exception as error:
            _fail(f"items {_few(indices)} could not be collated", task, error)


class IndexFetcher(_Fetcher):
    """Batches of items by number; `get_batch` is used where nothing happens to single items."""

    def __call__(self, task: Task) -> Any:
        assert task.indices is not None
        if self.recipe.transform is None and self.recipe.collate is stack_items and task.indices.size:
            batch = self._whole(task, task.indices)
            if batch is not None:
                return batch
        indices = task.indices.tolist()
        items = [self.finish(task, slot, i, self._item(task, i)) for slot, i in enumerate(indices)]
        return self.collate(task, items, indices)

    def _whole(self, task: Task, indices: Indices) -> Any:
        try:
            return get_batch(self.recipe.dataset, indices)
        except Exception as error:
            _fail(f"items {_few(indices.tolist())} could not be loaded", task, error)

    def _item(self, task: Task, index: int) -> Any:
        try:
            return self.recipe.dataset[index]
        except Exception as error:
            _fail(f"item {index} could not be loaded", task, error)


class StreamFetcher(_Fetcher):
    """Batches of a stream. It reads every item and makes batches only of those it is asked for."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self.epoch, self.position = -1, 0
        self.items: Iterator[Any] = iter(())

    def __call__(self, task: Task) -> Any:
        size = self.recipe.batch_size
        start = task.number * size
        try:
            self._seek(task.epoch, start)
            raw = list(itertools.islice(self.items, size))
        except Exception as error:
            _fail(f"the stream failed at or after item {self.position}", task, error)
        self.position += len(raw)
        if not raw or (self.recipe.drop_last and len(raw) < size):
            return End()
        indices = range(start, start + len(raw))
        return self.collate(task, [self.finish(task, s, start + s, x) for s, x in enumerate(raw)], indices)

    def _seek(self, epoch: int, start: int) -> None:
        if epoch != self.epoch or start < self.position:
            self.items, self.epoch, self.position = (
                iter(self.recipe.dataset.stream(epoch, start)),
                epoch,
                start,
            )
        for _ in itertools.islice(self.items, start - self.position):
            self.position += 1


def _few(indices: Sequence[int]) -> str:
    shown = ", ".join(map(str, indices[:8]))
    return f"{shown}, ... ({len(indices)} in all)" if len(indices) > 8 else shown


def _fail(what: str, task: Task, error: Exception) -> NoReturn:
    raise DataError(
        f"{what}: {type(error).__name__}: {error}", where=f"batch {task.number} of epoch {task.epoch}"
    ) from error
