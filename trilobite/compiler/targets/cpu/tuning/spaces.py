"""The parameters that kernels expose, by kind, with the values a search may try.

None of them changes a bit of a result: they say how work is cut into blocks and units, never in which order
the terms of a sum are taken. (The depth of a product's blocks would; it is no parameter for that reason, and
little is lost: between half and twice its value, the least times of products of 512 and 1024 are within 2%.)
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping

from trilobite.base.records import dataclass


@dataclass(frozen=True)
class Space:
    """Names and their values, in rising order."""

    values: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.values)

    @property
    def size(self) -> int:
        return math.prod(len(v) for _, v in self.values)

    def __iter__(self) -> Iterator[dict[str, int]]:
        for combination in itertools.product(*(v for _, v in self.values)):
            yield dict(zip(self.names, combination, strict=True))

    def contains(self, parameters: Mapping[str, int]) -> bool:
        """Are these parameters of this space? Values between those listed are fine."""
        return set(parameters) == set(self.names) and all(
            v[0] <= parameters[name] <= v[-1] for name, v in self.values
        )

    def beside(self, parameters: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """With one parameter moved to the next smaller or larger value."""
        for name, values in self.values:
            below, above = bisect_left(values, parameters[name]) - 1, bisect_right(values, parameters[name])
            for place in (below, above):
                if 0 <= place < len(values):
                    yield {**parameters, name: values[place]}


def _space(**values: tuple[int, ...]) -> Space:
    return Space(tuple(values.items()))


SPACES = {
    # A block of A has m_block rows, one of B n_block columns; A is read where it is if B's block has at most
    # `direct` columns; units are the pieces that threads share.
    "dot": _space(
        m_block=(24, 48, 96, 144, 192, 288, 384, 768),
        n_block=(64, 128, 256, 512, 1024, 2048, 4096),
        direct=(0, 64, 128, 512, 4096),
        units=(2, 4, 8, 16, 32, 64, 128, 256),
    ),
    # Pixels of a block, at most; how deep blocks of channels and taps are; units wanted at least.
    "conv": _space(
        pixels=(24, 48, 72, 96, 144, 192, 288, 384, 768),
        depth=(64, 128, 256, 512, 1024, 2048),
        units=(2, 4, 8, 16, 32, 64),
    ),
    # Rows of channels, one filter or window each: pixels of a block, and elements read by a unit, at most.
    "rows": _space(
        pixels=(12, 24, 48, 96, 192, 384, 768),
        work=(1 << 12, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 20),
    ),
    # Element operations that a unit is worth at least.
    "loops": _space(block=tuple(1 << b for b in range(9, 20))),
}
