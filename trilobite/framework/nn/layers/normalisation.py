"""Normalisation layers. Running statistics are buffers, written in place in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.modes import no_grad
from trilobite.framework.nn import functional as F
from trilobite.framework.nn import init
from trilobite.framework.nn.composites.arithmetic import add, div
from trilobite.framework.nn.functional.calling import run, write
from trilobite.framework.nn.layers.base import shown
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.nn.settings import check_sizes
from trilobite.framework.ops.creation import ones, zeros
from trilobite.framework.ops.meeting import astype
from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor


class _Running(Module):
    """Channels, perhaps scaled and shifted, perhaps with running statistics."""

    ranks: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        check_sizes(type(self).__name__, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        size = (num_features,)
        self.register_parameter("weight", Parameter(ones(size, dtype=dtype)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(size, dtype=dtype)) if affine and bias else None)
        self.register_buffer("running_mean", zeros(size, dtype=dtype) if track_running_stats else None)
        self.register_buffer("running_var", ones(size, dtype=dtype) if track_running_stats else None)
        self.register_buffer(
            "num_batches_tracked", zeros((), dtype=dt.int64) if track_running_stats else None
        )

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batch seen."""
        buffers = ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0))
        for buffer, value in buffers:
            if buffer is not None:
                write(buffer, value)

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check(self, x: Tensor, axis: int) -> None:
        if x.ndim not in self.ranks or x.shape[axis] != self.num_features:
            ranks = " or ".join(map(str, self.ranks))
            raise ShapeError(
                f"{type(self).__name__} of shape {tuple(x.shape)}",
                where=user_location(),
                expected=f"{ranks} axes, with {self.num_features} channels",
                remedy="channels stand in axis 1: move them there, or build the layer for them",
            )

    def extra_repr(self) -> str:
        return f"{self.num_features}, " + shown(self, "eps", "momentum", "affine", "track_running_stats")


_NormBase = _Running  # PyTorch's name


class _BatchNorm(_Running):
    def forward(self, input: Tensor) -> Tensor:
        self._check(input, 1)
        by_batch = self.training or self.running_mean is None
        moving = self.training and self.track_running_stats
        momentum = self._count(input._peek().dtype) if moving else 0.0
        mean, var = (self.running_mean, self.running_var) if moving or not by_batch else (None, None)
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)

    def _count(self, dtype: dt.DType) -> float | Tensor:
        """One batch more; how far statistics move, without a momentum so as to average all batches so far."""
        if self.num_batches_tracked is not None:
            with no_grad():
                counted = run(lambda n: add(n, 1), self.num_batches_tracked)
                write(self.num_batches_tracked, counted)
                if self.momentum is None:
                    return run(lambda n: div(1.0, astype(n, dt.accumulator(dtype))), counted)
        return 0.0 if self.momentum is None else self.momentum


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W)."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Statistics of the batch of all processes: there is one."""

    ranks = (2, 3, 4, 5)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype, bias=bias)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module itself: with one process all its batch norms are in step."""
        return module


class _InstanceNorm(_Running):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        single = input.ndim == self.ranks[0]
        self._check(input, 0 if single else 1)
        x = input.reshape((1, *input.shape)) if single else input
        by_input = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        out = F.instance_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, by_input, momentum, self.eps
        )
        return out.reshape(input.shape) if single else out


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L)."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    ranks = (4, 5)


def _sizes(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, (int, np.integer)) else tuple(normalized_shape)


class LayerNorm(Module):
    """Normalisation over the last axes."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape, self.eps = _sizes(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        sizes = self.normalized_shape
        self.register_parameter("weight", Parameter(ones(sizes, dtype=dtype)) if elementwise_affine else None)
        self.register_parameter(
            "bias", Parameter(zeros(sizes, dtype=dtype)) if elementwise_affine and bias else None
        )

    weight: Parameter | None
    bias: Parameter | None

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, " + shown(self, "eps", "elementwise_affine")


class RMSNorm(Module):
    """Division by the root mean square over the last axes."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape, self.eps = _sizes(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        weight = Parameter(ones(self.normalized_shape, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)

    weight: Parameter | None

    def reset_parameters(self) -> None:
        """Scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, " + shown(self, "eps", "elementwise_affine")


class GroupNorm(Module):
    """Normalisation of groups of channels."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        check_sizes("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ArgumentError(
                f"GroupNorm of {num_channels} channels in {num_groups} groups",
                where=user_location(),
                expected="a number of groups that divides the channels",
            )
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.register_parameter("weight", Parameter(ones((num_channels,), dtype=dtype)) if affine else None)
        self.register_parameter(
            "bias", Parameter(zeros((num_channels,), dtype=dtype)) if affine and bias else None
        )

    weight: Parameter | None
    bias: Parameter | None

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, " + shown(self, "eps", "affine")


class LocalResponseNorm(Module):
    """x divided by what neighbouring channels have."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, " + shown(self, "alpha", "beta", "k")


class CrossMapLRN2d(LocalResponseNorm):
    """LocalResponseNorm as Caffe's models have it: once the first channel is in the window it stays there,
    as in PyTorch.
    """

    def forward(self, input: Tensor) -> Tensor:
        squares: Any = input * input
        channels, reach = squares.shape[1], int((self.size - 1) / 2)
        sums = [squares[:, max(0, c - reach) : c + reach + 1].sum(axis=1) for c in range(channels)]
        late = [s if c <= reach else s + squares[:, 0] for c, s in enumerate(sums)]
        total = operators["stack"].public(late, axis=1)
        return input * (self.k + total * (self.alpha / self.size)) ** -self.beta  # type: ignore[no-any-return]
