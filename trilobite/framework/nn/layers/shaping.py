"""Layers that only change shapes: flattening, unflattening, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.nn import functional as F
from trilobite.framework.nn.functional.padding import checked_rank
from trilobite.framework.nn.layers.base import FunctionLayer, shown
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.settings import repeated
from trilobite.framework.ops.axes import axis_in
from trilobite.framework.tensor import Tensor
from trilobite.ir.types import size_of


class Flatten(Module):
    """A range of axes as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        first, last = (axis_in(d, input.ndim, "Flatten") for d in (self.start_dim, self.end_dim))
        if first > last:
            raise ShapeError(
                f"Flatten from axis {self.start_dim} to {self.end_dim} of shape {tuple(input.shape)}",
                where=user_location(),
                expected="the first not behind the last",
            )
        shape = input.shape
        merged = size_of(shape[first : last + 1])
        return input.reshape((*shape[:first], merged, *shape[last + 1 :]))  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return shown(self, "start_dim", "end_dim")


class Unflatten(Module):
    """One axis as several."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        a = axis_in(self.dim, input.ndim, "Unflatten")
        rest = math.prod(d for d in self.unflattened_size if d != -1)
        sizes = tuple(input.shape[a] // rest if d == -1 else d for d in self.unflattened_size)
        if size_of(sizes) != input.shape[a]:
            raise ShapeError(
                f"Unflatten of {input.shape[a]} elements to {self.unflattened_size}",
                where=user_location(),
                expected="as many elements as before",
            )
        return input.reshape((*input.shape[:a], *sizes, *input.shape[a + 1 :]))  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return shown(self, "dim", "unflattened_size")


class Unfold(FunctionLayer):
    """Sliding blocks of (N, C, H, W) as columns."""

    function = F.unfold


class Fold(FunctionLayer):
    """Columns back as blocks, summed where they overlap."""

    function = F.fold


class _Pad(Module):
    """Padding of space: one number for all sides, or two per axis from the last on."""

    space: ClassVar[int]
    mode: ClassVar[str] = "constant"

    def __init__(self, padding: Any) -> None:
        if isinstance(padding, (tuple, list)) and len(padding) != 2 * self.space:
            raise ArgumentError(
                f"{type(self).__name__}({padding!r})",
                where=user_location(),
                expected=f"a number, or {2 * self.space} of them",
            )
        self.padding = repeated("padding", padding, 2 * self.space)

    def forward(self, input: Tensor) -> Tensor:
        checked_rank(type(self).__name__, input, self.space)
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return shown(self, "padding")


class _Constant(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return shown(self, "padding", "value")


class ConstantPad1d(_Constant):
    """A number around (N, C, L)."""

    space = 1


class ConstantPad2d(_Constant):
    """A number around (N, C, H, W)."""

    space = 2


class ConstantPad3d(_Constant):
    """A number around (N, C, D, H, W)."""

    space = 3


class ZeroPad1d(_Pad):
    """Zeros around (N, C, L)."""

    space = 1


class ZeroPad2d(_Pad):
    """Zeros around (N, C, H, W)."""

    space = 2


class ZeroPad3d(_Pad):
    """Zeros around (N, C, D, H, W)."""

    space = 3


class ReflectionPad1d(_Pad):
    """Reflections around (N, C, L)."""

    space, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Reflections around (N, C, H, W)."""

    space, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Reflections around (N, C, D, H, W)."""

    space, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """The edge repeated around (N, C, L)."""

    space, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """The edge repeated around (N, C, H, W)."""

    space, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """The edge repeated around (N, C, D, H, W)."""

    space, mode = 3, "replicate"


class CircularPad1d(_Pad):
    """The other end around (N, C, L)."""

    space, mode = 1, "circular"


class CircularPad2d(_Pad):
    """The other end around (N, C, H, W)."""

    space, mode = 2, "circular"


class CircularPad3d(_Pad):
    """The other end around (N, C, D, H, W)."""

    space, mode = 3, "circular"
