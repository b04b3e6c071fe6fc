"""overlap: what ranks exchange is begun early and waited for late, with work in between.

Enters: a fused graph. Leaves: the same equations in another order, each collective as two: kind `exchange`
begins it, kind `arrival` stands where its result is first read. Collectives, and all else with effects, keep
their order among each other, so that all ranks begin them alike.

- What is reduced is sent as soon as it is there: its ancestors go first, then the collective, then the rest.
- What is gathered becomes larger, so it waits until what was gathered before it is first read: one burst of
  gathers is under way while the one before is worked with.
- What reads results that no further collective needs (an optimiser's updates) comes last, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trilobite.compiler.graph.regions import CONTROL
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives import table
from trilobite.ir.primitives.fusion import fusion

LOCAL = frozenset({"cluster_part", "cluster_index"})  # no other rank takes part
GATHERS = frozenset({"cluster_all_gather", "cluster_broadcast"})
_SUMS = frozenset({"cluster_all_reduce", "cluster_reduce_scatter"})
EXCHANGES = LOCAL | GATHERS | _SUMS | {"cluster_all_to_all", "cluster_permute", "cluster_barrier"}


def overlap(graph: Graph) -> Graph:
    """One graph; the bodies of its loops and branches have been through it before."""
    if not any(map(collective, graph.equations)):
        return graph
    order = _Order(graph.equations).ordered() if _worth(graph) else graph.equations
    return Graph(graph.inputs, _in_two(order), graph.outputs, graph.name)


def collective(e: Equation) -> str:
    """The name of the collective that a fusion is; nothing if it is none."""
    if e.primitive.name != "fusion" or e.attributes["kind"] not in ("host", "exchange"):
        return ""
    name: str = e.attributes["region"].equations[0].primitive.name
    return name if name in EXCHANGES else ""


def _worth(graph: Graph) -> bool:
    return any(collective(e) and collective(e) not in LOCAL for e in graph.equations)


class _Order:
    """The equations of one graph as they are set one behind the other."""

    def __init__(self, equations: Sequence[Equation]) -> None:
        self.equations = equations
        self.maker = {v: i for i, e in enumerate(equations) for v in e.outputs}
        self.needs = [sorted({self.maker[v] for v in e.inputs if v in self.maker}) for e in equations]
        self.effects = [i for i, e in enumerate(equations) if has_effect(e)]
        self.done = [False] * len(equations)
        self.out: list[Equation] = []
        self._find_kinds()

    def _find_kinds(self) -> None:
        """Which equations lead to an effect, and behind how many collectives each stands."""
        n, effects = len(self.equations), set(self.effects)
        self.leads = [False] * n
        for i in reversed(range(n)):
            if self.leads[i] or i in effects:
                self.leads[i] = True
                for k in self.needs[i]:
                    self.leads[k] = True
        number = {i: k + 1 for k, i in enumerate(self.effects)}
        self.behind = [0] * n  # the last collective that it depends on
        for i in range(n):
            own = number.get(i, 0) if collective(self.equations[i]) else 0
            self.behind[i] = max([own, *(self.behind[k] for k in self.needs[i])])

    def emit(self, wanted: Iterable[int]) -> None:
        """These and all that they need, in the order of the graph."""
        found: set[int] = set()
        pending = [i for i in wanted if not self.done[i]]
        while pending:
            i = pending.pop()
            if i not in found:
                found.add(i)
                pending += [k for k in self.needs[i] if not self.done[k]]
        for i in sorted(found):
            self.done[i] = True
            self.out.append(self.equations[i])

    def ordered(self) -> list[Equation]:
        readers: dict[int, int] = {}  # of each equation, the first that reads it
        for i, needs in enumerate(self.needs):
            for k in needs:
                readers.setdefault(k, i)
        burst: list[int] = []  # gathers since the last one that was read
        before: list[int] = []
        for i in self.effects:
            if collective(self.equations[i]) in GATHERS:
                if burst and min(readers.get(k, i) for k in burst) < i:
                    burst, before = [], burst
                first = min((readers.get(k, i) for k in before), default=0)
                self.emit(k for k in range(min(first, i)) if not has_effect(self.equations[k]))
                burst.append(i)
            self.emit([i])
        self.emit(k for k in range(len(self.equations)) if self._in_place(k))
        late = sorted((self.behind[k], k) for k in range(len(self.equations)) if not self.done[k])
        for _, k in late:
            self.emit([k])
        return self.out

    def _in_place(self, k: int) -> bool:
        """Is it neither an effect, which has its turn, nor something that can wait?"""
        return (
            not self.done[k] and not has_effect(self.equations[k]) and (self.leads[k] or self.behind[k] == 0)
        )


def has_effect(e: Equation) -> bool:
    """Does it do something besides giving results? Parts that a rank takes for itself do not."""
    if e.primitive.name != "fusion":
        return False
    if e.attributes["kind"] in ("host", "exchange"):
        inner = e.attributes["region"].equations[0].primitive
        return inner.effect and inner.name not in LOCAL
    if e.attributes["kind"] in CONTROL:
        return any(has_effect(x) for g in _bodies(e) for x in g.equations)
    return False


def _bodies(e: Equation) -> list[Graph]:
    (inner,) = e.attributes["region"].equations
    return [g for _, g in inner.regions()]


def _in_two(equations: Iterable[Equation]) -> list[Equation]:
    """Each collective begun where it stands, and waited for where its result is first read."""
    out: list[Equation] = []
    open_: dict[Var, Equation] = {}  # result -> the arrival to come

    def arrive(values: Iterable[Var]) -> None:
        out.extend(open_.pop(v) for v in dict.fromkeys(values) if v in open_)

    for e in equations:
        arrive(e.inputs)
        name = collective(e)
        if not name:
            out.append(e)
            continue
        region = e.attributes["region"]
        if name in LOCAL:
            out.append(
                Equation(fusion, e.inputs, {"kind": "exchange", "region": region}, e.outputs, e.location)
            )
            continue
        (result,) = e.outputs
        pending = Var(result.type)
        begun = {"kind": "exchange", "region": region}
        out.append(Equation(fusion, e.inputs, begun, (pending,), e.location))
        open_[result] = _arrival(e, pending, result)
    arrive(list(open_))
    return out


def _arrival(e: Equation, pending: Var, result: Var) -> Equation:
    """What makes the result of what was begun: it keeps operand and result where they are until then."""
    name = collective(e)
    same = Equation(table["reshape"], (pending,), {"shape": result.type.shape}, (result,), e.location)
    region = Graph((pending, *e.inputs), [same], (result,), f"{name}_arrived")
    return Equation(fusion, region.inputs, {"kind": "arrival", "region": region}, (result,), e.location)
