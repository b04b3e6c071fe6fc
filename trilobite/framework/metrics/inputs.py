"""Reading predictions and targets: shapes, dtypes and the items to be left out.

In: anything with `__array__`. Out: flat NumPy arrays that fit each other. Two forms of prediction are
understood: class numbers in the shape of the targets, and scores with one more axis, the classes (axis 1
unless said otherwise, as in the losses). NaN scores are refused: no class can be said to have won.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, DataError, DTypeError, ShapeError

Labels = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


def labels(values: Any, name: str) -> Labels:
    """Class numbers as int64."""
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(array.shape, np.int64)
    if array.dtype.kind not in "biu":
        raise DTypeError(
            f"{name} has dtype {array.dtype}",
            expected="class numbers (integers or booleans)",
            remedy="for probabilities of one class, compare first: scores > 0.5",
        )
    return array.astype(np.int64)


def scores(values: Any, name: str = "scores") -> Array:
    """Real scores, of a dtype NumPy can sort, without NaN."""
    array = np.asarray(values)
    if array.dtype.kind in "cOSU":
        raise DTypeError(f"{name} has dtype {array.dtype}", expected="real numbers")
    if array.dtype.kind not in "biuf":
        array = array.astype(np.float32)  # bfloat16 and the 8-bit floats: exact
    if array.dtype.kind == "f" and np.isnan(array).any():
        where = tuple(int(i) for i in np.argwhere(np.isnan(array))[0])
        raise DataError(f"{name} contain NaN", where=f"index {where}", expected="numbers that can be ranked")
    return array


def rows(prediction: Array, target: Labels, axis: int) -> tuple[Array, Labels]:
    """Scores as items × classes, and the target of each item."""
    axis = axis if prediction.ndim > 1 else 0  # one item has its classes on its only axis
    if not -prediction.ndim <= axis < prediction.ndim:
        raise ArgumentError(
            f"axis {axis} of scores with shape {prediction.shape}", expected="the axis of the classes"
        )
    moved = np.moveaxis(prediction, axis, -1)
    if moved.shape[:-1] != target.shape:
        raise ShapeError(
            f"scores of shape {prediction.shape} (classes on axis {axis}) do not fit targets of shape "
            f"{target.shape}",
            expected="the shape of the targets and an axis of classes",
            remedy="axis=-1 if the classes come last",
        )
    if not moved.shape[-1]:
        raise ShapeError(f"scores of shape {prediction.shape} have no classes", expected="at least one class")
    return moved.reshape(target.size, moved.shape[-1]), target.ravel()


def class_pairs(prediction: Any, target: Any, axis: int, ignore_index: int | None) -> tuple[Labels, Labels]:
    """(predicted class, true class) of every item that counts, flat. Of equal scores the first class wins."""
    truth = labels(target, "target")
    given = np.asarray(prediction)
    if given.ndim == truth.ndim + 1:
        table, flat = rows(scores(given), truth, axis)
        guess = table.argmax(axis=1)
    elif given.shape == truth.shape:
        guess, flat = labels(given, "prediction").ravel(), truth.ravel()
    else:
        raise ShapeError(
            f"prediction of shape {given.shape} does not fit targets of shape {truth.shape}",
            expected="class numbers of the same shape, or scores with one more axis",
        )
    keep = kept(flat, ignore_index)
    return guess[keep].astype(np.int64), flat[keep]


def at_least_one(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ArgumentError(f"{name} is {value!r}", expected="an integer >= 1")
    return int(value)


def kept(target: Labels, ignore_index: int | None) -> npt.NDArray[np.bool_]:
    if ignore_index is None:
        return np.ones(target.shape, np.bool_)
    return np.asarray(target != ignore_index)


def in_range(values: Labels, classes: int, name: str) -> None:
    """Refuse class numbers that are none."""
    if values.size and (values.min() < 0 or values.max() >= classes):
        wrong = int(values[(values < 0) | (values >= classes)][0])
        raise DataError(
            f"{name} contains class {wrong}",
            expected=f"0 <= class < {classes}",
            remedy="ignore_index= leaves one number out",
        )
