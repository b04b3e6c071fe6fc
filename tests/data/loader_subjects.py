"""Datasets, transforms and samplers that tests send to worker processes."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from trilobite.framework.data import ArrayDataset, IterableDataset
from trilobite.framework.data.transforms import Transform


class Squares:
    """Item i is (an array that depends on i, i)."""

    def __init__(self, n: int, shape: tuple[int, ...] = (3, 5)) -> None:
        self.n, self.shape = n, shape

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        if not 0 <= i < self.n:
            raise IndexError(i)
        return np.random.default_rng(i).normal(size=self.shape).astype(np.float32), i


class Noise(Transform):
    """Adds what the item's generator gives, so that a wrong generator shows."""

    def __call__(self, x: Any, rng: np.random.Generator | None = None) -> Any:
        assert rng is not None
        return x + rng.normal(size=np.shape(x)).astype(np.float32)


class Slow(Squares):
    """Items take unequal time: order must not depend on it."""

    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        time.sleep(0.02 if i % 7 == 0 else 0.0)
        return super().__getitem__(i)


class Stuck(Squares):
    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        time.sleep(600)
        return super().__getitem__(i)


class Broken(Squares):
    """Fails at one index."""

    def __init__(self, n: int, bad: int) -> None:
        super().__init__(n)
        self.bad = bad

    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        if i == self.bad:
            return self.read_the_disk(i)
        return super().__getitem__(i)

    def read_the_disk(self, i: int) -> tuple[np.ndarray, int]:
        raise KeyError(f"sector of {i}")


class Killed(Broken):
    def read_the_disk(self, i: int) -> tuple[np.ndarray, int]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


class Exits(Broken):
    def read_the_disk(self, i: int) -> tuple[np.ndarray, int]:
        raise SystemExit(3)


class Unpicklable(Broken):
    """The batch with the bad index cannot be sent back."""

    def read_the_disk(self, i: int) -> Any:
        return (lambda: i), i


class RefusesToLoad(Squares):
    def __setstate__(self, state: Any) -> None:
        raise RuntimeError("not in this process")


class Pids(Squares):
    def __getitem__(self, i: int) -> int:
        return os.getpid()


class SlowPids(Squares):
    def __getitem__(self, i: int) -> int:
        if i:
            time.sleep(600)
        return os.getpid()


class WritesToItself(ArrayDataset):
    """Caches in its own array: workers must not see each other's writes, nor the parent any."""

    def get_batch(self, indices: Any) -> Any:
        self.arrays[0][indices] += 1
        return self.arrays[0][indices]


class Countdown(IterableDataset):
    """A stream of n pairs; epochs differ."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Any:
        return self.stream(0, 0)

    def stream(self, epoch: int, start: int) -> Any:
        return ((np.float32(1000 * epoch + i), i) for i in range(start, self.n))


class PlainStream(IterableDataset):
    """Only `__iter__`: resuming reads and drops."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Any:
        return iter(np.arange(self.n) ** 2)


class FailingStream(PlainStream):
    def __iter__(self) -> Any:
        for i in range(self.n):
            if i == 7:
                raise OSError("the socket is gone")
            yield i


@dataclass
class Sample:
    image: Any
    name: str


class Nested(Squares):
    """Items of many kinds at once: dict, dataclass, strings, bfloat16, dates, booleans, None."""

    def __getitem__(self, i: int) -> Any:
        return {
            "sample": Sample(np.full((2, 3), i, ml_dtypes.bfloat16), f"name {i}"),
            "when": np.datetime64("2020-01-01") + i,
            "flag": i % 2 == 0,
            "nothing": None,
            "big": np.full((100, 100), i, np.float64),
        }


def list_of_items(items: Any) -> Any:
    return list(items)


def explode(items: Any) -> Any:
    raise ZeroDivisionError("in collate")
