"""`tb.Generator`: a stream of random numbers of its own, as PyTorch's functions take it: `generator=g`.

A generator holds a key in a cell; every draw splits it, as draws split the global one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from trilobite.framework.devices import CPU, check_device
from trilobite.framework.random.keys import _words, get_state, manual_seed, set_state, split_value, state
from trilobite.framework.tensor import Tensor, wrap
from trilobite.framework.writing import copied
from trilobite.ir.transforms.cells import Cell, read, write

_first: list[int] = [0]


class Generator:
    """A stream of random numbers that others do not draw from."""

    def __init__(self, device: Any = "cpu") -> None:
        check_device(device)
        self.device = CPU
        self._seed, self._cell = 0, Cell(_words(0))

    def manual_seed(self, seed: int) -> Generator:
        """Start anew."""
        self._seed = int(seed)
        write(self._cell, _words(seed))
        return self

    def seed(self) -> int:
        """Start at a place of the clock's choice."""
        chosen = time.time_ns() & (2**63 - 1)
        self.manual_seed(chosen)
        return chosen

    def initial_seed(self) -> int:
        return self._seed

    def get_state(self) -> Tensor:
        return wrap(copied(read(self._cell)))

    def set_state(self, new_state: Tensor) -> None:
        write(self._cell, copied(new_state._read()))

    def next_key(self) -> Tensor:
        """A fresh key."""
        rest, fresh = split_value(read(self._cell), 2)
        write(self._cell, rest)
        return wrap(fresh)


class _Global(Generator):
    """The generator that is drawn from where none is named."""

    def __init__(self) -> None:
        self.device, self._seed, self._cell = CPU, 0, state

    def manual_seed(self, seed: int) -> Generator:
        _first[0] = int(seed)
        manual_seed(seed)
        return self

    def initial_seed(self) -> int:
        return _first[0]


default_generator = _Global()


def key_of(generator: Generator | None, key: Tensor | None) -> Tensor | None:
    """The key that a draw uses: the one given, or the next of a generator; None for the global one."""
    return key if generator is None else generator.next_key()


def get_rng_state() -> Tensor:
    """Where the global generator is."""
    return get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Put the global generator where get_rng_state found it."""
    set_state(new_state)


def initial_seed() -> int:
    return default_generator.initial_seed()


def seed() -> int:
    """Start the global generator at a place of the clock's choice."""
    chosen = int(np.random.default_rng().integers(2**63))
    default_generator.manual_seed(chosen)
    return chosen


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **settings: Any) -> Iterator[None]:
    """Draws inside leave the global generator where it was."""
    before = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(before)
