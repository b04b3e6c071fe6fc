"""Attention as `recognise` found it: whole where shapes allow, else the steps as they were written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import trilobite as tb
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import find, operator

DOMAIN = "trilobite.fused"


class Step(NamedTuple):
    """What happens to scores: Mul, Div by a number or an operand, Add of an operand, Where with a number."""

    op: str
    operand: int = -1  # place among the node's operands
    number: float = 1.0
    kept: bool = True  # of Where: scores stay where the condition holds


@operator("Attention", domain=DOMAIN)
def written_attention(node: Node, q: Tensor, keys: Tensor, v: Tensor, *operands: Tensor) -> Tensor:
    """The keys come transposed if they are `turned`."""
    keys = keys if node.attributes["turned"] else tb.matrix_transpose(keys)
    given: tuple[Tensor, ...] = (q, keys, v, *operands)
    steps: Sequence[Step] = node.attributes["steps"]
    softmax: Node = node.attributes["softmax"]
    axis = softmax.attribute("axis", -1 if softmax.version >= 13 else 1)
    alike = q.ndim >= 3 and q.shape[:-2] == keys.shape[:-2] == v.shape[:-2] and axis in (-1, q.ndim - 1)
    if not alike or not all(_fits(s, given, q) for s in steps):
        return _as_written(softmax, steps, given)
    scale = 1.0
    for s in steps:
        if s.op in ("Mul", "Div") and s.operand < 0:
            scale *= s.number if s.op == "Mul" else 1 / s.number
        elif s.op in ("Mul", "Div"):
            factor = tb.reshape(given[s.operand], ())
            q = (q * factor if s.op == "Mul" else q / factor).astype(q.dtype)
    return F.scaled_dot_product_attention(
        q, tb.matrix_transpose(keys), v, _mask(steps, given, q), scale=scale
    )


def _fits(step: Step, given: Sequence[Tensor], q: Tensor) -> bool:
    """Is a factor one number, does a mask have no more axes than scores?"""
    if step.operand < 0:
        return True
    operand = given[step.operand]
    if step.op in ("Mul", "Div"):
        return all(d == 1 for d in operand.shape)
    return operand.ndim <= q.ndim and (step.op == "Where" or tb.is_floating_point(operand))


def _mask(steps: Sequence[Step], given: Sequence[Tensor], q: Tensor) -> Tensor | None:
    """A choice if nothing but -inf is chosen, else numbers to add to the scores."""
    mask: Tensor | None = None
    for s in steps:
        if s.op not in ("Add", "Where"):
            continue
        operand = given[s.operand]
        if s.op == "Where":
            operand = operand if s.kept else tb.logical_not(operand)
            if mask is None and s.number == -math.inf:
                mask = operand
                continue
            before = 0.0 if mask is None else _numbers(mask, q)
            mask = tb.where(operand, before, s.number).astype(q.dtype)
        else:
            mask = operand.astype(q.dtype) if mask is None else _numbers(mask, q) + operand.astype(q.dtype)
    return mask


def _numbers(mask: Tensor, q: Tensor) -> Tensor:
    return tb.where(mask, 0.0, -math.inf).astype(q.dtype) if mask.dtype == tb.bool else mask


def _as_written(softmax: Node, steps: Sequence[Step], given: Sequence[Tensor]) -> Tensor:
    q, keys, v = given[:3]
    scores = tb.matmul(q, keys)
    for s in steps:
        by = given[s.operand] if s.operand >= 0 else s.number
        if s.op == "Add":
            scores = scores + by
        elif s.op == "Where":
            pair = (scores, s.number) if s.kept else (s.number, scores)
            scores = tb.where(given[s.operand], *pair).astype(scores.dtype)
        else:
            scores = (scores * by if s.op == "Mul" else scores / by).astype(scores.dtype)
    row = find("", "Softmax", softmax.version)
    assert row is not None
    return tb.matmul(row.function(softmax, scores).astype(v.dtype), v)
