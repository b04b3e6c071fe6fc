"""Samplers: in which order, and in which batches, an epoch visits a dataset.

In: a length (or weights, or lengths) and a seed. Out: `order(epoch)`, an array of indices, or
`batches(epoch)`, a sequence of such arrays. Both are pure functions of the sampler's arguments and the epoch:
that is what makes a loader resumable. `signature()` describes a sampler in JSON's types, so that a saved
position is not used with another order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.data import streams

Indices = npt.NDArray[np.int64]


class Signed:
    """Can describe itself, so that two samplers with equal signatures give equal epochs."""

    def signature(self) -> dict[str, Any]:
        """The arguments: numbers and words, samplers by their own signatures, arrays by a digest."""
        told: dict[str, Any] = {"kind": type(self).__name__}
        for name, value in vars(self).items():
            if isinstance(value, Signed):
                told[name.lstrip("_")] = value.signature()
            elif isinstance(value, bool | int | float | str):
                told[name.lstrip("_")] = value
            elif isinstance(value, np.ndarray):
                told[name.lstrip("_")] = _digest(value)
        return told


def _digest(array: npt.NDArray[Any]) -> str:
    import hashlib

    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


class Sampler(Signed, ABC):
    """The indices of one epoch, in order. `repeats` says whether an index may occur twice in an epoch."""

    repeats: bool = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def order(self, epoch: int) -> Indices: ...


def count(name: str, value: Any, least: int = 0) -> int:
    """A number of things as a plain integer."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ArgumentError(
            f"{name} is {value!r}",
            where=user_location(),
            expected=f"an integer >= {least}",
            remedy="a data set's length is len(data)" if name.endswith("length") else "pass a whole number",
        )
    return int(value)


class SequentialSampler(Sampler):
    """0, 1, 2, ... in every epoch."""

    def __init__(self, length: int) -> None:
        self._length = count("SequentialSampler: length", length)

    def __len__(self) -> int:
        return self._length

    def order(self, epoch: int) -> Indices:
        return np.arange(self._length, dtype=np.int64)


class RandomSampler(Sampler):
    """A permutation of its own for every epoch, known from the seed and the epoch alone."""

    def __init__(self, length: int, seed: int = 0) -> None:
        self._length = count("RandomSampler: length", length)
        self._seed = streams.check_seed(seed)

    def __len__(self) -> int:
        return self._length

    def order(self, epoch: int) -> Indices:
        return streams.permutation(self._seed, streams.ORDER, epoch, self._length)


class WeightedSampler(Sampler):
    """Draws indices with probability in proportion to their weights; without replacement if asked."""

    def __init__(
        self, weights: Any, samples: int | None = None, *, replacement: bool = True, seed: int = 0
    ) -> None:
        self._weights = np.asarray(weights, np.float64)
        self._samples = count("WeightedSampler: samples", self._weights.size if samples is None else samples)
        self._replacement = self.repeats = bool(replacement)
        self._seed = streams.check_seed(seed)
        self._check()

    def _check(self) -> None:
        w = self._weights
        if w.ndim != 1:
            raise ShapeError(f"WeightedSampler: weights have shape {w.shape}", expected="one weight per item")
        if not np.all(np.isfinite(w)) or np.any(w < 0):
            raise ArgumentError(
                "WeightedSampler: a weight is negative, infinite or NaN",
                expected="finite, >= 0",
                where=f"item {int(np.argmin(np.isfinite(w) & (w >= 0)))}",
            )
        possible = int(np.count_nonzero(w))
        needed = min(self._samples, 1) if self._replacement else self._samples
        if possible < needed:
            raise ArgumentError(
                f"WeightedSampler: {self._samples} samples, but {possible} items have weight > 0",
                expected=f"at least {needed}",
                remedy="replacement=True, or fewer samples",
            )

    def __len__(self) -> int:
        return self._samples

    def order(self, epoch: int) -> Indices:
        if self._replacement:
            return self._with_replacement(streams.uniforms(self._seed, streams.ORDER, epoch, self._samples))
        return self._without_replacement(
            streams.uniforms(self._seed, streams.ORDER, epoch, self._weights.size)
        )

    def _with_replacement(self, u: npt.NDArray[np.float64]) -> Indices:
        possible = np.flatnonzero(self._weights)
        if not possible.size:
            return np.empty(0, np.int64)
        bounds = np.cumsum(self._weights[possible] / self._weights.max())
        drawn = np.minimum(np.searchsorted(bounds, u * bounds[-1], side="right"), possible.size - 1)
        return np.asarray(possible[drawn], np.int64)

    def _without_replacement(self, u: npt.NDArray[np.float64]) -> Indices:
        # Efraimidis and Spirakis: exponential waiting times at rate w; who comes first is the sample.
        possible = np.flatnonzero(self._weights)
        with np.errstate(over="ignore", divide="ignore"):  # weights 600 decades apart
            times = -np.log1p(-u[possible]) / (self._weights[possible] / self._weights.max(initial=0.0))
        return possible[np.argsort(times, kind="stable")[: self._samples]].astype(np.int64)


class DistributedSampler(Sampler):
    """The share of one process: every `world`-th index of another sampler, starting at `rank`.

    All ranks get equally many. If the length does not divide, the first indices are visited again by the last
    ranks (`pad=True`), or the last indices are left out (`pad=False`).
    """

    def __init__(self, sampler: Sampler, rank: int, world: int, *, pad: bool = True) -> None:
        if not isinstance(sampler, Sampler):
            raise ArgumentError(
                f"DistributedSampler shares out indices, got {type(sampler).__name__}",
                expected="a Sampler",
                remedy="BatchSampler(DistributedSampler(...), batch_size)",
            )
        self._sampler, self._pad = sampler, bool(pad)
        self._world = count("DistributedSampler: world", world, 1)
        self._rank = count("DistributedSampler: rank", rank)
        self.repeats = sampler.repeats or self._pad
        if self._rank >= self._world:
            raise ArgumentError(
                f"DistributedSampler: rank {rank} of {world} processes", expected=f"0 <= rank < {world}"
            )

    def __len__(self) -> int:
        n = len(self._sampler)
        return -(-n // self._world) if self._pad else n // self._world

    def order(self, epoch: int) -> Indices:
        order, total = self._sampler.order(epoch), len(self) * self._world
        return np.resize(order, total)[self._rank :: self._world].copy() if total else order[:0]


class Chunks(Sequence[Indices]):
    """An order cut into batches of equal size; the last one may be short. Slices are made when asked for."""

    def __init__(self, order: Indices, size: int, drop_last: bool) -> None:
        self._order, self._size = order, size
        self._count = order.size // size if drop_last else -(-order.size // size)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, i: int) -> Indices: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Indices]: ...
    def __getitem__(self, i: int | slice) -> Indices | Sequence[Indices]:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(self._count))]
        if not 0 <= i < self._count:
            raise IndexError(i)
        return self._order[i * self._size : (i + 1) * self._size]


class BatchSampler(Signed):
    """Batches of another sampler's order. Subclasses may build them in any other way from the epoch alone."""

    def __init__(self, sampler: Sampler, batch_size: int, *, drop_last: bool = False) -> None:
        self._sampler, self._drop_last = sampler, bool(drop_last)
        self._batch_size = count("batch_size", batch_size, 1)
        self.repeats = sampler.repeats

    def __len__(self) -> int:
        """How many batches an epoch has."""
        n, size = len(self._sampler), self._batch_size
        return n // size if self._drop_last else -(-n // size)

    def batches(self, epoch: int) -> Sequence[Indices]:
        return Chunks(self._sampler.order(epoch), self._batch_size, self._drop_last)


class BucketSampler(BatchSampler):
    """Batches of items of similar length, so that little is padded, in an order that is still random.

    An epoch is shuffled, sorted by length within windows of `window` batches, cut into batches, and the
    batches are shuffled. A larger window pads less and mixes less.
    """

    def __init__(
        self, lengths: Any, batch_size: int, *, window: int = 50, drop_last: bool = False, seed: int = 0
    ) -> None:
        self._lengths = np.asarray(lengths)
        if self._lengths.ndim != 1 or self._lengths.dtype.kind not in "iuf":
            raise ShapeError(
                f"BucketSampler: lengths have shape {self._lengths.shape} and dtype {self._lengths.dtype}",
                expected="one number per item",
            )
        self._seed, self._window = streams.check_seed(seed), count("BucketSampler: window", window, 1)
        super().__init__(RandomSampler(self._lengths.size, seed), batch_size, drop_last=drop_last)

    def batches(self, epoch: int) -> Sequence[Indices]:
        order = self._sampler.order(epoch)
        span = self._window * self._batch_size
        for start in range(0, order.size, span):
            part = order[start : start + span]
            order[start : start + span] = part[np.argsort(self._lengths[part], kind="stable")]
        cut = Chunks(order, self._batch_size, self._drop_last)
        return [cut[i] for i in streams.permutation(self._seed, streams.BATCH, epoch, len(cut))]


explain_room(globals())
