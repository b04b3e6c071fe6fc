"""COCO's evaluation of boxes as its paper's code states it, in plain loops: what tests compare with."""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
MOST = 100  # detections of one class in one picture


def size(box: Any) -> float:
    return float((box[2] - box[0]) * (box[3] - box[1]))


def shared(guess: Any, box: Any, crowd: bool) -> float:
    """Intersection over union; of a crowd, over the guess alone."""
    width = min(guess[2], box[2]) - max(guess[0], box[0])
    height = min(guess[3], box[3]) - max(guess[1], box[1])
    inside = max(width, 0.0) * max(height, 0.0)
    whole = size(guess) if crowd else size(guess) + size(box) - inside
    return float(inside / whole) if whole > 0 else 0.0


def matched(
    guesses: Any, boxes: Any, crowds: Any, out: list[bool], span: tuple[float, float], at: float
) -> tuple[list[bool], list[bool]]:
    """For each guess, best score first: is it right, and is it left out of the count?"""
    order = sorted(range(len(boxes)), key=lambda g: out[g])  # those that count before those that do not
    taken: set[int] = set()
    right, left = [], []
    for guess in guesses:
        best, found = min(at, 1 - 1e-10), -1
        for g in order:
            if g in taken and not crowds[g]:
                continue
            if found >= 0 and not out[found] and out[g]:
                break
            overlap = shared(guess, boxes[g], bool(crowds[g]))
            if overlap >= best:
                best, found = overlap, g
        if found >= 0:
            taken.add(found)
        right.append(found >= 0)
        left.append(out[found] if found >= 0 else not span[0] <= size(guess) <= span[1])
    return right, left


def table(predictions: Any, targets: Any, span: tuple[float, float]) -> tuple[Floats, Floats]:
    """Average precision and recall [threshold, class]; NaN for classes without true boxes."""
    pairs = list(zip(predictions, targets, strict=True))
    classes = np.unique(np.concatenate([np.concatenate([p["labels"], t["labels"]]) for p, t in pairs]))
    precision, recall = np.full((10, len(classes)), np.nan), np.full((10, len(classes)), np.nan)
    for c, label in enumerate(classes):
        for k, at in enumerate(THRESHOLDS):
            scores: list[float] = []
            rights: list[bool] = []
            relevant = 0
            for p, t in pairs:
                mine, theirs = p["labels"] == label, t["labels"] == label
                boxes, crowds = t["boxes"][theirs], t["ignore"][theirs]
                out = [
                    bool(w) or not span[0] <= size(b) <= span[1] for b, w in zip(boxes, crowds, strict=True)
                ]
                relevant += len(out) - sum(out)
                order = np.argsort(-p["scores"][mine], kind="stable")[:MOST]
                right, left = matched(p["boxes"][mine][order], boxes, crowds, out, span, at)
                kept = [not each for each in left]
                scores += list(p["scores"][mine][order][kept])
                rights += list(np.asarray(right, bool)[kept])
            if relevant:
                precision[k, c], recall[k, c] = _average(scores, rights, relevant)
    return precision, recall


def _average(scores: list[float], rights: list[bool], relevant: int) -> tuple[float, float]:
    hits = np.cumsum(np.asarray(rights, float)[np.argsort(-np.asarray(scores), kind="stable")])
    if not hits.size:
        return 0.0, 0.0
    exact = np.maximum.accumulate((hits / np.arange(1, hits.size + 1))[::-1])[::-1]
    places = np.searchsorted(hits / relevant, RECALLS, side="left")
    return float(np.mean([exact[p] if p < hits.size else 0.0 for p in places])), float(hits[-1] / relevant)
