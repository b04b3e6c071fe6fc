"""Keys: two words that stand for an endless stream of bits; and the global generator, which is one.

The generator is a cell like any other state, so a recorded function that draws from it has it as input and
output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base import pytree
from trilobite.base.dtypes import uint32
from trilobite.base.errors import ArgumentError, TraceError
from trilobite.base.locations import user_location
from trilobite.framework.tensor import Tensor, wrap
from trilobite.framework.writing import copied
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.batch import Batched
from trilobite.ir.transforms.cells import Cell, read, write
from trilobite.ir.types import Shape

_BITS, _SPLIT, _FOLD = 0, 1, 2  # streams under one key never overlap
_ZERO = np.zeros(2, np.uint32)


def _words(seed: int) -> np.ndarray[Any, Any]:
    known: Any = seed
    if (
        isinstance(known, bool)
        or not isinstance(known, (int, np.integer))
        or not -(2**63) <= int(seed) < 2**64
    ):
        raise ArgumentError(
            f"a seed {seed!r}",
            where=user_location(),
            expected="an integer of 64 bits",
            remedy="hash other things to an integer first",
        )
    return np.array([int(seed) & 0xFFFFFFFF, (int(seed) >> 32) & 0xFFFFFFFF], np.uint32)


state = Cell(_words(0))
"""The global generator: a key. Every draw splits it."""
state.owner, state.depth = None, 1  # even if a function that is being recorded is the first to import this


draws = [0]
"""How many keys were ever taken from it: who repeats a part of a program elsewhere counts them."""


def manual_seed(seed: int) -> None:
    """Start the global generator anew."""
    write(state, _words(seed))


def get_state() -> Tensor:
    """The global generator's key, to come back to with set_state."""
    return wrap(copied(read(state)))


def set_state(key: Tensor) -> None:
    """Put the global generator where get_state found it."""
    write(state, copied(key_value(key)))


def key(seed: int) -> Tensor:
    """A key for the functions that take one."""
    return wrap(_words(seed))


def key_value(k: Any) -> Value:
    """A key that a user passed, or a fresh one from the global generator for None."""
    if k is None:
        return next_key()
    if hasattr(k, "next_key"):  # a generator
        k = k.next_key()
    value = k._read() if isinstance(k, Tensor) else k
    if not hasattr(value, "dtype") or value.dtype != uint32 or value.shape != (2,):
        found = f"{value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else repr(k)
        raise ArgumentError(
            f"a random key {found}",
            where=user_location(),
            expected="two uint32 words",
            remedy="tb.random.key(seed)",
        )
    return value


def split_value(k: Value, count: int = 2) -> list[Value]:
    words = table["random_bits"](k, _like(_ZERO, k), shape=(count, 2), stream=_SPLIT)
    nd = words.ndim
    out = []
    for i in range(count):
        start, stop = (*[0] * (nd - 2), i, 0), (*words.shape[:-2], i + 1, 2)
        row = table["slice"](words, start=start, stop=stop, step=(1,) * nd)
        out.append(table["reshape"](row, shape=(*words.shape[:-2], 2)))
    return out


def _like(words: np.ndarray[Any, Any], k: Value) -> Value:
    return words if k.shape == (2,) else table["broadcast"](words, shape=k.shape, axes=(len(k.shape) - 1,))


class Keys(tuple[Tensor, ...]):
    """Several keys: they unpack one by one, and `vmap` maps over them as over the rows of one tensor."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(_stacked(self), name)


def _stacked(keys: Keys) -> Tensor:
    rows = [table["reshape"](v, shape=(1, *v.shape)) for v in (k._read() for k in keys)]
    return wrap(rows[0] if len(rows) == 1 else table["concatenate"](*rows, axis=0))


def _rows(stacked: Any) -> Any:
    """Keys again, or what a transform made of them: one key of a batch, say."""
    if not isinstance(stacked, Tensor) or stacked.ndim != 2:
        return stacked
    values = stacked._read()
    ends = [{"start": (i, 0), "stop": (i + 1, 2), "step": (1, 1)} for i in range(values.shape[0])]
    return Keys(wrap(table["reshape"](table["slice"](values, **e), shape=(2,))) for e in ends)


pytree.register(Keys, lambda keys: ([_stacked(keys)], None), lambda _, parts: _rows(next(iter(parts))))


def split(k: Tensor, count: int = 2) -> Keys:
    """Independent keys from one: a tuple of them, which `vmap` takes as a batch."""
    return Keys(wrap(v) for v in split_value(key_value(k), count))


def fold_in(k: Tensor, data: Any) -> Tensor:
    """A key that depends on the key and an integer."""
    d = data._read() if isinstance(data, Tensor) else np.asarray(data)
    if d.dtype.kind not in "iu" or d.shape != ():
        raise ArgumentError(
            f"fold_in of {data!r}", where=user_location(), expected="an integer without dimensions"
        )
    return wrap(fold_value(key_value(k), d))


def fold_value(k: Value, data: Value) -> Value:
    low = table["cast"](data, dtype=uint32)
    counter = table["pad"](table["reshape"](low, shape=(1,)), low=(0,), high=(1,), between=(0,), value=0)
    return table["random_bits"](k, counter, shape=(2,), stream=_FOLD)


def next_key() -> Value:
    """A fresh key from the global generator; under vmap the same or different ones, as the user said."""
    ctx = entry.context()
    rest, fresh = split_value(read(state), 2)
    write(state, rest)
    draws[0] += 1
    for batch in ctx.vmaps:
        if batch.randomness == "error":
            raise TraceError(
                "random numbers inside vmap",
                where=user_location(),
                expected="a decision whether the batch shares them",
                remedy="vmap(..., randomness='different') or 'same'",
            )
        if batch.randomness == "different":
            if ctx.recorder is not None and ctx.recorder.level > batch.level:
                raise TraceError(
                    "different random numbers inside jit inside vmap",
                    where=user_location(),
                    remedy="put vmap inside jit, or pass keys as arguments",
                )
            places = np.arange(batch.size, dtype=np.uint32)
            fresh = fold_value(fresh, Batched(batch, places))
    return fresh


def bits_value(k: Value, shape: Shape) -> Value:
    """Uniform words."""
    return table["random_bits"](k, _like(_ZERO, k), shape=tuple(shape), stream=_BITS)
