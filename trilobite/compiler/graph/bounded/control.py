"""Rules of control flow: regions at their bounds, with the sizes of the run as constants of theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trilobite.base.dtypes import int64
from trilobite.compiler.graph.bounded.scope import Scope, at_bounds
from trilobite.ir.graph import Equation, Graph
from trilobite.ir.primitive import Value, table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import Affine, TensorType

Inside = Callable[[Graph, Scope, Sequence[Value]], list[Value]]  # a graph's results at its bounds


class Regions:
    """Regions of one equation: the sizes in front, then what the region takes."""

    def __init__(self, scope: Scope, inside: Inside) -> None:
        self.names, self.inside = list(scope.sizes), inside
        self.sizes = list(scope.sizes.values())

    def recorded(self, region: Graph, body: Callable[..., list[Value]] | None = None) -> Graph:
        """The region; `body` makes its results of the sizes, its inputs and one more number."""
        n, scalar = len(self.names), TensorType((), int64)

        def whole(*values: Value) -> list[Value]:
            scope = Scope(dict(zip(self.names, values[:n], strict=True)))
            if body is not None:
                return body(scope, *values[n:])
            return self.inside(region, scope, values[n:])

        types = [*(scalar for _ in range(n)), *map(at_bounds, region.input_types)]
        return record_graph(whole, types if body is None else [*types, scalar], region.name)


def cond(s: Scope, e: Equation, values: Sequence[Value], inside: Inside) -> Any:
    made = Regions(s, inside)
    branches = tuple(made.recorded(g) for g in e.attributes["branches"])
    return e.primitive(values[0], *made.sizes, *values[1:], branches=branches)


def while_(s: Scope, e: Equation, values: Sequence[Value], inside: Inside) -> Any:
    made, (m, n) = Regions(s, inside), e.attributes["consts"]
    test, body = (made.recorded(e.attributes[k]) for k in ("test", "body"))
    k = len(made.sizes)
    operands = (*made.sizes, *values[:m], *made.sizes, *values[m:])
    return e.primitive(*operands, test=test, body=body, consts=(m + k, n + k))


def scan(s: Scope, e: Equation, values: Sequence[Value], inside: Inside) -> Any:
    """A sequence is gone through to its largest length; steps behind the real one leave the carries."""
    a, made = e.attributes, Regions(s, inside)
    n, c, length = a["consts"], a["carries"], a["length"]
    k, common = len(made.sizes), {"carries": c, "length": at_bounds(length), "reverse": a["reverse"]}
    if not isinstance(length, Affine):
        body = made.recorded(a["body"])
        return e.primitive(*made.sizes, *values, body=body, consts=n + k, **common)

    def step(scope: Scope, *given: Value) -> list[Value]:
        place, old = given[-1], given[n : n + c]
        found = inside(a["body"], scope, given[:-1])
        goes_on = table["lt"](place, scope.live(length))
        kept = [_chosen(goes_on, new, was) for new, was in zip(found[:c], old, strict=True)]
        return [*kept, *found[c:]]

    body = made.recorded(a["body"], step)
    places = table["iota"](shape=(at_bounds(length),), dtype=int64, axis=0)
    return e.primitive(*made.sizes, *values, places, body=body, consts=n + k, **common)


def _chosen(truth: Value, new: Value, old: Value) -> Value:
    spread = table["broadcast"](truth, shape=tuple(new.shape), axes=())
    return table["select"](spread, new, old)


CONTROL: dict[str, Callable[..., Any]] = {"cond": cond, "while": while_, "scan": scan}
