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


@operator("NonMaxSuppression", since=10, host=True, gives="numbers")
def non_max_suppression(
    node: Node, boxes: Array, scores: Array, most: Any = None, overlap: Any = None, least: Any = None
) -> Array:
    """Rows (batch, class, box), best box first; a box that overlaps a better one too much is dropped."""
    limit = 0 if most is None else int(np.reshape(most, ()))
    edge = 0.0 if overlap is None else float(np.reshape(overlap, ()))
    chosen: list[tuple[int, int, int]] = []
    for b in range(scores.shape[0]):
        corners = _corners(boxes[b], node.attribute("center_point_box", 0))
        for c in range(scores.shape[1]):
            s = scores[b, c]
            order = np.argsort(-s, kind="stable")
            if least is not None:
                order = order[s[order] > float(np.reshape(least, ()))]
            chosen += [(b, c, int(i)) for i in _kept(corners, order, limit, edge)]
    return np.asarray(chosen, dtype=np.int64).reshape(-1, 3)


def _corners(boxes: Array, center: int) -> Array:
    """(x1, y1, x2, y2), the smaller ones first."""
    if center:
        x, y, w, h = boxes.T
        return np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], axis=1)
    y1, x1, y2, x2 = boxes.T
    low, high = np.minimum, np.maximum
    return np.stack([low(x1, x2), low(y1, y2), high(x1, x2), high(y1, y2)], axis=1)


def _kept(corners: Array, order: Array, limit: int, edge: float) -> list[int]:
    kept: list[int] = []
    area = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    while order.size and len(kept) < limit:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        low = np.maximum(corners[best, :2], corners[order, :2])
        high = np.minimum(corners[best, 2:], corners[order, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = area[best] + area[order] - shared
        order = order[~((union > 0) & (shared > edge * union))]
    return kept
