"""Matching detections with true boxes in one image and class, at several overlap thresholds at once.

In: detections in order of falling score, and true boxes. Out: which detections hit, which count at all, and
how many true boxes there are to be found. COCO lets a detection take the best box that is still free; VOC
only ever the best box, so that a second detection of it is wrong even if another box lies near.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Matches(NamedTuple):
    scores: Floats  # per detection
    hit: Flags  # threshold × detection
    counted: Flags  # threshold × detection
    relevant: int


def box_area(boxes: Floats) -> Floats:
    return np.asarray((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))


def overlap(a: Floats, b: Floats, crowd: Flags | None = None) -> Floats:
    """Intersection over union of all pairs; over the area of `a` alone where `b` is a crowd."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    common = np.prod(np.maximum(high - low, 0.0), axis=2)
    whole = box_area(a)[:, None] + box_area(b)[None, :] - common
    if crowd is not None:
        whole = np.where(crowd[None, :], box_area(a)[:, None], whole)
    return np.asarray(np.divide(common, whole, out=np.zeros_like(common), where=whole > 0))


def _last_best(values: Floats, allowed: Flags) -> tuple[npt.NDArray[np.int64], Flags]:
    """Per row the last of the largest allowed values, and whether there is one."""
    masked = np.where(allowed, values, -1.0)
    last = values.shape[1] - 1 - np.argmax(masked[:, ::-1], axis=1)
    return np.asarray(last), np.asarray(allowed.any(axis=1))


def match_coco(
    boxes: Floats,
    scores: Floats,
    truth: Floats,
    crowd: Flags,
    area: Floats,
    thresholds: Floats,
    span: tuple[float, float],
) -> Matches:
    """Each detection takes the free true box it overlaps most; an ignored one only if none is left."""
    ignored = crowd | (area < span[0]) | (area > span[1])
    least = np.minimum(thresholds, 1 - 1e-10)
    n, t = len(boxes), len(thresholds)
    hit, counted = np.zeros((t, n), np.bool_), np.ones((t, n), np.bool_)
    if len(truth):
        shared = overlap(boxes, truth, crowd)
        taken = np.zeros((t, len(truth)), np.bool_)
        for d in range(n):
            row = np.broadcast_to(shared[d], taken.shape)
            possible = (~taken | crowd) & (row >= least[:, None])
            real, is_real = _last_best(row, possible & ~ignored)
            other, is_other = _last_best(row, possible & ignored)
            taken[is_real, real[is_real]] = True
            spare = is_other & ~is_real
            taken[spare, other[spare]] = True
            hit[:, d], counted[:, d] = is_real, ~spare
    outside = (box_area(boxes) < span[0]) | (box_area(boxes) > span[1])
    counted &= hit | ~outside
    return Matches(scores, hit, counted, int(np.count_nonzero(~ignored)))


def match_voc(
    boxes: Floats,
    scores: Floats,
    truth: Floats,
    difficult: Flags,
    area: Floats,
    thresholds: Floats,
    span: tuple[float, float],
) -> Matches:
    """Each detection is for the true box it overlaps most; the first one hits, later ones are wrong."""
    n, t = len(boxes), len(thresholds)
    hit, counted = np.zeros((t, n), np.bool_), np.ones((t, n), np.bool_)
    if len(truth):
        shared = overlap(boxes, truth)
        taken = np.zeros((t, len(truth)), np.bool_)
        for d in range(n):
            best = int(np.argmax(shared[d]))
            near = shared[d, best] >= thresholds
            if difficult[best]:
                counted[:, d] = ~near
                continue
            hit[:, d] = near & ~taken[:, best]
            taken[:, best] |= near
    return Matches(scores, hit, counted, int(np.count_nonzero(~difficult)))
