"""A counter of changes that recordings depend on: who requires a gradient, modules' modes and attributes."""

from __future__ import annotations

_changes = 0  # grows with every change


def changes() -> int:
    return _changes


def count_change() -> None:
    global _changes
    _changes += 1
