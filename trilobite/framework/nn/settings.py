"""Settings as users write them, made regular: one number or one per axis, sizes that make sense."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location


def repeated(what: str, value: Any, count: int) -> tuple[int, ...]:
    """A number per axis of space, from one number or a sequence of them."""
    numbers = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(numbers) == 1:
        numbers = numbers * count
    if len(numbers) != count or not all(is_whole(n) for n in numbers):
        raise ArgumentError(
            f"{what} {value!r}", where=user_location(), expected=f"an integer, or {count} of them"
        )
    return tuple(int(n) for n in numbers)


def is_whole(n: Any) -> bool:
    """An integer of Python's or NumPy's."""
    return isinstance(n, (int, np.integer)) and not isinstance(n, bool)


def check_sizes(layer: str, **sizes: int) -> None:
    """Numbers of features, channels, rows: at least 1."""
    for name, n in sizes.items():
        if not is_whole(n) or n < 1:
            raise ArgumentError(
                f"{layer}({name}={n!r})", where=user_location(), expected="an integer of at least 1"
            )
