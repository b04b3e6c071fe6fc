"""A split step as a pipeline: which stage computes what, in which order, and what stages send each other.

Enters: one rank's graph of one micro-batch (`sharding/micro.py`), where micro-batches meet, and which stage
owns which input. Leaves: segments, graphs that a stage runs for every micro-batch or once, and what travels.
Any assignment gives the same results, since values follow their readers; a good one moves little:

- *Phases* end where micro-batches meet, in a sum of gradients for instance. In a phase, what does not differ
  between micro-batches is computed once, then all micro-batches pass.
- *Positions* order a phase: 0 to S - 1 are stages on the way forward, S to 2S - 1 the same ones backward. A
  value's position is never before those of its operands, so no ring of stages can wait for each other.
- An equation is computed where the parameters that it reads are. One that reads none goes with the gradients
  that it leads to, on the way back, or with the parameters that it comes from, on the way forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from trilobite.base.errors import ClusterError
from trilobite.cluster.planning.segments import EVERYWHERE, Cut, Meeting, Segment, Staging
from trilobite.cluster.sharding.conversion import TURNS, marks, members
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives import table
from trilobite.ir.types import size_of


def staged(
    graph: Graph, varying: Sequence[bool], owners: Sequence[int], outputs: Sequence[int], stages: int
) -> Staging:
    """`varying` and `owners` are of inputs: does a micro-batch have its own part, and which stage owns it.
    `outputs` are the stages that need them, or EVERYWHERE.
    """
    return _Staged(graph, varying, owners, outputs, stages).made()


def refused(e: Equation, why: str) -> ClusterError:
    return ClusterError(
        f"{e.primitive.name} {why}",
        where=e.location,
        expected="a step in which micro-batches can pass one after another",
        remedy="search with stages=(1,)",
    )


class _Staged:
    def __init__(
        self, graph: Graph, varying: Sequence[bool], owners: Sequence[int], outputs: Sequence[int],
        stages: int,
    ) -> None:  # fmt: skip
        self.graph, self.stages, self.outputs = graph, stages, outputs
        self.varies = {v for v, own in zip(graph.inputs, varying, strict=True) if own}
        self.home: dict[Var, int] = dict(zip(graph.inputs, owners, strict=True))
        self.phase: dict[Var, int] = dict.fromkeys(graph.inputs, 0)
        self.order: dict[Var, int] = {}  # position, or level, of what segments give
        self.meetings: dict[Var, Meeting] = {}
        self.cuts: dict[Var, Cut] = {}
        self.everywhere: dict[Var, Equation] = {}
        self.segments: dict[Any, Segment] = {}
        self.equations = list(self._plain(graph.equations))

    def made(self) -> Staging:
        self._find_reach()
        self._find_sources()
        self._find_first_phase()
        for e in self.equations:
            self._place(e)
        self._close()
        return Staging(
            self.graph, self.stages, list(self.segments.values()), self.meetings, self.cuts, self.home,
            self.varies, self.phase, self._travels(),
        )  # fmt: skip

    # -- markers ---------------------------------------------------------------------------------------------

    def _plain(self, equations: Sequence[Equation]) -> Iterable[Equation]:
        """Markers become meetings and cuts, which stand among the equations where they stood."""
        for e in equations:
            groups = members(e)
            if any(marked(g) for _, g in e.regions()):
                raise refused(e, "needs the whole batch in each of its turns")
            if "micros" in e.attributes or "first" in e.attributes:
                self.cuts[e.outputs[0]] = Cut(e.inputs[0], e.outputs[0], e.attributes.get("micros", ()))
                yield e
            elif TURNS in groups:
                yield from self._meeting(e, groups)
            else:
                yield e

    def _meeting(self, e: Equation, groups: Any) -> Iterable[Equation]:
        rest = tuple(g for g in groups if g != TURNS)
        (value,), (out,) = e.inputs, e.outputs
        if e.primitive.name == "cluster_all_gather":
            self.meetings[out] = Meeting(value, out, "gather", e.attributes["axis"])
            yield e
        elif e.primitive.name == "cluster_all_reduce":
            total = Var(value.type) if rest else out
            self.meetings[total] = Meeting(value, total, e.attributes["op"])
            yield Equation(e.primitive, (value,), e.attributes, (total,), e.location)
            if rest:
                attributes = {**e.attributes, "groups": rest}
                yield Equation(e.primitive, (total,), attributes, (out,), e.location)
        else:
            raise refused(e, "between micro-batches")

    # -- where things lead and come from ---------------------------------------------------------------------

    def _find_reach(self) -> None:
        """Of values that differ between micro-batches, the stages whose parameters they change, as bits."""
        leads = self.leads = dict[Var, int]()
        for v, stage in zip(self.graph.outputs, self.outputs, strict=True):
            if stage != EVERYWHERE:
                leads[v] = leads.get(v, 0) | 1 << stage
        self.reach: dict[Var, int] = {}
        for e in reversed(self.equations):
            out = e.outputs[0] if e.outputs else None
            if out is not None and out in self.meetings:
                own = leads.get(out, 0)
                last = own.bit_length() - 1 if own else self.stages - 1
                self.reach[e.inputs[0]] = self.reach.get(e.inputs[0], 0) | 1 << last
                continue
            lead, reach = 0, 0
            for v in e.outputs:
                lead, reach = lead | leads.get(v, 0), reach | self.reach.get(v, 0)
            for v in e.inputs:
                if lead and not e.primitive.name.startswith("reduce_") and _large(v):
                    leads[v] = leads.get(v, 0) | lead  # a norm of all gradients leads everywhere: not counted
                if reach:
                    self.reach[v] = self.reach.get(v, 0) | reach

    def _find_sources(self) -> None:
        """The stages whose parameters a value comes from, as bits."""
        self.source = {v: 1 << h for v, h in self.home.items() if h != EVERYWHERE}
        for e in self.equations:
            own = 0
            for v in e.inputs:
                own |= self.source.get(v, 0)
            for v in e.outputs:
                self.source[v] = own

    def _find_first_phase(self) -> None:
        """What parameters take part in begins when all that the batch alone decides is there: a count of
        targets, say, by which losses are divided. Else the whole way back would wait for it.
        """
        phase: dict[Var, int] = {}
        for e in self.equations:
            own = max((phase.get(v, 0) for v in e.inputs), default=0)
            met = bool(e.outputs) and e.outputs[0] in self.meetings
            phase |= {v: own + met for v in e.outputs if not self.source[v]}
        self.first = max(phase.values(), default=0)

    # -- placing ---------------------------------------------------------------------------------------------

    def _place(self, e: Equation) -> None:
        out = e.outputs[0] if e.outputs else None
        if out is not None and out in self.meetings:
            return self._place_meeting(self.meetings[out])
        if out is not None and out in self.cuts:
            return self._place_cut(self.cuts[out])
        phase = max((self.phase[v] for v in e.inputs), default=0)
        if any(self.source.get(v) for v in e.outputs):
            phase = max(phase, self.first)
        varies = any(v in self.varies for v in e.inputs)
        self.phase |= dict.fromkeys(e.outputs, phase)
        self.varies |= set(e.outputs if varies else ())
        shared = all(self.home[v] == EVERYWHERE for v in e.inputs) and not e.primitive.effect
        if shared and e.outputs and e.primitive.name not in _DEAR:
            self.home |= dict.fromkeys(e.outputs, EVERYWHERE)
            self.everywhere |= dict.fromkeys(e.outputs, e)
            return None
        return self._place_micro(e, phase) if varies else self._place_once(e, phase)

    def _place_meeting(self, m: Meeting) -> None:
        self.phase[m.out] = self.phase[m.value] + 1
        home = self.home[m.value]  # of what every stage could compute, the last one does, for all
        self.home[m.out] = self.stages - 1 if m.value in self.everywhere else home
        self.order[m.out] = 0

    def _place_cut(self, cut: Cut) -> None:
        self.phase[cut.out], self.home[cut.out] = self.phase[cut.value], self.home[cut.value]
        self.varies.add(cut.out)

    def _place_micro(self, e: Equation, phase: int) -> None:
        turning = [v for v in e.inputs if v in self.varies and self.home[v] != EVERYWHERE]
        least = max((self.order[v] for v in turning if v in self.order and self.phase[v] == phase), default=0)
        still = [v for v in e.inputs if (v not in self.varies or v in self.cuts)
                 and self.home[v] != EVERYWHERE]  # fmt: skip
        last = 2 * self.stages - 1
        now = min(least, last - least)
        stage = self.home[max(still, key=_bytes)] if still else self._preferred(e, now)
        apart = sum(_bytes(v) for v in turning if self.home[v] != stage)
        together = len(set(turning)) > 1 and all(self.home[v] == now for v in turning)
        if not still and together and apart > sum(map(_bytes, e.outputs)):
            stage = now  # a sum of two gradients is less to send than both
        order = next((q for q in (stage, last - stage) if q >= least), least)
        self._add(e, Segment(min(order, last - order), phase, order, True))

    def _preferred(self, e: Equation, now: int) -> int:
        """On the way back, the stage of the gradients that it leads to; on the way forward, that of the
        parameters that it comes from, or where its operands are now.
        """
        reach = source = 0
        for v in e.outputs:
            reach |= self.reach.get(v, 0)
            source |= self.source.get(v, 0)
        last = reach.bit_length() - 1
        return last if 0 <= last < self.stages - 1 else max(now, source.bit_length() - 1)

    def _place_once(self, e: Equation, phase: int) -> None:
        homed = [v for v in e.inputs if self.home[v] != EVERYWHERE]
        stage = self.home[max(homed, key=_bytes)] if homed else 0
        lead = self.leads.get(e.outputs[0], 0) if e.outputs else 0
        if lead and sum(map(_bytes, e.outputs)) > sum(map(_bytes, homed)):  # a number that is spread out
            stage = lead.bit_length() - 1
        levels = [self.order[v] + (self.home[v] != stage) for v in homed
                  if v in self.order and self.phase[v] == phase]  # fmt: skip
        self._add(e, Segment(stage, phase, max(levels, default=0), False))

    def _add(self, e: Equation, like: Segment) -> None:
        segment = self.segments.setdefault((like.stage, *like.key), like)
        segment.equations.append(e)
        for v in e.outputs:
            self.home[v], self.order[v] = segment.stage, segment.order

    # -- closing ---------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Graphs of the segments, with what every stage computes for itself where it is needed."""
        for m in self.meetings.values():
            if m.value in self.everywhere:  # every stage could compute it, so none does yet
                like = Segment(self.home[m.out], self.phase[m.value], self.home[m.out], True)
                self.segments.setdefault((like.stage, *like.key), like).equations.append(
                    self.everywhere[m.value]
                )
        for s in self.segments.values():
            s.equations = self._with_shared(s.equations)
            s.reads = _free(s.equations)
        for stage in range(self.stages):
            self._share_once(stage)
        met = {(m.value, self.home[m.out]) for m in self.meetings.values()}
        asked = {v for s in self.segments.values() for v in s.reads} | set(self.graph.outputs)
        asked |= {c.value for c in self.cuts.values()}
        for s in self.segments.values():
            own = dict.fromkeys(v for e in s.equations for v in e.outputs)
            s.gives = [v for v in own if (v in asked and not self._again(v)) or (v, s.stage) in met]
            s.graph = Graph(s.reads, s.equations, s.gives, f"stage{s.stage}_{'micro' if s.micro else 'once'}")

    def _again(self, v: Var) -> bool:
        """Does every segment that needs it compute it once more?"""
        return v in self.everywhere and v in self.varies

    def _share_once(self, stage: int) -> None:
        """What every stage computes once for itself: here, as far as it is needed, before all else."""
        needed = [v for s in self.segments.values() if s.stage == stage for v in s.reads]
        needed = [self.cuts[v].value if v in self.cuts else v for v in needed]
        needed += [
            v for v, k in zip(self.graph.outputs, self.outputs, strict=True) if k in (stage, EVERYWHERE)
        ]
        wanted, pending = set(), [self.everywhere[v] for v in needed if v in self.everywhere]
        while pending:
            e = pending.pop()
            if e not in wanted:
                wanted.add(e)
                pending += [self.everywhere[v] for v in e.inputs if v in self.everywhere]
        rows = [
            e
            for e in dict.fromkeys(self.everywhere.values())
            if e in wanted and not self._again(e.outputs[0])
        ]
        for phase in sorted({self.phase[e.outputs[0]] for e in rows}):
            own = [e for e in rows if self.phase[e.outputs[0]] == phase]
            like = Segment(stage, phase, -1, False, own, _free(own))
            self.segments[(stage, *like.key)] = like

    def _with_shared(self, equations: Sequence[Equation]) -> list[Equation]:
        """Equations behind those that they need and every stage computes itself, for each micro-batch."""
        out: dict[Equation, None] = {}

        def need(e: Equation) -> None:
            for v in e.inputs:
                if self._again(v) and self.everywhere[v] not in out:
                    need(self.everywhere[v])
            out.setdefault(e)

        for e in equations:
            need(e)
        return list(out)

    def _travels(self) -> dict[Var, list[int]]:
        """To which stages each value goes."""
        goes: dict[Var, set[int]] = {}

        def ask(v: Var, stage: int) -> None:
            v = self.cuts[v].value if v in self.cuts else v
            if self.home[v] not in (stage, EVERYWHERE):
                goes.setdefault(v, set()).add(stage)

        for s in self.segments.values():
            for v in s.reads:
                ask(v, s.stage)
        for v, stage in zip(self.graph.outputs, self.outputs, strict=True):
            for k in range(self.stages) if stage == EVERYWHERE else (stage,):
                ask(v, k)
        return {v: sorted(stages) for v, stages in goes.items()}


def _free(equations: Sequence[Equation]) -> list[Var]:
    made = {v for e in equations for v in e.outputs}
    return list(dict.fromkeys(v for e in equations for v in e.inputs if v not in made))


def marked(graph: Graph) -> bool:
    """Do micro-batches meet anywhere in it?"""
    return any(marks(e) or any(marked(g) for _, g in e.regions()) for e in graph.equations)


def _bytes(v: Var) -> float:
    return float(size_of(v.type.shape)) * v.type.dtype.itemsize


def _large(v: Var) -> bool:
    return float(size_of(v.type.shape)) > 1


_DEAR = frozenset({"dot", "conv", "conv_input_grad", "conv_weight_grad", "scan", "while", "call", "cond"})
assert set(_DEAR) <= set(table)
