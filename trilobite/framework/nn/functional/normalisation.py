"""Normalisation of tensors; running statistics are tensors written in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.composites import normalisation as c
from trilobite.framework.nn.composites.arithmetic import (
    add,
    average,
    check_real,
    div,
    floating,
    maximum,
    mul,
    number,
    power,
    reshape,
    sqrt,
    sub,
    wide,
    window,
)
from trilobite.framework.nn.functional.calling import run, run_many, write
from trilobite.framework.ops.creation import filled
from trilobite.framework.ops.meeting import astype
from trilobite.framework.ops.reducing import axes_of, kept, norm_of
from trilobite.framework.replay.functions import replayed
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.types import size_of


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise every channel (axis 1): in training by the batch's statistics, which move the running ones;
    else by those.
    """
    if training and running_mean is None and running_var is None:
        return _by_itself(input, weight, bias, eps)
    _check_channels("batch_norm", input)
    weight, bias = _scale_and_shift(input.shape[1], weight, bias)
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError(
                "batch_norm without statistics",
                where=user_location(),
                remedy="training=True, or pass running_mean and running_var",
            )
        return run(c.batch_norm_inference, input, running_mean, running_var, weight, bias, place=1, eps=eps)
    axes = _all_but_channels(input)
    out, mean, var = run_many(c.batch_norm, input, weight, bias, axes=axes, places=(1,), eps=eps, stats=True)
    _move(running_mean, running_var, mean, var, momentum, input.shape, axes)
    return out


@replayed
def _by_itself(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """By the batch's statistics, which move nothing."""
    _check_channels("batch_norm", input)
    weight, bias = _scale_and_shift(input.shape[1], weight, bias)
    axes = _all_but_channels(input)
    return run_many(c.batch_norm, input, weight, bias, axes=axes, places=(1,), eps=eps, stats=True)[0]


def _all_but_channels(input: Tensor) -> tuple[int, ...]:
    axes = (0, *range(2, input.ndim))
    if size_of([input.shape[a] for a in axes]) == 1:
        raise ShapeError(
            f"batch_norm in training of shape {tuple(input.shape)}",
            where=user_location(),
            expected="more than one value per channel",
            remedy="a larger batch, or module.eval()",
        )
    return axes


def _scale_and_shift(
    count: Any, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """A shift without a scale gets a scale of ones: the composites know a weight, or both."""
    if weight is None and bias is not None:
        weight = filled((count,) if isinstance(count, int) else tuple(count), 1, bias._peek().dtype)
    return weight, bias


def _move(
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor,
    var: Tensor,
    momentum: Any,
    shape: Any,
    axes: Any,
) -> None:
    """Running statistics move towards the batch's; the variance is the unbiased one."""
    n = size_of([shape[a] for a in axes])
    for old, new, unbiased in ((running_mean, mean, False), (running_var, var, True)):
        if old is not None:
            with no_grad():
                moved = run(_moved, old, new, momentum=momentum, count=n if unbiased else None)
            write(old, moved)


def _moved(old: Value, new: Value, momentum: Any, count: Any) -> Value:
    new = reshape(new, shape=old.shape) if new.shape[0] == 1 else reshape(average(new, (0,)), shape=old.shape)
    if count is not None:
        n = number(count, new.dtype)
        new = mul(new, div(n, sub(n, 1.0)))
    if isinstance(momentum, Tensor):
        momentum = astype(momentum._read(), new.dtype)
    return astype(add(mul(wide(old), sub(1.0, momentum)), mul(new, momentum)), old.dtype)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise every channel of every example over space."""
    _check_channels("instance_norm", input, least=3)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    weight, bias = _scale_and_shift(input.shape[1], weight, bias)
    axes = tuple(range(2, input.ndim))
    if size_of([input.shape[a] for a in axes]) == 1:
        raise ShapeError(
            f"instance_norm of shape {tuple(input.shape)}",
            where=user_location(),
            expected="more than one value per channel",
        )
    out, mean, var = run_many(
        c.instance_norm, input, weight, bias, axes=axes, places=(1,), eps=eps, stats=True
    )
    _move(running_mean, running_var, mean, var, momentum, input.shape, axes)
    return out


def _check_channels(what: str, x: Tensor, least: int = 2) -> None:
    if x.ndim < least:
        raise ShapeError(
            f"{what} of shape {tuple(x.shape)}",
            where=user_location(),
            expected=f"at least {least} axes, channels in axis 1",
        )


@replayed
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise over the last axes, whose sizes are normalized_shape."""
    axes = _last("layer_norm", input, normalized_shape)
    weight, bias = _scale_and_shift(tuple(normalized_shape), weight, bias)
    return run(c.layer_norm, input, weight, bias, axes=axes, places=axes, eps=eps, stats=False)


@replayed
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root mean square over the last axes; eps is the dtype's own unless given."""
    axes = _last("rms_norm", input, normalized_shape)
    if eps is None:
        dtype = input.dtype if dt.is_inexact(input.dtype) else dt.default_float
        eps = float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    return run(c.rms_norm, input, weight, axes=axes, eps=eps)


def _last(what: str, x: Tensor, normalized_shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(normalized_shape)
    n = len(sizes)
    if not n or x.shape[-n:] != sizes:
        raise ShapeError(
            f"{what} of shape {tuple(x.shape)} over {sizes}",
            where=user_location(),
            expected=f"last axes of sizes {sizes}",
        )
    return tuple(range(x.ndim - n, x.ndim))


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise every group of channels (axis 1) of every example."""
    _check_channels("group_norm", input)
    channels = input.shape[1]
    if num_groups < 1 or channels % num_groups:
        raise ArgumentError(
            f"group_norm of {channels} channels in {num_groups} groups",
            where=user_location(),
            expected="a number of groups that divides the channels",
        )
    weight, bias = _scale_and_shift(channels, weight, bias)
    return run(_group_norm, input, weight, bias, groups=num_groups, eps=eps)


def _group_norm(x: Value, *affine: Value, groups: int, eps: float) -> Value:
    split = (groups, x.shape[1] // groups)
    grouped = reshape(x, shape=(x.shape[0], *split, *x.shape[2:]))
    weights = [reshape(v, shape=split) for v in affine]
    axes = tuple(range(2, grouped.ndim))
    out = c.group_norm(grouped, *weights, axes=axes, places=(1, 2), eps=eps, stats=False)
    return reshape(out, shape=x.shape)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x/(k + alpha·mean of x² over `size` neighbouring channels)^beta."""
    _check_channels("local_response_norm", input, least=3)
    if size < 1:
        raise ArgumentError(
            f"local_response_norm over {size} channels", where=user_location(), expected="at least 1"
        )
    return run(_local_response_norm, input, size=size, alpha=alpha, beta=beta, k=k)


def _local_response_norm(x: Value, size: int, alpha: float, beta: float, k: float) -> Value:
    check_real("local_response_norm", x)
    x = floating(x)
    w = wide(x)
    edges = [0] * x.ndim, [0] * x.ndim
    edges[0][1], edges[1][1] = size // 2, (size - 1) // 2
    squares = table["pad"](
        mul(w, w), low=tuple(edges[0]), high=tuple(edges[1]), between=(0,) * x.ndim, value=0.0
    )
    near = window(squares, 1, 0, x.shape[1])
    for i in range(1, size):
        near = add(near, window(squares, 1, i, i + x.shape[1]))
    return astype(div(w, _to_power(add(mul(near, alpha / size), k), beta)), x.dtype)


def _to_power(x: Value, exponent: float) -> Value:
    """By roots where those do: 0.75, which papers chose, is two of them, a fraction of a power's work."""
    if exponent == 0.5:
        return sqrt(x)
    if exponent == 0.75:
        root = sqrt(x)
        return mul(root, sqrt(root))
    return power(x, exponent)


def normalize(input: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12) -> Tensor:
    """Divide by the p-norm along an axis, at least eps."""
    return run(_normalize, input, p=float(p), dim=dim, eps=eps)


def _normalize(x: Value, p: float, dim: int | tuple[int, ...], eps: float) -> Value:
    axes = axes_of(dim, x.ndim, "normalize")
    x = floating(x)
    w = wide(x)
    size = kept(w, norm_of(w, p, axes), axes, keepdims=True)
    return astype(div(w, maximum(size, eps)), x.dtype)
