"""Random choices for random graphs: dtypes, shapes, operands that fit, and which values are rough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.compiler.arrays import random_array
from trilobite.base import dtypes as dt
from trilobite.ir.graph import Var
from trilobite.ir.primitive import table
from trilobite.ir.types import Affine, Dim, Symbol, TensorType

DTYPES = sorted(dt.ALL, key=str)
USUAL = [
    dt.float32,
    dt.float32,
    dt.float32,
    dt.float64,
    dt.bfloat16,
    dt.float16,
    dt.int32,
    dt.int64,
    dt.bool_,
]
SIZES = [1, 1, 2, 3, 4, 5, 7, 0]


class Chooser:
    """Draws from one generator, so that a seed decides everything."""

    def __init__(self, seed: int, symbolic: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.size: Dim = Affine(0, [(Symbol("n", 1, 6), 1)]) if symbolic else 3
        self.rough: set[Var] = set()

    # -- choosing --------------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def dtype(self) -> dt.DType:
        found: dt.DType = self.pick(DTYPES if self.chance(0.3) else USUAL)
        return found

    def shape(self, most: int = 3) -> tuple[Dim, ...]:
        sizes = [s for s in SIZES if s or self.chance(0.2)]
        shape = [self.pick(sizes) for _ in range(int(self.rng.integers(0, most + 1)))]
        return tuple(self.size if self.chance(0.2) else d for d in shape)

    def is_rough(self, *values: Any) -> bool:
        return any(v.var in self.rough for v in values)

    def mark(self, rough: bool, *outs: Any) -> list[Any]:
        if rough:
            self.rough.update(o.var for o in outs)
        return list(outs)

    # -- operands --------------------------------------------------------------------------------------------

    def firm(self, pool: Sequence[Any]) -> Any:
        """A value that is not rough."""
        found = [v for v in pool if not self.is_rough(v)]
        return self.pick(found) if found else self.constant(TensorType(self.shape(), self.dtype()))

    def like(self, pool: Sequence[Any], t: TensorType, smooth: bool = True) -> Any:
        """A value of this type: one there is, a repeated one, a converted one, a number, a constant."""
        usable = [v for v in pool if smooth or not self.is_rough(v)]
        same = [v for v in usable if v.shape == t.shape and v.dtype == t.dtype]
        if same and self.chance(0.6):
            return self.pick(same)
        small = [v for v in usable if v.dtype == t.dtype and _axes(v.shape, t.shape) is not None]
        if small and self.chance(0.6):
            v = self.pick(small)
            wide = table["broadcast"](v, shape=t.shape, axes=_axes(v.shape, t.shape))
            return self.mark(self.is_rough(v), wide)[0]
        if not self.chance(0.5) or any(isinstance(d, Affine) for d in t.shape):
            return table["full"](shape=t.shape, dtype=t.dtype, value=self.pick([0, 1, 2, 3, 1, 0]))
        return self.constant(t)

    def constant(self, t: TensorType) -> Any:
        shape = tuple(3 if isinstance(d, Affine) else d for d in t.shape)
        return table["reshape"](random_array(self.rng, shape, t.dtype, wild=self.chance(0.2)), shape=shape)

    def axes(self, ndim: int) -> tuple[int, ...]:
        return tuple(i for i in range(ndim) if self.chance(0.5))


def _axes(small: Sequence[Dim], large: Sequence[Dim]) -> tuple[int, ...] | None:
    """Where the axes of a smaller shape may lie in a larger one, from the last one back."""
    axes: list[int] = []
    at = len(large) - 1
    for d in reversed(small):
        while at >= 0 and d not in (1, large[at]):
            at -= 1
        if at < 0:
            return None
        axes.append(at)
        at -= 1
    return tuple(reversed(axes))
