"""Conversions that densities are written with, under PyTorch's names (`torch.distributions.utils`).

Enters: parameters of distributions, as probabilities, logits or triangles. Leaves: the other form of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base.wrong_use import explain_room
from trilobite.framework.distributions.base import _standard_normal, _sum_rightmost, broadcast, op
from trilobite.framework.modes import enable_grad

__all__ = [
    "_standard_normal",
    "_sum_rightmost",
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]
euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Numbers and tensors as float tensors of one shape."""
    return tuple(broadcast(*values))


def clamp_probs(probs: Any) -> Any:
    """Probabilities kept away from 0 and 1 by the dtype's precision."""
    eps = float(np.finfo(probs.dtype).eps)
    return op("clamp")(probs, eps, 1 - eps)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    return op("sigmoid")(logits) if is_binary else op("softmax")(logits, -1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    inside = clamp_probs(probs)
    logs = op("log")(inside)
    return logs - op("log1p")(-inside) if is_binary else logs


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The lower triangle of a matrix, row by row, as a matrix; `diag` is the highest diagonal it has."""
    n = (
        -(1 + 2 * diag) + math.isqrt((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1))
    ) // 2
    rows, columns = np.tril_indices(n, diag)
    place = np.full(n * n, vec.shape[-1])
    place[rows * n + columns] = np.arange(vec.shape[-1])
    padded = op("concat")([vec, op("zeros_like")(vec[..., :1])], -1)
    return padded[..., op("asarray")(place)].reshape((*vec.shape[:-1], n, n))


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The lower triangle of a matrix, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = np.tril_indices(n, diag)
    return mat.reshape((*mat.shape[:-2], n * n))[..., op("asarray")(rows * n + columns)]


class lazy_property:
    """A method that is called once; its result is an attribute from then on."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        self.__doc__ = getattr(wrapped, "__doc__", None)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return property(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


explain_room(globals())
