"""Operands for collectives. The table is walked by one rank alone; tests/cluster has many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Rng = np.random.Generator
Sample = tuple[list[Any], dict[str, Any]]
ONE = ((0,),)


def _row(**attributes: Any) -> Callable[[Rng], Iterator[Sample]]:
    def samples(rng: Rng) -> Iterator[Sample]:
        yield [rng.normal(size=(2, 3)) * 10.0 ** rng.integers(-3, 4)], {"groups": ONE, **attributes}

    return samples


def _reductions(rng: Rng) -> Iterator[Sample]:
    for op in ("sum", "max", "min"):
        for shared in (False, True):
            yield [rng.normal(size=(3, 2))], {"groups": ONE, "op": op, "shared": shared}
    yield [rng.integers(-9, 9, (4,)).astype(np.int8)], {"groups": ONE, "op": "prod", "shared": False}


def _parts(rng: Rng) -> Iterator[Sample]:
    yield [rng.normal(size=(2, 3))], {"groups": ONE, "axis": 1, "sizes": None, "part": None}
    yield [rng.normal(size=(2, 3))], {"groups": ONE, "axis": 0, "sizes": (2,), "part": 0}


def _gathers(rng: Rng) -> Iterator[Sample]:
    for shared in (False, True):
        yield [rng.normal(size=(2, 3))], {"groups": ONE, "axis": 1, "sizes": None, "shared": shared}
        yield [rng.normal(size=(2, 3))], {"groups": ONE, "axis": 0, "sizes": (2,), "shared": shared}


def _nowhere(rng: Rng) -> Iterator[Sample]:
    """Alone there is nobody to send to."""
    return iter(())


samples: dict[str, Callable[[Rng], Any]] = {
    "cluster_all_reduce": _reductions, "cluster_share": _row(), "cluster_all_gather": _gathers,
    "cluster_part": _parts, "cluster_reduce_scatter": _parts, "cluster_all_to_all": _row(split=0, join=1),
    "cluster_permute": _row(pairs=((0, 0),)), "cluster_broadcast": _row(root=0),
    "cluster_index": lambda rng: [([], {"groups": ONE})],
    "cluster_send": _nowhere, "cluster_receive": _nowhere,
    "cluster_barrier": lambda rng: [([np.zeros((), np.float32)], {"groups": ONE})],
}  # fmt: skip
