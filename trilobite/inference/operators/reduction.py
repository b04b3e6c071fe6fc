"""Reductions over axes. The axes are an attribute in old versions and an operand in new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.dtypes import accumulator, is_inexact
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator
from trilobite.ir.types import Affine

Axes = tuple[int, ...] | None


def _mean(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    if is_inexact(x.dtype):
        return tb.mean(x, axis, keepdims=keepdims)
    return tb.mean(x.astype(tb.float64), axis, keepdims=keepdims).astype(x.dtype)


def _sum(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    return tb.sum(x, axis, keepdims=keepdims, dtype=x.dtype)


def _l2(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    wide = x.astype(accumulator(x.dtype) if is_inexact(x.dtype) else tb.float64)
    return tb.sqrt(tb.sum(wide * wide, axis, keepdims=keepdims)).astype(x.dtype)


def _extreme(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduced(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
        if x.dtype == tb.bool:
            if 0 in x.shape:
                return (tb.any if function is tb.max else tb.all)(x, axis, keepdims=keepdims)
            return function(x.astype(tb.uint8), axis, keepdims=keepdims).astype(tb.bool)
        if 0 in [x.shape[a] for a in (range(x.ndim) if axis is None else axis)]:
            return _of_nothing(x, axis, keepdims, function is tb.max)
        return function(x, axis, keepdims=keepdims)

    return reduced


def _of_nothing(x: Tensor, axis: Axes, keepdims: bool, largest: bool) -> Tensor:
    """The extreme of no elements is the other end of the dtype's range."""
    gone = {a % x.ndim for a in (range(x.ndim) if axis is None else axis)}
    shape = [1 if a in gone else d for a, d in enumerate(x.shape) if keepdims or a not in gone]
    if is_inexact(x.dtype):
        edge: Any = -np.inf if largest else np.inf
    else:
        edge = tb.iinfo(x.dtype).min if largest else tb.iinfo(x.dtype).max
    return tb.full(shape, edge, dtype=x.dtype)


def _log_sum_exp(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    wide = x if is_inexact(x.dtype) else x.astype(tb.float64)
    if 0 in x.shape:
        return tb.log(tb.sum(tb.exp(wide), axis, keepdims=keepdims)).astype(x.dtype)
    return tb.logsumexp(wide, axis, keepdims=keepdims).astype(x.dtype)


def _log_sum(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    wide = x if is_inexact(x.dtype) else x.astype(tb.float64)
    return tb.log(tb.sum(wide, axis, keepdims=keepdims)).astype(x.dtype)


_KINDS: dict[str, tuple[Callable[..., Tensor], int]] = {
    "ReduceSum": (_sum, 13),
    "ReduceMean": (_mean, 18),
    "ReduceMax": (_extreme(tb.max), 18),
    "ReduceMin": (_extreme(tb.min), 18),
    "ReduceProd": (lambda x, axis, keepdims: tb.prod(x, axis, keepdims=keepdims, dtype=x.dtype), 18),
    "ReduceL1": (lambda x, axis, keepdims: _sum(tb.abs(x), axis, keepdims), 18),
    "ReduceL2": (_l2, 18),
    "ReduceSumSquare": (lambda x, axis, keepdims: _sum(x * x, axis, keepdims), 18),
    "ReduceLogSum": (_log_sum, 18),
    "ReduceLogSumExp": (_log_sum_exp, 18),
}
"""How each reduces, and since when its axes are an operand."""
_OF_ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "ReduceL1": tb.abs, "ReduceL2": tb.abs, "ReduceSumSquare": tb.square, "ReduceLogSum": tb.log,
}  # fmt: skip
"""What is left of a reduction over no axes."""


def _enter(op: str, function: Callable[..., Tensor], operand_since: int) -> None:
    @operator(op)
    def by_attribute(node: Node, x: Tensor) -> Tensor:
        return function(x, node.attribute("axes") or None, bool(node.attribute("keepdims", 1)))

    @operator(op, since=operand_since, known=(1,))
    def by_operand(node: Node, x: Tensor, axes: Any = None) -> Tensor:
        which = () if axes is None else tuple(map(int, axes.reshape(-1)))
        if not which and node.attribute("noop_with_empty_axes", 0):
            return _OF_ONE[op](x) if op in _OF_ONE else x
        return function(x, which or None, bool(node.attribute("keepdims", 1)))


for _op, (_function, _since) in _KINDS.items():
    _enter(_op, _function, _since)


@operator("ArgMax", "ArgMin")
def arg_extreme(node: Node, x: Tensor) -> Tensor:
    axis, keep = node.attribute("axis", 0) % x.ndim, bool(node.attribute("keepdims", 1))
    function = tb.argmax if node.op == "ArgMax" else tb.argmin
    if not node.attribute("select_last_index", 0):
        return function(x, axis, keepdims=keep)
    return (x.shape[axis] - 1) - function(tb.flip(x, axis=axis), axis, keepdims=keep)


@operator("TopK")
def top_k_by_attribute(node: Node, x: Tensor) -> tuple[Tensor, Tensor]:
    values, places = tb.topk(x, node.attributes["k"], node.attribute("axis", -1))
    return values, places


@operator("TopK", since=10, known=(1,))
def top_k(node: Node, x: Tensor, k: Any) -> tuple[Tensor, Tensor]:
    count, axis, largest = (
        k.reshape(()).item(),
        node.attribute("axis", -1),
        bool(node.attribute("largest", 1)),
    )
    if isinstance(count, Affine) and count == x.shape[axis]:  # all of them: how exporters write a sort
        order = tb.argsort(x, axis=axis, descending=largest, stable=True)
        return tb.take_along_axis(x, order, axis=axis), order
    values, places = tb.topk(x, int(count), axis, largest=largest)
    return values, places


@operator("LpNormalization")
def lp_normalization(node: Node, x: Tensor) -> Tensor:
    axis, p = node.attribute("axis", -1), node.attribute("p", 2)
    norm = _l2(x, (axis,), True) if p == 2 else _sum(tb.abs(x), (axis,), True)
    return tb.where(tb.equal(norm, 0), tb.zeros_like(x), x / norm)
