"""What flows between nodes: arrays that are known while a graph is recorded, and tensors that are not.

A `Known` is a constant of the model or the result of arithmetic on shapes. Large ones enter compiled graphs
as cells, so that weights are inputs and not part of the program; small ones as constants, which passes can
fold.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from trilobite.base import dtypes
from trilobite.base.forks import renewed_in_child
from trilobite.framework.tensor import Tensor, wrap
from trilobite.inference.program.symbolic import has_symbols, tensor_of
from trilobite.ir.transforms import bind as entry

Array = np.ndarray[Any, Any]
_SMALL = 256  # bytes: scalars, epsilons, axes
_VECTOR = 1 << 16  # bytes of scales, zero points and biases of a quantised network: passes compute with them


class Known:
    """An array that nobody writes, with its tensor, which is made once and outside of all recordings."""

    __slots__ = ("_lock", "_tensor", "array", "limit", "real")

    def __init__(self, array: Array, real: Any = None) -> None:
        """Kernels want arrays that lie row by row: else every run would copy it. Sizes that a run decides are
        whole numbers, unless a model has made them of the `real` dtype.
        """
        self.real = real
        plain = array.dtype.hasobject or (array.flags.c_contiguous and array.flags.aligned)
        self.array = array if plain else np.require(array, requirements=("C", "A"))
        self._lock = renewed_in_child(threading.Lock())
        self._tensor: Tensor | None = None
        self.limit = _SMALL  # bytes up to which it enters graphs as a constant

    def in_quantised(self) -> Known:
        """As part of a quantised network: vectors are constants, and weights on a grid never are."""
        if self.array.ndim == 1:
            self.limit = _VECTOR
        elif self.array.ndim > 1 and self.array.dtype.itemsize == 1:
            self.limit = 0
        return self

    @property
    def is_host(self) -> bool:
        return not is_tensor_dtype(self.array.dtype)

    @property
    def is_symbolic(self) -> bool:
        """Does it hold sizes that a run decides?"""
        return self.array.dtype == np.dtype(object) and has_symbols(self.array)

    def tensor(self) -> Tensor:
        if self.is_symbolic:
            sizes = tensor_of(self.array)
            return sizes if self.real is None else sizes.astype(self.real)
        if self.array.nbytes <= self.limit:
            return wrap(self.array)
        with self._lock:
            if self._tensor is None:
                with outside():
                    self._tensor = wrap(self.array)
            return self._tensor


def is_tensor_dtype(dtype: Any) -> bool:
    """Can tensors have it? Strings and formats of 2 and 6 bits stay outside of graphs."""
    return dtype in dtypes.ALL


@contextmanager
def outside() -> Iterator[None]:
    """Whatever this thread records or differentiates, what happens in here is computed at once."""
    saved = entry.threads.context
    entry.threads.context = fresh = entry.Context()
    fresh.ambient = entry.ambient_tape
    try:
        yield
    finally:
        entry.threads.context = saved


def known(tensor: Tensor) -> Known:
    """The value of a tensor that was computed here and that nobody else holds. `numpy()` would note that its
    memory is seen from outside, and what is made of it (packed weights) would be made again in every run.
    """
    value = tensor._read()
    return Known(value if isinstance(value, np.ndarray) else tensor.numpy())


def as_tensor(value: Any) -> Any:
    """An operand as a tensor; None stays None."""
    if isinstance(value, Known):
        return value.tensor()
    if isinstance(value, np.ndarray | np.generic):
        return wrap(np.asarray(value))
    return value


def as_array(value: Any) -> Any:
    """A host value as an array: of tensors that are there, and of known ones."""
    if isinstance(value, Known):
        return value.array
    if isinstance(value, Tensor):
        return value.numpy()
    return value
