"""`tb._higher_order_ops`: control flow as PyTorch's compiler names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.framework import control

__path__: list[str] = []  # `import trilobite._higher_order_ops.associative_scan`
cond, while_loop = control.cond, control.while_loop


def associative_scan(
    combine_fn: Callable[..., Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Running results of an associative function along a dimension."""
    return control.associative_scan(combine_fn, xs, axis=dim, reverse=reverse)
