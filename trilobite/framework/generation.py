"""A counter of changes that recordings depend on but do not see: who requires a gradient, modules' modes."""

from __future__ import annotations

_generation = 0  # grows with every change


def generation() -> int:
    return _generation


def bump_generation() -> None:
    global _generation
    _generation += 1
