"""Connectionist temporal classification: the probability of labels, over all ways to place them in time.

The forward algorithm runs in logarithms along a scan; gradients come from the tape. States are labels with
blanks between and around. What is impossible has the logarithm -1e30 instead of -inf, so that no derivative
meets inf - inf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.control import scan
from trilobite.framework.nn.composites.arithmetic import (
    add,
    average,
    both,
    div,
    eq,
    exp,
    gt,
    log,
    lt,
    maximum,
    mul,
    ne,
    neg,
    reshape,
    stop_gradient,
    sub,
    total,
    where,
    wide,
    window,
)
from trilobite.framework.nn.functional.loss import check_reduction
from trilobite.framework.ops.creation import to_array
from trilobite.framework.ops.meeting import astype, broadcast_to
from trilobite.framework.ops.registry import read
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

_NEVER = -1e30


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log P(targets) for log probabilities (T, N, C) or (T, C).

    Targets are (N, S), or all of them in one row. The mean divides each loss by its target's length first.
    """
    check_reduction(reduction)
    x = read(log_probs)
    single = x.ndim == 2
    if x.ndim not in (2, 3) or not 0 <= blank < x.shape[-1]:
        raise ShapeError(
            f"ctc_loss of shape {tuple(x.shape)} with blank {blank}",
            where=user_location(),
            expected="(T, N, C) or (T, C), and a blank that is one of the C classes",
        )
    x = reshape(x, shape=(x.shape[0], 1, x.shape[1])) if single else x
    n = x.shape[1]
    times, counts = (
        _lengths(what, v, n)
        for what, v in (("input_lengths", input_lengths), ("target_lengths", target_lengths))
    )
    _check_times(x.shape[0], times)
    labels = _padded_targets(read(targets), counts, n, single)
    losses = _losses(wide(x), labels, times, counts, blank)
    losses = where(gt(losses, -_NEVER / 10), 0.0 if zero_infinity else float("inf"), losses)
    if reduction == "mean":
        losses = average(div(losses, maximum(astype(counts, losses.dtype), 1.0)), (0,))
    elif reduction == "sum":
        losses = total(losses, (0,))
    elif single:
        losses = reshape(losses, shape=())
    return wrap(astype(losses, x.dtype))


def _lengths(what: str, given: Any, n: Any) -> Value:
    v = astype(read(given) if isinstance(given, Tensor) else to_array(given), dt.int64)
    v = reshape(v, shape=(1,)) if v.ndim == 0 else v
    if v.shape != (n,):
        raise ShapeError(
            f"ctc_loss: {what} of shape {tuple(v.shape)}", where=user_location(), expected=f"({n},)"
        )
    return v


def _check_times(steps: Any, times: Value) -> None:
    if isinstance(times, np.ndarray) and times.size and (times.min() < 0 or times.max() > steps):
        raise ArgumentError(
            f"ctc_loss: an input length of {times.max()} in {steps} steps",
            where=user_location(),
            expected=f"at most {steps}",
        )


def _padded_targets(targets: Value, counts: Value, n: Any, single: bool) -> Value:
    """Targets as (N, S); what stands behind the end of one is never looked at."""
    if targets.ndim == 2:
        if targets.shape[0] != n:
            raise ShapeError(
                f"ctc_loss: targets of shape {tuple(targets.shape)}",
                where=user_location(),
                expected=f"{n} rows",
            )
        return targets
    if single:
        return reshape(targets, shape=(1, targets.shape[0]))
    longest = int(counts.max()) if isinstance(counts, np.ndarray) and counts.size else targets.shape[0]
    if not longest:
        return table["full"](shape=(n, 0), dtype=targets.dtype, value=0)
    starts = sub(table["cumulative"](counts, axis=0, kind="sum", reverse=False), counts)
    at = add(reshape(starts, shape=(n, 1)), table["iota"](shape=(n, longest), dtype=dt.int64, axis=1))
    return table["gather"](targets, at, axis=0)


def _losses(x: Value, labels: Value, times: Value, counts: Value, blank: int) -> Value:
    states = _with_blanks(labels, blank)
    n, s = states.shape
    at = table["iota"](shape=(n, s), dtype=dt.int64, axis=1)
    skips = _may_skip(states, blank)
    emitted = _emissions(x, states)
    begins = lt(at, 2)
    first = where(begins, window_row(emitted, 0), _NEVER)

    def step(alpha: Any, now: Any) -> Any:
        old, (scores, live) = alpha._read(), (t._read() for t in now)
        came = _logsum(old, _moved(old, 1), where(skips, _moved(old, 2), _NEVER))
        new = where(live, add(came, scores), old)
        return wrap(new), None

    rest = window(emitted, 0, 1, emitted.shape[0])
    steps = table["iota"](shape=(rest.shape[0], n), dtype=dt.int64, axis=0)
    live = reshape(lt(add(steps, 1), times), shape=(rest.shape[0], n, 1))
    alpha = scan(step, wrap(first), (wrap(rest), wrap(live)))[0]._read()
    last, before = (_state(alpha, add(mul(counts, 2), i)) for i in (0, -1))
    reached = where(gt(counts, 0), before, _NEVER)
    found = _logsum(last, reached)
    # With no time at all only the empty target is possible.
    nothing = where(eq(counts, 0), 0.0, full(found, _NEVER))
    return neg(where(eq(times, 0), nothing, found))


def full(like: Value, number: float) -> Value:
    return table["full"](shape=like.shape, dtype=like.dtype, value=number)


def window_row(x: Value, i: int) -> Value:
    return reshape(window(x, 0, i, i + 1), shape=x.shape[1:])


def _with_blanks(labels: Value, blank: int) -> Value:
    """(N, 2S + 1): blank, label, blank, label, ..., blank."""
    s = labels.shape[1]
    return (
        table["pad"](labels, low=(0, 1), high=(0, 1), between=(0, 1), value=blank)
        if s
        else full_row(labels, blank)
    )


def full_row(labels: Value, blank: int) -> Value:
    return table["full"](shape=(labels.shape[0], 1), dtype=labels.dtype, value=blank)


def _may_skip(states: Value, blank: int) -> Value:
    """A label may follow the label before it without a blank between, unless they are equal."""
    before = (
        table["pad"](states, low=(0, 2), high=(0, -2), between=(0, 0), value=blank)
        if states.shape[1] > 1
        else states
    )
    return both(ne(states, blank), ne(states, before))


def _emissions(x: Value, states: Value) -> Value:
    """(T, N, states): the log probability of each state's class at each step."""
    steps, (n, s) = x.shape[0], states.shape
    places = broadcast_to(reshape(astype(states, dt.int64), shape=(1, n, s)), (steps, n, s))
    return table["take_along"](x, places, axis=2)


def _moved(alpha: Value, by: int) -> Value:
    """Each state's neighbour `by` before it."""
    by = min(by, alpha.shape[1])
    return table["pad"](alpha, low=(0, by), high=(0, -by), between=(0, 0), value=_NEVER)


def _logsum(*terms: Value) -> Value:
    top = terms[0]
    for t in terms[1:]:
        top = maximum(top, t)
    top = stop_gradient(top)
    summed = exp(sub(terms[0], top))
    for t in terms[1:]:
        summed = add(summed, exp(sub(t, top)))
    return add(log(summed), top)


def _state(alpha: Value, at: Value) -> Value:
    column = reshape(maximum(at, 0), shape=(*at.shape, 1))
    return reshape(table["take_along"](alpha, column, axis=1), shape=at.shape)
