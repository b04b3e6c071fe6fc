"""The parameters that kernels expose, by kind, with the values a search may try.

None of them changes a bit of a result: they say how work is cut into blocks and units, never in which order
the terms of a sum are taken. (The depth of a product's blocks would; it is no parameter for that reason, and
little is lost: between half and twice its value, the least times of products of 512 and 1024 are within 2%.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

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

    def random(self, rng: np.random.Generator) -> dict[str, int]:
        return {name: int(rng.choice(v)) for name, v in self.values}

    def mutated(self, parameters: Mapping[str, int], rng: np.random.Generator) -> dict[str, int]:
        """One parameter moved to a neighbouring value, or now and then to any."""
        name, values = self.values[int(rng.integers(len(self.values)))]
        at = int(np.searchsorted(values, parameters[name]))
        if rng.random() < 0.25:
            at = int(rng.integers(len(values)))
        else:
            at = min(max(at + int(rng.choice((-1, 1))), 0), len(values) - 1)
        return {**parameters, name: values[at]}

    def crossed(self, a: Mapping[str, int], b: Mapping[str, int], rng: np.random.Generator) -> dict[str, int]:
        return {name: (a if rng.random() < 0.5 else b)[name] for name in self.names}


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
