"""Settings as users write them, made regular: one number or one per axis, sizes that make sense."""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location


def repeated(what: str, value: Any, count: int) -> tuple[int, ...]:
    """A number per axis of space, from one number or a sequence of them."""
    numbers = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(numbers) == 1:
        numbers = numbers * count
    if len(numbers) != count or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise ArgumentError(
            f"{what} {value!r}", where=user_location(), expected=f"an integer, or {count} of them"
        )
    return numbers


def check_sizes(layer: str, **sizes: int) -> None:
    """Numbers of features, channels, rows: at least 1."""
    for name, n in sizes.items():
        if type(n) is not int or n < 1:
            raise ArgumentError(
                f"{layer}({name}={n!r})", where=user_location(), expected="an integer of at least 1"
            )
