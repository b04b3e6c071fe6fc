"""What PyTorch returns in pairs: values and their places, under both names, unpacked in this order.

A pair also stands for its values: it can be computed with, and it has a tensor's methods. So
`values, indices = x.max(1)`, `x.max(1).values`, `x.max(1)[0]` and `x.max(1) - 1` all mean what they say.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple


class Pair(NamedTuple):
    """Values and where they were found."""

    values: Any
    indices: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.values, name)


def _forwarded(fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Pair, *others: Any) -> Any:
        return fn(self.values, *(o.values if isinstance(o, Pair) else o for o in others))

    return call


def _reflected(fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Pair, other: Any) -> Any:
        return fn(other, self.values)

    return call


_BINARY = "add sub mul truediv floordiv mod pow matmul and_ or_ xor".split()
for _name in _BINARY:
    _bare = _name.rstrip("_")
    setattr(Pair, f"__{_bare}__", _forwarded(getattr(operator, _name)))
    setattr(Pair, f"__r{_bare}__", _reflected(getattr(operator, _name)))
for _name in ("neg", "abs", "invert", "lt", "le", "gt", "ge"):
    setattr(Pair, f"__{_name}__", _forwarded(getattr(operator, _name)))
for _kind in (float, int):
    setattr(Pair, f"__{_kind.__name__}__", _forwarded(_kind))
