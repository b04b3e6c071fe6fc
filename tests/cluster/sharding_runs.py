"""Split graphs run as ranks in lock-step, and put together again: what tests compare with the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite import cluster
from trilobite.cluster.sharding.partition import Partition, Place, partition
from trilobite.cluster.sharding.placements import Placement, canonical, fits, ranges, whole
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.types import TensorType
from trilobite.ir.verify import verify

Array = np.ndarray[Any, Any]
NAMES = ("data", "model", "more")


def places(mesh: tuple[int, ...], **settings: Any) -> list[Place]:
    """One for every rank."""
    ats = [tuple(map(int, np.unravel_index(r, mesh))) for r in range(int(np.prod(mesh)))]
    return [Place(mesh, NAMES[: len(mesh)], at, **settings) for at in ats]


def part(x: Array, p: Placement, place: Place) -> Array:
    """What a rank holds of a whole array."""
    rows = ranges(x.shape, p, place.mesh, place.at)
    own = np.ascontiguousarray(x[tuple(slice(r.begin, r.end) for r in rows)])
    first = all(place.at[a] == 0 for a in p.partials)
    return own if first else np.zeros_like(own)


def joined(parts: Sequence[Array], shape: tuple[int, ...], p: Placement, at: Sequence[Place]) -> Array:
    """The whole array; ranks that hold the same part hold the same bits."""
    out = np.zeros(shape, parts[0].dtype)
    seen = np.zeros(shape, bool)
    for x, place in zip(parts, at, strict=True):
        where = tuple(slice(r.begin, r.end) for r in ranges(shape, p, place.mesh, place.at))
        known = seen[where]
        assert x.shape == out[where].shape
        np.testing.assert_array_equal(out[where][known], x[known])
        out[where], seen[where] = x, True
    assert seen.all()
    return out


def run_split(
    graph: Graph, values: Sequence[Array], ins: Sequence[Placement], mesh: tuple[int, ...],
    pins: Sequence[Placement | None] | None = None,
) -> tuple[list[Array], list[Partition]]:  # fmt: skip
    """The outputs of a graph that ranks run in parts."""
    at = places(mesh)
    made = [partition(graph, p, ins, pins or [None] * len(graph.outputs)) for p in at]
    for m in made:
        verify(m.graph)

    def rank() -> list[Array]:
        me = cluster.rank()
        own = [part(x, p, at[me]) for x, p in zip(values, made[me].ins, strict=True)]
        return [np.asarray(o) for o in run(made[me].graph, own)]

    found = cluster.lockstep(rank, len(at))
    outs = made[0].outs
    return [
        joined([f[i] for f in found], tuple(v.type.shape), outs[i], at) for i, v in enumerate(graph.outputs)
    ], made


def random_placement(t: TensorType, mesh: tuple[int, ...], rng: np.random.Generator) -> Placement:
    """Any that leaves every rank something."""
    while True:
        axes = tuple(None if not t.shape or rng.random() < 0.4 else int(rng.integers(t.ndim)) for _ in mesh)
        p = canonical(t, Placement(axes, (1,) * t.ndim), mesh)
        if fits(t, p, mesh):
            return p


def all_whole(graph: Graph, mesh: tuple[int, ...]) -> list[Placement]:
    return [whole(len(mesh), v.type.ndim) for v in graph.inputs]
