"""Rows of a table by index, alone or combined in bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.composites.arithmetic import (
    add,
    div,
    eq,
    full_like,
    ge,
    gt,
    largest,
    lt,
    maximum,
    mul,
    reshape,
    stop_gradient,
    sub,
    total,
    where,
    wide,
)
from trilobite.framework.nn.functional.calling import as_tensor, run, write
from trilobite.framework.ops.meeting import astype, broadcast_to
from trilobite.framework.ops.reducing import kept, norm_of
from trilobite.framework.replay.plans import planned, require
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.cells import bottom
from trilobite.ir.transforms.composite import composite


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """weight[input]. The row padding_idx gets no gradient; rows longer than max_norm are first shortened in
    place. Gradients are whole arrays, with `sparse` too.
    """
    if padding_idx is None and max_norm is None and not scale_grad_by_freq:
        done: Tensor | None = planned(_known_rows, (weight, input), {})
        if done is not None:
            return done
    input, weight = as_tensor(input), as_tensor(weight)
    pad = _check(input, weight, padding_idx)
    if max_norm is not None:
        _shorten(input, weight, float(max_norm), float(norm_type))
    rows = run(_counted_rows if scale_grad_by_freq else _rows, weight, input)
    return rows if pad is None else run(_without_gradient, rows, input, pad=pad)


def _check_kinds(indices: Any, weight: Any) -> None:
    if not dt.is_integer(indices.dtype):
        raise DTypeError(
            f"embedding of {indices.dtype} indices",
            where=user_location(),
            expected="integers",
            remedy="cast them: indices.long()",
        )
    if weight.ndim != 2:
        raise ShapeError(
            f"an embedding table of shape {tuple(weight.shape)}",
            where=user_location(),
            expected="(rows, features)",
        )


def _check(indices: Tensor, weight: Tensor, padding_idx: int | None) -> int | None:
    _check_kinds(indices, weight)
    n = weight.shape[0]
    found = bottom(indices._read())
    if isinstance(found, np.ndarray) and found.size and not (found.min() >= 0 and found.max() < n):
        raise IndexingError(
            f"embedding: an index {found.min() if found.min() < 0 else found.max()} of a table with {n} rows",
            where=user_location(),
            expected=f"0 <= index < {n}",
            remedy="build the table with more rows, or map unknown tokens to one of them",
        )
    if padding_idx is not None and not -n <= padding_idx < n:
        raise ArgumentError(
            f"padding_idx {padding_idx} of a table with {n} rows",
            where=user_location(),
            expected=f"{-n} <= padding_idx < {n}",
        )
    return None if padding_idx is None else padding_idx if padding_idx >= 0 else padding_idx + int(n)


def _rows(weight: Value, indices: Value) -> Value:
    return table["gather"](weight, indices, axis=0)


def _known_rows(weight: Value, indices: Value) -> Value:
    """Rows of indices that are in range: what an embedding plainly is, as a plan."""
    _check_kinds(indices, weight)
    at, ends = astype(indices, dt.int64), (0, weight.shape[0])
    zero, beyond = (table["full"](shape=at.shape, dtype=dt.int64, value=v) for v in ends)
    require(table["and"](table["ge"](at, zero), table["lt"](at, beyond)))
    return _rows(weight, indices)


def _without_gradient(rows: Value, indices: Value, pad: int) -> Value:
    here = reshape(eq(indices, pad), shape=(*indices.shape, 1))
    return where(here, stop_gradient(rows), rows)


# -- gradients divided by how often a row is used ------------------------------------------------------------


def _counted_forward(weight: Value, indices: Value) -> tuple[Value, tuple[Value, Value]]:
    return _rows(weight, indices), (weight, indices)


def _counted_backward(residuals: tuple[Value, Value], cts: tuple[Value]) -> list[Any]:
    (weight, indices), (ct,) = residuals, cts
    places = reshape(indices, shape=(*indices.shape, 1))
    zero = table["full"](shape=weight.shape, dtype=weight.dtype, value=0.0)
    counts = table["full"](shape=(weight.shape[0],), dtype=weight.dtype, value=0.0)
    ones = table["full"](shape=indices.shape, dtype=weight.dtype, value=1.0)
    counts = maximum(table["scatter"](counts, places, ones, axes=(0,), kind="add"), 1.0)
    summed = table["scatter"](zero, places, ct, axes=(0,), kind="add")
    return [div(summed, reshape(counts, shape=(weight.shape[0], 1))), None]


_counted_rows = composite("embedding_by_frequency", _counted_forward, _counted_backward)(_rows)

# -- rows of bounded length ----------------------------------------------------------------------------------


def _shorten(indices: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    with no_grad():
        shorter = run(_shortened, weight, indices, max_norm=max_norm, p=norm_type)
    write(weight, shorter)


def _shortened(weight: Value, indices: Value, max_norm: float, p: float) -> Value:
    rows = wide(_rows(weight, indices))
    last = (rows.ndim - 1,)
    size = kept(rows, norm_of(rows, p, last), last, keepdims=True)
    factor = where(gt(size, max_norm), div(max_norm, add(size, 1e-7)), 1.0)
    places = reshape(indices, shape=(*indices.shape, 1))
    return table["scatter"](weight, places, astype(mul(rows, factor), weight.dtype), axes=(0,), kind="set")


# -- bags ----------------------------------------------------------------------------------------------------


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of each bag: the rows of a matrix of indices, or what offsets mark
    in a vector.
    """
    input, weight, offsets = as_tensor(input), as_tensor(weight), as_tensor(offsets)
    _check_bags(input, offsets, mode, per_sample_weights)
    pad = _check(input, weight, padding_idx)
    rows = embedding(input, weight, None, max_norm, norm_type, scale_grad_by_freq)
    attributes = {"mode": mode, "pad": pad, "last": include_last_offset}
    weights = [] if per_sample_weights is None else [per_sample_weights]
    return run(
        _bags if offsets is None else _marked_bags,
        rows,
        input,
        *([] if offsets is None else [offsets]),
        *weights,
        **attributes,
    )


def _check_bags(input: Tensor, offsets: Tensor | None, mode: str, weights: Tensor | None) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(
            f"embedding_bag(mode={mode!r})", where=user_location(), expected="'sum', 'mean' or 'max'"
        )
    if weights is not None and (mode != "sum" or weights.shape != input.shape):
        raise ArgumentError(
            f"per_sample_weights of shape {tuple(weights.shape)} with mode {mode!r}",
            where=user_location(),
            expected="mode 'sum', and one weight per index",
        )
    if (input.ndim, offsets is None) not in ((1, False), (2, True)):
        raise ShapeError(
            f"embedding_bag of {tuple(input.shape)} indices, {'no' if offsets is None else 'with'} offsets",
            where=user_location(),
            expected="a matrix without offsets, or a vector with them",
        )


def _bags(rows: Value, indices: Value, *weights: Value, mode: str, pad: int | None, last: bool) -> Value:
    live = full_like(indices, 1) if pad is None else table["cast"](_ne(indices, pad), dtype=indices.dtype)
    return _combined(rows, gt(live, 0), weights, mode, None, rows.shape[0])


def _ne(x: Value, number: int) -> Value:
    return table["not"](eq(x, number))


def _marked_bags(
    rows: Value, indices: Value, offsets: Value, *weights: Value, mode: str, pad: int | None, last: bool
) -> Value:
    """Row i belongs to the last bag that begins at or before i."""
    bags = offsets.shape[0] - last
    n = indices.shape[0]
    starts = reshape(astype(offsets, dt.int64), shape=(1, offsets.shape[0]))
    at = table["iota"](shape=(n, offsets.shape[0]), dtype=dt.int64, axis=0)
    passed = table["cast"](ge(at, starts), dtype=dt.int64)
    bag = sub(total(passed, (1,)), 1)
    live = lt(bag, bags)
    if pad is not None:
        live = table["and"](live, _ne(indices, pad))
    return _combined(rows, live, weights, mode, bag, bags)


def _combined(rows: Value, live: Value, weights: Any, mode: str, bag: Value | None, bags: Any) -> Value:
    """Rows that are live, combined along axis 1, or by the number of their bag."""
    column = reshape(live, shape=(*live.shape, 1))
    count = _gathered(table["cast"](column, dtype=rows.dtype), bag, bags, "add")
    if mode == "max":
        lowest = float("-inf")
        best = _gathered(where(column, rows, lowest), bag, bags, "max")
        return where(gt(count, 0), best, 0.0)
    if weights:
        rows = mul(rows, reshape(weights[0], shape=(*live.shape, 1)))
    summed = _gathered(where(column, rows, 0.0), bag, bags, "add")
    return div(summed, maximum(count, 1.0)) if mode == "mean" else summed


def _gathered(rows: Value, bag: Value | None, bags: Any, kind: str) -> Value:
    if bag is None:
        return total(rows, (1,)) if kind == "add" else largest(rows, (1,))
    start = table["full"](
        shape=(bags, rows.shape[1]), dtype=rows.dtype, value=0.0 if kind == "add" else float("-inf")
    )
    places = reshape(bag, shape=(*bag.shape, 1))
    if kind == "add":
        return table["scatter"](start, places, rows, axes=(0,), kind="add")
    mine = eq(
        reshape(bag, shape=(1, bag.shape[0], 1)),
        reshape(table["iota"](shape=(bags,), dtype=bag.dtype, axis=0), shape=(bags, 1, 1)),
    )
    spread = broadcast_to(reshape(rows, shape=(1, *rows.shape)), (bags, *rows.shape))
    return largest(where(mine, spread, float("-inf")), (1,))
