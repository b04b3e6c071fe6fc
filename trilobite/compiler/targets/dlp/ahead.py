"""Weights ahead of their group: while groups compute, what later ones need of DRAM comes on chip.

Enters: calls in the order in which the entry makes them. Leaves: for each what it prefetches for those behind
it, and under which name they share the buffers. Only what the program does not write may come early, and only
where the buffers of the groups find room beside each other. What the cores of a cluster share, and what WRAM
has no room for yet, comes in two steps: some groups fill SRAM, a later one gives it to the cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING

from trilobite.base.errors import KernelError
from trilobite.base.locations import Location
from trilobite.compiler.targets.dlp.contraction.behind import Beside
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.predict import owed
from trilobite.compiler.targets.dlp.contraction.prefetched import WHOLE, Does, Early, Prefetched
from trilobite.compiler.targets.dlp.contraction.search import Found, figures_of_plan, last_step, shape_of
from trilobite.compiler.targets.dlp.layouts import Layout
from trilobite.compiler.targets.dlp.lower import plan_of
from trilobite.ir.graph import Graph, Var
from trilobite.processor.lang.ir import Buffer
from trilobite.processor.lang.scratchpad import place, room_of
from trilobite.processor.machine import Machine

if TYPE_CHECKING:
    from trilobite.compiler.targets.dlp.network import Assembler

MUCH = 1.25  # times the cycles of another mapping: more than the next group can gain
DEPTH = 20  # groups that a call waits for before it is written: it may prefetch something for them
WITH_WEIGHTS = ("conv_input_grad", "conv_weight_grad", "call")  # single equations that use WRAM
Prefetches = tuple[tuple[Early, "Call"], ...]


@dataclass(eq=False)
class Call:
    """A group that is about to be called with these values. `plan`: of a contraction, whose mapping is
    `found`; `given`: operands that nobody writes, the right one is number 1, the epilogue's begin with 2.
    `prefetched`: what is there when it begins; `prefetches`: what it does for others."""

    kind: str
    region: Graph
    layout: Layout
    values: Sequence[Var]
    location: Location
    machine: Machine  # with the memory that is left to the group
    plan: Plan | None = None
    found: Found | None = None
    given: frozenset[int] = frozenset()
    prefetched: Prefetched | None = None
    prefetches: Prefetches = field(default=())
    far: int = 0  # cycles that DRAM takes for them
    near: int = 0  # and the bus of a cluster
    is_crossed: bool = False  # calls that fill NRAM stand between it and those that may prefetch something
    alone: int = 0  # about how long it runs, once what is prefetched is there
    beside: tuple[Buffer, ...] = ()  # that hold values which stay on chip meanwhile

    @property
    def key(self) -> tuple[object, ...]:
        """What its routine depends on beside its neighbours: equal groups may have different mappings, for
        another one hides more of their weights."""
        return self.kind, self.region, self.layout.key, self.found.mapping if self.found else None

    @property
    def routine(self) -> tuple[object, ...]:
        """What its routine depends on."""
        room, does = (
            (self.machine.core.nram.reserved_kib, len(self.beside)),
            ((e.prefetched, e.does, e.share) for e, _ in self.prefetches),
        )
        return self.key, room, self.prefetched, *does

    def value(self, number: int) -> Var:
        """The operand of this number."""
        is_left = number == 1 and self.plan is not None and self.plan.nest.swapped
        return self.values[0 if is_left else number]

    @property
    def is_passive(self) -> bool:
        """Does it use NRAM alone?"""
        name = self.region.equations[-1].primitive.name
        return self.kind == "loops" or (self.kind == "single" and name not in WITH_WEIGHTS)

    @property
    def is_still(self) -> bool:
        """Does it leave DRAM to others from its beginning on?"""
        return (
            self.plan is not None
            and self.prefetched is not None
            and self.plan.is_still(self.prefetched.extras)
        )


class Times:
    """Cycles that calls in a row leave to others, asked for once: choices compare many parts of the row."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.spare, self.bus = [spare(c) for c in calls], [spare_bus(c) for c in calls]
        self._sums = list(accumulate(self.spare, initial=0))

    def far(self, first: int, end: int) -> int:
        """Of DRAM, by some of them."""
        return self._sums[end] - self._sums[first]

    def late(self, first: int, giver: int, need: int, given: int) -> int:
        """Cycles for which those that load and the one that gives it to the cores have no time."""
        return max(0, need - self.far(first, giver)) + max(0, given - self.bus[giver])

    def giver(self, first: int, need: int, given: int) -> int:
        """Which call gives a shared operand to the cores, behind those that load it: the one for which they
        and it have most of the time that this takes; the last of equals."""
        return min(range(first + 1, len(self.calls)), key=lambda n: (self.late(first, n, need, given), -n))


class Handing:
    """Which calls prefetch something, and the room that this takes on chip."""

    def __init__(self, machine: Machine, has_near: bool) -> None:
        self.machine, self.has_near = machine, has_near  # whether values stay in NRAM
        self.buffers: dict[str, Buffer] = {}
        self.users: dict[tuple[object, ...], list[Buffer]] = {}  # of the functions that were linked so far
        self.names: dict[tuple[object, ...], str] = {}
        self.owners: dict[tuple[object, ...], int] = {}  # of buffers that are not handed on
        self.linked = 0

    def link(self, waiting: Sequence[Call], call: Call, share: bool) -> bool:
        """Whether calls that wait prefetch something for this one."""
        if call.plan is None or 1 not in call.given:
            return False
        self.linked += 1
        key = call.key if share else (*call.key, self.linked)
        name = self.names.setdefault(key, f"ahead{len(self.names)}")
        used = {e.prefetched.name for c in waiting for e, _ in c.prefetches}
        if name in used | {c.prefetched.name for c in waiting if c.prefetched is not None}:
            name += f"_{self.linked % (DEPTH + 1)}"  # its like stands before it and still uses them
        found, plan = call.found, call.plan
        times = Times(waiting)
        for first, prefetched, chosen in self._choices(times, call, name):
            assert found is not None
            call.plan, call.found = chosen, replace(found, mapping=chosen.mapping)
            if self._try(times, first, call, prefetched):
                return True
        call.plan, call.found = plan, found
        return False

    def _choices(
        self, times: Times, call: Call, name: str
    ) -> Iterator[tuple[int, Prefetched, Plan]]:  # fmt: skip
        """From which call on they prefetch what, the best choice first; by way of SRAM also what nobody
        shares."""
        plan = call.plan
        assert plan is not None
        is_free = not (self.has_near or call.is_crossed)  # NRAM
        extras = tuple(n for n in plan.short_extras if 2 + n in call.given and is_free)
        is_shared, by_sram = "right" in plan.shared, staged(plan)
        need, given = cycles_prefetched(plan), cycles_given(plan)
        rows = list[tuple[int, int, bool]]()
        count = len(times.calls)
        for first in range(count):
            rows.append((max(0, need - times.far(first, count)) + given * is_shared, first, False))
            if by_sram is not None and first + 1 < count:
                giver = times.giver(first, need, given)
                rows.append((times.late(first, giver, need, given), first, True))
        for some in dict.fromkeys((extras, ())):
            for _, first, is_given in sorted(rows):
                chosen = by_sram if is_given and by_sram is not None else plan
                yield first, Prefetched(name, some, is_given), chosen

    def _try(self, times: Times, first: int, call: Call, prefetched: Prefetched) -> bool:
        """Whether there is room for it."""
        assert call.plan is not None
        calls, need = times.calls[first:], cycles_prefetched(call.plan)
        giver = len(calls)
        if prefetched.is_given:
            giver = times.giver(first, need, cycles_given(call.plan)) - first
        shares = shares_of(times.spare[first : first + giver], need)
        if not shares[0] and len(calls) > 1 + prefetched.is_given:
            return False  # the same with fewer calls
        old = [c.prefetches for c in calls], call.prefetched
        done = 0
        for number, c in enumerate(calls):
            share = (done, done + shares[number]) if number < giver else (0, WHOLE)
            does: Does = ("fill" if prefetched.is_given else "load") if share[1] > done else "keep"
            if number >= giver:
                does = "give" if number == giver else "hold"
            done = share[1]
            c.prefetches = (*c.prefetches, (Early(prefetched, call.plan, does, share), call))
        call.prefetched = prefetched
        changed = [c for c in (*calls, call) if c.plan is not None]
        rooms = {c.routine: self._rooms(c) for c in changed}
        tried = {**self.users, **rooms}
        if all(map(self._has_room, rooms.values())) and self._fit(tried):
            self.users = tried
            for c, eighths in zip(calls, shares, strict=False):
                c.far += need * eighths // WHOLE
            if prefetched.is_given:
                calls[giver].near += cycles_given(call.plan)
            return True
        call.prefetched = old[1]
        for c, prefetches in zip(calls, old[0], strict=True):
            c.prefetches = prefetches
        return False

    def _rooms(self, call: Call) -> list[Buffer]:
        """All buffers of a call, and of what it prefetches."""
        assert call.plan is not None
        owner, prefetched = self.owners.setdefault(call.key, len(self.owners)), call.prefetched
        handed = prefetched.rooms(call.plan) if prefetched is not None else []
        rooms = [r for r in call.plan.rooms.values() if r.space != "acc"]
        if prefetched is not None and prefetched.is_given:
            rooms = [r for r in rooms if r.name != "parts_right"]
        found = [
            (f"{prefetched.name if prefetched and r.name in handed else owner}.{r.name}", r) for r in rooms
        ]
        for early, _ in call.prefetches:
            found += [(f"{early.prefetched.name}.{name}", early.plan.rooms[name]) for name in early.rooms]
        own = [self.buffers.setdefault(name, Buffer(name, r.space, r.bytes)) for name, r in found]
        return [*own, *call.beside]

    def _has_room(self, buffers: Sequence[Buffer]) -> bool:
        """Would they fit if nobody else were there?"""
        used: dict[str, int] = {}
        for buffer in dict.fromkeys(buffers):
            used[buffer.space] = used.get(buffer.space, 0) + buffer.bytes
        return all(size <= room_of(self.machine, space) for space, size in used.items())

    def _fit(self, users: dict[tuple[object, ...], list[Buffer]]) -> bool:
        together: dict[Buffer, set[Buffer]] = {}
        for buffers in users.values():
            for buffer in buffers:
                together.setdefault(buffer, set()).update(buffers)
        try:
            place(together, self.machine, together)
        except KernelError:
            return False
        return True


def can_lead(plan: Plan) -> bool:
    """Is there a time in which the group's unit works and its copies are done?"""
    return plan.waits and plan.mapping.lead > 0


def cycles_ahead(call: Call) -> int:
    """About how long that is, 0 if there is none."""
    if call.plan is None or not can_lead(call.plan):
        return 0
    spent = max(4, last_step(call.plan))
    return max(spent, call.alone) if call.is_still else spent


def can_come_early(plan: Plan) -> bool:
    """Are its weights loaded as they are, by copies alone?"""
    return plan.waits and plan.nest.kind in ("product", "forward") and not plan.machine.core.pool_kib


@lru_cache(maxsize=512)
def cycles_prefetched(plan: Plan) -> int:
    """About how long DRAM takes for what comes early."""
    beside = Beside(bus=cycles_given(plan))
    return owed(plan.nest, plan.machine, shape_of(plan.nest, plan.epilogue), plan.mapping, beside)


@lru_cache(maxsize=512)
def cycles_given(plan: Plan) -> int:
    """About how long the bus of a cluster takes to give it to the cores."""
    if "right" in plan.shared and plan.sharing("right").parts > 1:
        return round(float(figures_of_plan(plan).given_right[0]))
    machine = plan.machine
    size = plan.nest.left.bytes(plan.elements["right"]) * machine.cores_per_cluster
    return size // max(1, min(machine.sram.bus_bytes_per_cycle, machine.sram.bytes_per_cycle))


def staged(plan: Plan) -> Plan | None:
    """The same with the right operand by way of SRAM; None where it cannot lie there whole."""
    if "right" in plan.shared:
        return plan if plan.is_whole else None
    m, machine, right = plan.mapping, plan.machine, plan.residences["right"]
    is_full = prod(m.cores) == machine.cores_per_cluster and room_of(machine, "sram") > 0
    if not is_full or m.lead != 1 or right.level or right.places > 1:
        return None
    mapping = replace(m, shared="left+right" if "left" in m.shared else "right")
    return Plan(plan.nest, mapping, machine, plan.epilogue)


def spare_bus(call: Call) -> int:
    """Cycles in which a call leaves the bus of a cluster to others."""
    assert call.plan is not None
    figures, own, count = figures_of_plan(call.plan), call.plan.nest.own, call.plan.count
    left, out = (prod(count[d] for d in own[name]) for name in ("left", "out"))
    used = float(figures.given_left[0]) * left + float(figures.given_store[0]) * out
    return max(0, call.alone - round(used) - call.near)


def shares_of(times: Sequence[int], need: int) -> list[int]:
    """How much each of several calls loads: as late as there is time for it, the last one what is left."""
    found, left = [0] * len(times), WHOLE
    for number in reversed(range(len(times))):
        found[number] = min(left, times[number] * WHOLE // max(need, 1))
        left -= found[number]
    found[-1] += left
    return found


def spare(call: Call) -> int:
    """Cycles in which a call leaves DRAM to others and nothing is prefetched yet."""
    return max(0, cycles_ahead(call) - call.far)


def plan_call(a: Assembler, call: Call) -> None:
    """The mapping of a contraction, and what the calls that wait prefetch for it."""
    if not a.ahead or call.kind != "contraction":
        return
    (waiting, call.is_crossed), later = leading(a.waiting), rounded(int(a.later))
    dram, bus = rounded(sum(map(spare, waiting))), rounded(max(map(spare_bus, waiting[1:]), default=0))
    for early in (dram, 0) if dram else (0,):
        beside = Beside(early, bus if early else 0, later, a.price)
        made = plan_of(a.setting, call.region, call.layout, beside)
        if made is None:
            return
        call.plan, call.found = made
        call.alone = made[1].cycles - _owed(made[0], beside)
        if early and call.alone < made[1].cycles:  # what does not come in time may be better loaded later
            plain = plan_of(a.setting, call.region, call.layout, Beside(later=later, price=a.price))
            if plain is not None and plain[1].cycles * MUCH < made[1].cycles:
                (call.plan, call.found), call.alone = plain, plain[1].cycles
        if not early or not can_come_early(call.plan):
            continue
        call.given = frozenset(n for n in _operands(call.plan) if _is_given(a, call.value(n)))
        if a.handing.link(waiting, call, a.share):
            return


def _owed(plan: Plan, beside: Beside) -> int:
    """Cycles that a group waits for what neighbours do not hide."""
    if not beside.dram:
        return 0
    return owed(plan.nest, plan.machine, shape_of(plan.nest, plan.epilogue), plan.mapping, beside)


def leading(waiting: Sequence[Call]) -> tuple[Sequence[Call], bool]:
    """The last calls of a row that may all prefetch something, and whether others stand between them that
    leave WRAM and SRAM alone: NRAM is theirs."""
    found, is_crossed = list[Call](), False
    for call in reversed(waiting):
        if call.is_passive:
            is_crossed = True
        elif call.plan is not None and cycles_ahead(call):
            found.append(call)
        else:
            break
    return found[::-1], is_crossed


def rounded(cycles: int) -> int:
    """To a power of two and quarters of it, so that equal groups stay equal."""
    if cycles < 4:
        return 0
    quarter = 1 << (cycles.bit_length() - 3)
    return cycles // quarter * quarter


def _operands(plan: Plan) -> list[int]:
    return [1, *(2 + n for n in plan.short_extras)]


def _is_given(a: Assembler, v: Var) -> bool:
    """An input or a constant: nothing in the program writes it."""
    place = a.env[v].place
    if place is None or place.space in ("arena", "nram", "sram"):
        return False
    return place.space == "kept" or place.index >= len(a.graph.outputs)
