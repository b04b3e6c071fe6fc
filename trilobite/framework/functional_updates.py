"""`x.at[key].set(v)` and its kin: a new tensor with some places changed, as JAX writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor


class At:
    """A tensor whose places are about to be named."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __getitem__(self, key: Any) -> Places:
        return Places(self.x, key)


class Places:
    """Places of a tensor. Every method makes a new tensor; places that are named twice count twice."""

    def __init__(self, x: Tensor, key: Any) -> None:
        self.x, self.key = x, key

    def get(self) -> Tensor:
        return self.x[self.key]  # type: ignore[no-any-return]

    def set(self, value: Any) -> Tensor:
        out = self.x.clone()
        out[self.key] = value
        return out  # type: ignore[no-any-return]

    def apply(self, fn: Callable[[Any], Any]) -> Tensor:
        return self.set(fn(self.get()))

    def add(self, value: Any) -> Tensor:
        return self._scattered(value, "sum")

    def subtract(self, value: Any) -> Tensor:
        return self._scattered(-operators["asarray"].public(value), "sum")

    def multiply(self, value: Any) -> Tensor:
        return self._scattered(value, "prod")

    mul = multiply

    def divide(self, value: Any) -> Tensor:
        return self._scattered(1 / operators["asarray"].public(value), "prod")

    def power(self, value: Any) -> Tensor:
        return self.set(self.get() ** value)

    def min(self, value: Any) -> Tensor:
        return self._scattered(value, "amin")

    def max(self, value: Any) -> Tensor:
        return self._scattered(value, "amax")

    def _scattered(self, value: Any, reduce: str) -> Tensor:
        """The flattened tensor, changed at the numbers of its places."""
        x = self.x
        shape = tuple(x.shape)
        at = operators["arange"].public(x.numel()).reshape(shape)[self.key]
        new = operators["asarray"].public(value).to(x.dtype)
        spread = operators["broadcast_to"].public(new, tuple(at.shape)).reshape(-1)
        flat = operators["scatter_reduce"].public(x.reshape(-1), 0, at.reshape(-1), spread, reduce)
        return flat.reshape(shape)  # type: ignore[no-any-return]
