"""`tb.utils.data`: datasets and the loader as PyTorch calls them, over `tb.data`. Batches are tensors."""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.rooms import inner_room
from trilobite.base.wrong_use import explain_room
from trilobite.framework.ops.creation import tensor
from trilobite.framework.ops.registry import operators
from trilobite.framework.pytorch.utils.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from trilobite.framework.random.calls import randperm
from trilobite.framework.random.generator import Generator
from trilobite.framework.tensor import Tensor

T = TypeVar("T")
__path__: list[str] = []  # `import trilobite.utils.data.sampler` looks for rooms under it
__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler",
    "TensorDataset", "WeightedRandomSampler", "default_collate", "default_convert", "get_worker_info",
    "random_split",
]  # fmt: skip


class Dataset(Generic[T]):
    """Items by number: give it `__getitem__` and `__len__`."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """A stream of items: give it `__iter__`."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class TensorDataset(Dataset[Any]):
    """Rows of several tensors of one length."""

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tuple(t if isinstance(t, Tensor) else tensor(t) for t in tensors)
        if len({len(t) for t in self.tensors}) > 1:
            raise ArgumentError(
                f"TensorDataset of lengths {[len(t) for t in self.tensors]}",
                where=user_location(),
                expected="one length",
            )

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset[Any]):
    """Some items of a dataset."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset[Any]):
    """Datasets one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        self.cumulative_sizes = np.cumsum([len(d) for d in self.datasets]).tolist()

    def __len__(self) -> int:
        return int(self.cumulative_sizes[-1])

    def __getitem__(self, index: int) -> Any:
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"index {index} of {len(self)} items")
        which = int(np.searchsorted(self.cumulative_sizes, at, side="right"))
        return self.datasets[which][at - (self.cumulative_sizes[which - 1] if which else 0)]


class StackDataset(Dataset[Any]):
    """Items of several datasets side by side: tuples, or dictionaries by name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.datasets: Any = kwargs or args
        parts = list(kwargs.values() if kwargs else args)
        if bool(args) == bool(kwargs) or len({len(d) for d in parts}) != 1:
            raise ArgumentError(
                f"StackDataset of lengths {[len(d) for d in parts]}",
                where=user_location(),
                expected="datasets of one length, all by place or all by name",
            )
        self._length = len(parts[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: d[index] for name, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __len__(self) -> int:
        return self._length


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        for d in self.datasets:
            yield from d

    def __len__(self) -> int:
        return sum(len(d) for d in self.datasets)


def random_split(dataset: Any, lengths: Sequence[Any], generator: Generator | None = None) -> list[Subset]:
    """Parts of a dataset, by numbers of items or by fractions, drawn at random."""
    n = len(dataset)
    sizes = list(lengths)
    if math.isclose(sum(sizes), 1.0) and any(isinstance(v, float) for v in sizes) and min(sizes) >= 0:
        sizes = [int(n * f) for f in sizes]
        for i in range(n - sum(sizes)):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != n:
        raise ArgumentError(
            f"random_split of {n} items into {list(lengths)}",
            where=user_location(),
            expected=f"lengths that add up to {n}, or fractions that add up to 1",
        )
    order = randperm(n, generator=generator).tolist()
    ends = np.cumsum(sizes).tolist()
    return [Subset(dataset, order[e - s : e]) for s, e in zip(sizes, ends, strict=True)]


# -- batches -----------------------------------------------------------------------------------------------


def default_convert(data: Any) -> Any:
    """Arrays as tensors, inside containers too."""
    if isinstance(data, (np.ndarray, np.generic)):
        return operators["asarray"].public(np.asarray(data))
    if isinstance(data, Mapping):
        return {k: default_convert(v) for k, v in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(v) for v in data))
    if isinstance(data, (tuple, list)):
        return [default_convert(v) for v in data]
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """Items stacked into tensors, field by field; strings stay lists."""
    first = batch[0]
    if isinstance(first, Tensor):
        return operators["stack"].public(list(batch))
    if isinstance(first, (np.ndarray, np.generic)):
        return operators["asarray"].public(np.stack([np.asarray(b) for b in batch]))
    if isinstance(first, (bool, int)):
        return tensor(list(batch))
    if isinstance(first, float):
        return tensor(list(batch), dtype="float64")
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return {k: default_collate([b[k] for b in batch]) for k in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(list(v)) for v in zip(*batch, strict=True)))
    if isinstance(first, (tuple, list)):
        return [default_collate(list(v)) for v in zip(*batch, strict=True)]
    raise ArgumentError(
        f"a batch of {type(first).__name__}",
        where=user_location(),
        expected="tensors, arrays, numbers, strings, or containers of these",
        remedy="pass collate_fn=",
    )


class DataLoader(Generic[T]):
    """Batches of a dataset, as tensors. Workers are threads or processes of `tb.data.Loader`; items that its
    dataset makes of tensors are collated in this process.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.dataset, self.num_workers, self.batch_size = dataset, num_workers, batch_size
        self.drop_last, self.pin_memory, self.timeout = drop_last, pin_memory, timeout
        self.generator, self.worker_init_fn, self.prefetch_factor = generator, worker_init_fn, prefetch_factor
        self.collate_fn = collate_fn or (default_convert if batch_size is None else default_collate)
        self.streamed = not hasattr(dataset, "__getitem__") or isinstance(dataset, IterableDataset)
        self._check(shuffle, sampler, batch_sampler)
        if sampler is None and not self.streamed:
            order = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
            sampler = order
        self.sampler = sampler
        if batch_sampler is None and batch_size is not None and not self.streamed:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler

    def _check(self, shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
        if not hasattr(self.dataset, "__getitem__") and not hasattr(self.dataset, "__iter__"):
            raise ArgumentError(
                f"DataLoader: the dataset is {self.dataset!r}",
                where=user_location(),
                expected="items by number (`__getitem__` and `__len__`), or a stream (`__iter__`)",
            )
        wrong = None
        if self.streamed and (shuffle or sampler is not None or batch_sampler is not None):
            wrong = "shuffle, sampler and batch_sampler of a stream, which has an order of its own"
        elif sampler is not None and shuffle:
            wrong = "both shuffle and sampler"
        elif batch_sampler is not None and (self.batch_size != 1 or shuffle or sampler or self.drop_last):
            wrong = "batch_sampler beside batch_size, shuffle, sampler or drop_last"
        if wrong is not None:
            raise ArgumentError(f"DataLoader: {wrong}", where=user_location(), expected="one of them")

    def __len__(self) -> int:
        if self.streamed:
            n = len(self.dataset)
            size = self.batch_size or 1
            return n // size if self.drop_last else -(-n // size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers <= 0 or self.streamed:
            return self._alone()
        return self._with_workers()

    def _alone(self) -> Iterator[Any]:
        if self.streamed:
            yield from self._of_stream()
        elif self.batch_sampler is None:
            for i in self.sampler:
                yield self.collate_fn(self.dataset[i])
        else:
            for places in self.batch_sampler:
                yield self.collate_fn(self._items(places))

    def _items(self, places: Sequence[int]) -> Any:
        if hasattr(self.dataset, "__getitems__"):
            return self.dataset.__getitems__(places)
        return [self.dataset[i] for i in places]

    def _of_stream(self) -> Iterator[Any]:
        if self.batch_size is None:
            for item in self.dataset:
                yield self.collate_fn(item)
            return
        batch: list[Any] = []
        for item in self.dataset:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.collate_fn(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate_fn(batch)

    def _with_workers(self) -> Iterator[Any]:
        """Batches are fetched ahead by threads: tensors release Python's lock where they compute."""
        from concurrent.futures import ThreadPoolExecutor

        places = iter(self.sampler if self.batch_sampler is None else self.batch_sampler)
        ahead = self.num_workers * (self.prefetch_factor or 2)

        def fetch(at: Any) -> Any:
            return self.collate_fn(self.dataset[at] if self.batch_sampler is None else self._items(at))

        numbers = itertools.count()

        def begin() -> None:
            if self.worker_init_fn is not None:
                self.worker_init_fn(next(numbers))

        with ThreadPoolExecutor(self.num_workers, initializer=begin) as crew:
            waiting = [crew.submit(fetch, at) for at in itertools.islice(places, ahead)]
            while waiting:
                done = waiting.pop(0)
                yield done.result(self.timeout or None)
                for at in places:
                    waiting.append(crew.submit(fetch, at))
                    break


def get_worker_info() -> None:
    """None: workers are threads of one process, so a dataset is not copied."""
    return None


class _BaseDataLoaderIter:
    """The class of PyTorch's running loaders: loaders here are iterated by generators."""


_SingleProcessDataLoaderIter = _MultiProcessingDataLoaderIter = _BaseDataLoaderIter
np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = "a batch of {}: tensors, arrays, numbers, strings, dicts or lists"


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Tensors of one shape, stacked."""
    return operators["stack"].public(list(batch))


def pin_memory(data: Any, device: Any = None) -> Any:
    """The data: no device reads memory that is pinned."""
    return data


default_collate_fn_map = {Tensor: collate_tensor_fn}


def __getattr__(name: str) -> Any:
    if name == "DistributedSampler":
        from trilobite.framework.pytorch.utils.sharding import DistributedSampler

        return DistributedSampler
    if name == "collate":  # of `_utils`, whose room this is, too
        return sys.modules[__name__]
    return inner_room("utils.data", name)


explain_room(globals())
