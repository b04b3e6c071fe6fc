"""A counter of changes that recordings depend on: who requires a gradient, modules' modes and attributes."""

from __future__ import annotations

_generation = 0  # grows with every change


def generation() -> int:
    return _generation


def bump_generation() -> None:
    global _generation
    _generation += 1
