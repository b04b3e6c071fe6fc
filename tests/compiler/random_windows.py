"""Steps of random graphs over windows and places: convolutions, pooling, scatters, sorting, moving slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.compiler.random_values import Chooser
from trilobite.base import dtypes as dt
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType


class WindowSteps(Chooser):
    def ints(self, low: int, high: int, n: int) -> tuple[int, ...]:
        return tuple(int(i) for i in self.rng.integers(low, high, n))

    def conv(self, pool: list[Any]) -> list[Any]:
        """A convolution over one or two axes, or one of its gradients."""
        rank, groups = self.pick([1, 2]), self.pick([1, 1, 2])
        channels, kernels = groups * self.pick([1, 2, 3]), groups * self.pick([1, 2])
        dtype = self.pick([dt.float32, dt.float32, dt.float64, dt.bfloat16, dt.int32])
        x = self.like(pool, TensorType((self.pick([1, 2]), channels, *self.ints(3, 7, rank)), dtype))
        w = self.like(pool, TensorType((kernels, channels // groups, *self.ints(1, 4, rank)), dtype))
        window = {
            "stride": self.ints(1, 3, rank), "low": self.ints(0, 3, rank), "high": self.ints(0, 3, rank),
            "x_dilation": (1,) * rank, "w_dilation": self.ints(1, 3, rank), "groups": groups, "dtype": dtype,
        }  # fmt: skip
        y = table["conv"](x, w, **window)
        rough = self.is_rough(x, w) or dt.is_inexact(dtype)
        if self.chance(0.3):
            return self.mark(rough, table["conv_input_grad"](y, w, space=x.shape[2:], **window))
        if self.chance(0.3):
            return self.mark(rough, table["conv_weight_grad"](x, y, kernel=w.shape[2:], **window))
        return self.mark(rough, y)

    def window_reduce(self, pool: list[Any]) -> list[Any]:
        x = self.like(pool, TensorType((2, *self.ints(3, 7, 2)), self.dtype()))
        window = {
            "size": self.ints(1, 4, 2), "stride": self.ints(1, 3, 2), "dilation": (1, 1),
            "low": self.ints(0, 2, 2), "high": self.ints(0, 2, 2), "kind": self.pick(["max", "min", "sum"]),
        }  # fmt: skip
        return self.mark(self.is_rough(x) or dt.is_inexact(x.dtype), table["window_reduce"](x, **window))

    def scatter(self, pool: list[Any]) -> list[Any]:
        """Along lanes, added up; a float that several updates meet is a sum, and so rough."""
        x = self.pick([v for v in pool if v.shape] or [self.constant(TensorType((4,), dt.float32))])
        t = TensorType(x.shape, x.dtype)
        indices = self.like(pool, TensorType(x.shape, dt.int32), smooth=False)
        updates, axis = self.like(pool, t), int(self.rng.integers(len(x.shape)))
        out = table["scatter_along"](x, indices, updates, axis=axis, kind="add")
        return self.mark(self.is_rough(x, updates) or dt.is_inexact(x.dtype), out)

    def sort(self, pool: list[Any]) -> list[Any]:
        x = self.firm([v for v in pool if v.shape])
        y = self.like(pool, TensorType(x.shape, self.dtype()), smooth=False)
        return list(table["sort"](x, y, axis=int(self.rng.integers(max(len(x.shape), 1))), keys=1))

    def dynamic_slice(self, pool: list[Any]) -> list[Any]:
        x = self.pick(pool)
        starts = [self.like(pool, TensorType((), dt.int32), smooth=False) for _ in x.shape]
        sizes = tuple(int(self.rng.integers(0, d + 1)) if isinstance(d, int) else d for d in x.shape)
        if self.chance(0.4):
            y = self.like(pool, TensorType(sizes, x.dtype))
            return self.mark(self.is_rough(x, y), table["dynamic_update_slice"](x, y, *starts))
        return self.mark(self.is_rough(x), table["dynamic_slice"](x, *starts, sizes=sizes))

    def quantise(self, pool: list[Any]) -> list[Any]:
        """To integers of 8 bits and back."""
        x = self.like(pool, TensorType(self.shape(2), dt.float32), smooth=False)
        scale, zero = np.float32(self.pick([0.5, 0.1])), self.pick([np.int8(0), np.int8(-3)])
        q = table["quantise"](x, np.asarray(scale), np.asarray(zero), dtype=dt.int8, axis=None)
        return [q, table["dequantise"](q, np.asarray(scale), np.asarray(zero), axis=None)]
