"""What models of ai.onnx.ml do with scores: transforms, and the label of the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.inference.operators.strings import texts

Array = np.ndarray[Any, Any]


def logistic(x: Array) -> Array:
    v = 1 / (1 + np.exp(-np.abs(x)))
    return np.where(x < 0, 1 - v, v).astype(x.dtype)


def _softmax(x: Array) -> Array:
    e = np.exp(x - np.maximum.reduce(x, -1, keepdims=True))
    total = np.add.reduce(e, -1, keepdims=True)  # a few classes: methods take longer than the numbers
    return np.divide(e, total, out=e)


def _softmax_zero(x: Array) -> Array:
    """Softmax that leaves zeros out."""
    top = x.max(axis=-1, keepdims=True)
    e = np.where(np.abs(x) > 1e-7, np.exp(x - top), x * np.exp(-top))
    total = e.sum(axis=-1, keepdims=True)
    return np.where(total == 0, 0.5, e / np.where(total == 0, 1, total)).astype(x.dtype)


def _probit(x: Array) -> Array:
    """√2·erf⁻¹(2x - 1), by the approximation that ONNX defines it with; what is no chance has none."""
    y = 2 * x - 1
    inside = (1 - y) * (1 + y)
    log = np.where(inside >= 0, np.log(np.maximum(inside, np.finfo(np.float64).tiny)), np.nan)
    v = 2 / (np.pi * 0.147) + log / 2
    found = np.sqrt(-v + np.sqrt(v * v - log / 0.147))
    return (np.sqrt(2) * np.where(y < 0, -found, found)).astype(x.dtype)


_TRANSFORMS = {
    "NONE": lambda x: x,
    "LOGISTIC": logistic,
    "SOFTMAX": _softmax,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def transformed(scores: Array, how: str) -> Array:
    if how not in _TRANSFORMS:
        raise ArgumentError(f"the transform {how!r} of scores", expected=", ".join(_TRANSFORMS))
    return _TRANSFORMS[how](scores)


def of_two(score: Array, how: str) -> Array:
    """One score of two classes as a score of each. As ONNX Runtime has it, only LOGISTIC transforms them."""
    second = logistic(score) if how == "LOGISTIC" else score
    return np.concatenate([1 - second, second], axis=1)


def label_array(labels: Sequence[Any] | Array) -> Array:
    if isinstance(labels, np.ndarray):
        return labels
    return texts(labels) if isinstance(labels[0], str) else np.asarray(labels, np.int64)


def labelled(scores: Array, labels: Sequence[Any] | Array, how: str) -> tuple[Array, Array]:
    """The label of the best score of each row, and the scores transformed: a transform may give NaN."""
    return label_array(labels)[scores.argmax(axis=1)], transformed(scores, how)
