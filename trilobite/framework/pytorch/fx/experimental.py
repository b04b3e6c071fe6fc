"""`tb.fx.experimental`: what code asks about sizes that PyTorch's tracers leave open: here they are known."""

from __future__ import annotations

import sys
from typing import Any

__path__: list[str] = []  # `import trilobite.fx.experimental.symbolic_shapes` looks for rooms under it


def get_proxy_mode() -> None:
    """No tracer of PyTorch's is under way."""


def guard_or_false(condition: Any) -> bool:
    """The condition: it is known here."""
    return bool(condition)


guard_or_true = statically_known_true = guard_size_oblivious = definitely_true = guard_or_false


def free_symbols(value: Any) -> set[Any]:
    """Sizes that are open: none."""
    return set()


free_unbacked_symbols = free_symbols


class GuardOnDataDependentSymNode(Exception):
    """A size that only a run knows was asked for: nothing here raises it."""


symbolic_shapes = proxy_tensor = sys.modules[__name__]
