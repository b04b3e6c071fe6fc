"""Operators whose result has a shape that depends on values: they run between compiled graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator

Array = np.ndarray[Any, Any]


@operator("NonZero", since=9, host=True, gives="numbers")
def non_zero(node: Node, x: Array) -> Array:
    return np.asarray(np.nonzero(x), dtype=np.int64).reshape(max(x.ndim, 1) if x.ndim else 0, -1)


@operator("Compress", since=9, host=True, gives="same")
def compress(node: Node, x: Array, condition: Array) -> Array:
    return np.compress(condition.astype(bool), x, axis=node.attribute("axis"))


@operator("Unique", since=11, host=True, gives="same")
def unique(node: Node, x: Array) -> tuple[Array, ...]:
    """Unique slices along an axis, or elements; in their order of appearance unless sorted."""
    axis = node.attribute("axis")
    items = x.reshape(-1) if axis is None else x
    at = 0 if axis is None else axis
    keys = items.astype(str) if items.dtype == object else items
    _, first, inverse, counts = np.unique(
        keys,
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=axis if axis is not None else None,
    )
    inverse = inverse.reshape(-1)
    if not node.attribute("sorted", 1):
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        first, inverse, counts = first[order], place[inverse], counts[order]
    return np.take(items, first, axis=at), *(v.astype(np.int64) for v in (first, inverse, counts))
