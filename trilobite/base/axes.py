"""Axes of arrays that walk together."""

from __future__ import annotations

from collections.abc import Sequence


def merged(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The same space in as few axes as these arrays' strides allow; no axis if it is one element."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        mine = [s[axis] for s in strides]
        if sizes and all(old[-1] == n * new for old, new in zip(steps, mine, strict=True)):
            sizes[-1] *= n
            for old, new in zip(steps, mine, strict=True):
                old[-1] = new
        else:
            sizes.append(n)
            for old, new in zip(steps, mine, strict=True):
                old.append(new)
    return sizes, steps
