"""Collectives of a split graph: what each moves, at whose line, why, and where it stands among equations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from trilobite.base.locations import UNKNOWN, Location
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import TensorType


class Collective(NamedTuple):
    """One collective of a rank's graph."""

    name: str
    sides: tuple[str, ...]
    type: TensorType  # of the whole value
    nbytes: float  # that each rank sends, each time
    seconds: float
    where: Location
    why: str
    times: int = 1
    latency: float = 0.0  # of the seconds, those that do not grow with the bytes

    def __str__(self) -> str:
        often = f", {self.times} times" if self.times > 1 else ""
        name = self.name.removeprefix("cluster_")
        return (
            f"{name} along {' and '.join(self.sides)} of {self.type}: {size_text(self.nbytes)}{often} at "
            f"{self.where}: {self.why}"
        )


def size_text(nbytes: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.3g} {unit}"
    return f"{nbytes:.0f} bytes"


def replace_times(c: Collective, times: int) -> Collective:
    return c._replace(times=c.times * times)


REDUCTIONS = ("cluster_all_reduce", "cluster_reduce_scatter")


def sums_early(
    equations: Sequence[Equation], begins: Sequence[int], early: Mapping[Equation, int]
) -> list[Equation]:
    """Sums stand behind the step that made what they sum: gradients in the order of the backward pass, not of
    the updates that ask for them. So they go on while the rest is computed. `begins` says where the equations
    of each step of the whole graph begin, step -1 first; steps are the same on all ranks, equations are not.
    """
    behind: dict[int, list[Equation]] = {}
    for e, step in early.items():
        behind.setdefault(step, []).append(e)
    out: list[Equation] = []
    for step, (begin, end) in enumerate(pairwise((*begins, len(equations))), -1):
        own = [e for e in equations[begin:end] if e not in early or early[e] == step]
        out += own
        out += [e for e in behind.get(step, ()) if e not in own]
    return out


def line_of(e: Equation | None, graph: Graph, v: Var) -> Location:
    if e is not None:
        return e.location
    return next((q.location for q in graph.equations if v in q.outputs), UNKNOWN)
