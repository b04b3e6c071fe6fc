"""Losses of classifiers: cross entropy and its kin, with weights, ignored targets and smoothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.autocast import operands
from trilobite.framework.nn.composites.activation import logsigmoid, relu
from trilobite.framework.nn.composites.arithmetic import (
    add,
    along,
    average,
    div,
    eq,
    floating,
    ge,
    lt,
    mul,
    ne,
    neg,
    number,
    power,
    reshape,
    sub,
    total,
    where,
    wide,
)
from trilobite.framework.nn.functional.calling import as_tensor, run
from trilobite.framework.nn.functional.loss import check_reduction, paired, reduced
from trilobite.framework.ops.meeting import astype, broadcast_to
from trilobite.framework.ops.normalising import log_softmax
from trilobite.framework.replay.plans import planned, require
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.cells import bottom


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-x[target] for log probabilities x of (C,), (N, C) or (N, C, ...). The mean is weighted by class."""
    input, target = as_tensor(input), as_tensor(target)
    _check_classes("nll_loss", input, target, weight, ignore_index)
    return run(_nll, input, target, weight, ignore=ignore_index, reduction=reduction, smoothing=0.0)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """nll_loss of log_softmax(x). The target is classes, or probabilities of the input's own shape."""
    settings = {"ignore": ignore_index, "reduction": reduction, "smoothing": label_smoothing}
    given = (input, target) if weight is None else (input, target, weight)
    done: Tensor | None = planned(_of_classes, given, settings)
    if done is not None:
        return done
    input, target = as_tensor(input), as_tensor(target)
    check_reduction(reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(
            f"label_smoothing {label_smoothing}", where=user_location(), expected="between 0 and 1"
        )
    if not input.ndim:
        raise ShapeError(
            "cross_entropy of a scalar", where=user_location(), expected="(C,), (N, C) or (N, C, ...)"
        )
    axis = 0 if input.ndim == 1 else 1
    if target.shape == input.shape and dt.is_float(target.dtype):
        return run(
            _soft, input, target, weight, axis=axis, reduction=reduction, smoothing=float(label_smoothing)
        )
    _check_classes("cross_entropy", input, target, weight, ignore_index)
    logs = run(_log_softmax, input, axis=axis)
    return run(
        _nll, logs, target, weight, ignore=ignore_index, reduction=reduction, smoothing=float(label_smoothing)
    )


def _check_kinds(what: str, x: Any, target: Any, weight: Any) -> None:
    shape = x.shape[1:] if x.ndim == 1 else (*x.shape[:1], *x.shape[2:])
    if not x.ndim or target.shape != shape:
        raise ShapeError(
            f"{what} of shape {tuple(x.shape)} with a target of shape {tuple(target.shape)}",
            where=user_location(),
            expected=f"classes of shape {tuple(shape)}, or probabilities of shape {tuple(x.shape)}",
            remedy="classes stand in axis 1 of the scores; give one target per place besides",
        )
    if not dt.is_integer(target.dtype):
        raise DTypeError(
            f"{what} with classes of {target.dtype}",
            where=user_location(),
            expected="integers",
            remedy="target.astype(tb.int64)",
        )
    classes = x.shape[0] if x.ndim == 1 else x.shape[1]
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(
            f"{what} with a weight of shape {tuple(weight.shape)}",
            where=user_location(),
            expected=f"({classes},)",
        )


def _check_classes(what: str, x: Tensor, target: Tensor, weight: Tensor | None, ignore: int) -> None:
    _check_kinds(what, x, target, weight)
    classes = x.shape[0] if x.ndim == 1 else x.shape[1]
    found = bottom(target._read())
    if isinstance(found, np.ndarray) and isinstance(classes, int):
        wrong = found[(found != ignore) & ((found < 0) | (found >= classes))]
        if wrong.size:
            raise IndexingError(
                f"{what}: class {wrong.flat[0]} of {classes}",
                where=user_location(),
                expected=f"0 <= class < {classes}, or {ignore}",
                remedy="give the scores a column per class, or mark the place with ignore_index",
            )


def _of_classes(
    x: Value, target: Value, weight: Value | None = None, *, ignore: int, reduction: str, smoothing: float
) -> Value:
    """Cross entropy with classes that are in range, as a plan."""
    check_reduction(reduction)
    _check_kinds("cross_entropy", x, target, weight)
    classes = x.shape[0] if x.ndim == 1 else x.shape[1]
    known = table["and"](ge(target, 0), lt(target, classes))
    require(table["or"](eq(target, ignore), known))
    logs = _log_softmax(x, axis=0 if x.ndim == 1 else 1)
    if not 0.0 <= smoothing <= 1.0:
        raise ArgumentError(f"label_smoothing {smoothing}")
    return _nll(logs, target, weight, ignore=ignore, reduction=reduction, smoothing=float(smoothing))


def _log_softmax(x: Value, axis: int) -> Value:
    return log_softmax(operands("log_softmax", x)[0], axis=axis)


def _nll(
    logs: Value, target: Value, weight: Value | None = None, *, ignore: int, reduction: str, smoothing: float
) -> Value:
    check_reduction(reduction)
    logs = floating(operands("loss", logs)[0])
    dtype, x = logs.dtype, wide(logs)
    axis = 0 if x.ndim == 1 else 1
    counted = ne(target, ignore)
    safe = where(counted, target, 0)
    column = reshape(safe, shape=(*safe.shape[:axis], 1, *safe.shape[axis:]))
    chosen = reshape(table["take_along"](x, column, axis=axis), shape=safe.shape)
    shares = where(counted, 1.0, table["full"](shape=safe.shape, dtype=x.dtype, value=0.0))
    if weight is not None:
        shares = mul(shares, table["gather"](wide(weight), safe, axis=0))
    losses = neg(mul(shares, chosen))
    if smoothing:
        losses = _smoothed(losses, x, counted, weight, axis, smoothing)
    if reduction != "mean":
        return reduced(losses, reduction, dtype)
    axes = tuple(range(losses.ndim))
    return astype(div(total(losses, axes), total(shares, axes)), dtype)


def _smoothed(
    losses: Value, x: Value, counted: Value, weight: Value | None, axis: int, smoothing: float
) -> Value:
    """A part of the target spread over all classes."""
    weighted = x if weight is None else mul(x, along(wide(weight), (axis,), x.ndim))
    spread = where(counted, neg(total(weighted, (axis,))), 0.0)
    share = div(smoothing, number(x.shape[axis], x.dtype))
    return add(mul(losses, 1.0 - smoothing), mul(spread, share))


def _soft(
    x: Value, target: Value, weight: Value | None = None, *, axis: int, reduction: str, smoothing: float
) -> Value:
    x = floating(operands("loss", x)[0])
    dtype = x.dtype
    logs, t = wide(log_softmax(x, axis=axis)), wide(astype(target, dtype))
    if smoothing:
        t = add(mul(t, 1.0 - smoothing), div(smoothing, number(x.shape[axis], t.dtype)))
    terms = mul(logs, t)
    if weight is not None:
        terms = mul(terms, along(wide(weight), (axis,), x.ndim))
    losses = neg(total(terms, (axis,)))
    return reduced(losses, reduction, dtype)


# -- margins between classes ---------------------------------------------------------------------------------


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over the other classes of max(0, margin - x[target] + x[class])^p."""
    input, target = as_tensor(input), as_tensor(target)
    input = input.reshape(1) if not input.ndim else input
    target = target.reshape(()) if input.ndim == 1 and target.numel() == 1 else target
    _check_classes("multi_margin_loss", input, target, weight, -(2**62))
    return run(_multi_margin, input, target, weight, p=p, margin=float(margin), reduction=reduction)


def _multi_margin(
    x: Value, target: Value, weight: Value | None = None, *, p: int, margin: float, reduction: str
) -> Value:
    x = floating(x)
    dtype, w = x.dtype, wide(x)
    axis = w.ndim - 1
    column = reshape(target, shape=(*target.shape, 1))
    chosen = table["take_along"](w, column, axis=axis)
    terms = relu(add(sub(margin, chosen), w))
    terms = terms if p == 1 else power(terms, float(p))
    if weight is not None:
        terms = mul(terms, reshape(table["gather"](wide(weight), target, axis=0), shape=column.shape))
    own = eq(table["iota"](shape=w.shape, dtype=target.dtype, axis=axis), broadcast_to(column, w.shape))
    losses = div(total(where(own, 0.0, terms), (axis,)), number(w.shape[axis], w.dtype))
    return reduced(losses, reduction, dtype)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The mean over classes (last axis) of binary cross entropy with logits."""
    return run(_multilabel, input, target, weight, reduction=reduction)


def _multilabel(x: Value, target: Value, weight: Value | None = None, *, reduction: str) -> Value:
    a, b, dtype = paired("multilabel_soft_margin_loss", x, target)
    terms = neg(add(mul(b, logsigmoid(a)), mul(sub(1.0, b), logsigmoid(neg(a)))))
    if weight is not None:
        terms = mul(terms, wide(weight))
    return reduced(average(terms, (terms.ndim - 1,)), reduction, dtype)


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """A 1 at the class of each element, along a new last axis; the number of classes is the largest + 1
    unless given.
    """
    input = as_tensor(input)
    value = bottom(input._read())
    if num_classes < 0:
        if not isinstance(value, np.ndarray) or not value.size:
            raise ArgumentError(
                "one_hot without num_classes",
                where=user_location(),
                expected="num_classes=, where only a run knows the classes",
            )
        num_classes = int(value.max()) + 1
    if isinstance(value, np.ndarray) and value.size and not (value.min() >= 0 and value.max() < num_classes):
        raise IndexingError(
            f"one_hot of a class outside of {num_classes}",
            where=user_location(),
            expected=f"0 <= class < {num_classes}",
        )
    return run(_one_hot, input, classes=num_classes)


def _one_hot(x: Value, classes: int) -> Value:
    shape = (*x.shape, classes)
    at = table["iota"](shape=shape, dtype=x.dtype, axis=x.ndim)
    return table["cast"](eq(at, reshape(x, shape=(*x.shape, 1))), dtype=x.dtype)
