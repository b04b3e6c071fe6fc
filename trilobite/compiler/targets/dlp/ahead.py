"""Weights ahead of their group: while one group computes, the first weights of the next come on chip.

Enters: calls in the order in which the entry makes them. Leaves: for two that follow each other whether the
first loads the other's weights, and under which name they share the buffers. Only weights that the program
does not write may come early, and only where the buffers of both groups find room beside each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilobite.base.errors import KernelError
from trilobite.base.locations import Location
from trilobite.compiler.targets.dlp.contraction.function import Early
from trilobite.compiler.targets.dlp.contraction.generate import HANDED
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.search import Found, last_step
from trilobite.compiler.targets.dlp.layouts import Layout
from trilobite.compiler.targets.dlp.lower import plan_of
from trilobite.ir.graph import Graph, Var
from trilobite.processor.lang.ir import Buffer
from trilobite.processor.lang.scratchpad import place
from trilobite.processor.machine import Machine

if TYPE_CHECKING:
    from trilobite.compiler.targets.dlp.network import Assembler


@dataclass(eq=False)
class Call:
    """A group that is about to be called with these values. `plan`: of a contraction, whose mapping is
    `found`; its right operand is `weights` if it may come early. `handed`: the name of the
    buffers where it has come."""

    kind: str
    region: Graph
    layout: Layout
    values: Sequence[Var]
    location: Location
    machine: Machine  # with the memory that is left to the group
    plan: Plan | None = None
    found: Found | None = None
    weights: Var | None = None
    handed: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """What its routine depends on beside its neighbours: equal groups may have different mappings, for
        another one hides more of their weights."""
        return self.kind, self.region, self.layout.key, self.found.mapping if self.found else None


class Handing:
    """Which calls load ahead, and the room that this takes on chip."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.buffers: dict[str, Buffer] = {}
        self.users: dict[tuple[object, ...], list[Buffer]] = {}  # of the functions that were linked so far
        self.names: dict[tuple[object, ...], str] = {}
        self.owners: dict[tuple[object, ...], int] = {}  # of buffers that are not handed on
        self.linked = 0

    def link(self, first: Call, second: Call | None, share: bool) -> Early | None:
        """What the first call loads for the second, if it does; then the second has its name."""
        if second is None or second.weights is None or second.plan is None or first.plan is None:
            return None
        self.linked += 1
        key = second.key if share else (*second.key, self.linked)
        name = self.names.setdefault(key, f"ahead{len(self.names)}")
        if name == first.handed:  # its like stands before it and still uses them
            name += "_2"
        ahead = self._rooms(second, name, only=True)
        tried = {
            **self.users,
            (first.key, first.handed, name): [*self._rooms(first, first.handed), *ahead],
            (second.key, name, ""): self._rooms(second, name),
        }
        if not self._fit(tried):
            return None
        self.users, second.handed = tried, name
        return Early(name, second.plan)

    def _rooms(self, call: Call, handed: str, only: bool = False) -> list[Buffer]:
        """Of WRAM and SRAM; the others have nothing to do with it."""
        assert call.plan is not None
        found, owner = [], self.owners.setdefault(call.key, len(self.owners))
        for room in call.plan.rooms.values():
            is_handed = room.name in HANDED and bool(handed)
            if room.space not in ("wram", "sram") or (only and not is_handed):
                continue
            name = f"{handed if is_handed else owner}.{room.name}"
            found.append(self.buffers.setdefault(name, Buffer(name, room.space, room.bytes)))
        return found

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


def cycles_ahead(call: Call | None) -> int:
    """About how long that is, 0 if there is none: a power of two and quarters of it, so that equal groups
    stay equal."""
    if call is None or call.plan is None or not can_lead(call.plan):
        return 0
    spent = max(4, last_step(call.plan))
    quarter = 1 << (spent.bit_length() - 3)
    return spent // quarter * quarter


def can_come_early(plan: Plan) -> bool:
    """Are its weights loaded as they are, by copies alone?"""
    return plan.waits and plan.nest.kind in ("product", "forward") and not plan.machine.core.pool_kib


def plan_call(a: Assembler, call: Call) -> None:
    """The mapping of a contraction, and whether its weights may come early: nobody writes them."""
    if not a.ahead or call.kind != "contraction":
        return
    spent = cycles_ahead(a.pending)
    for early in (spent, 0) if spent else (0,):
        made = plan_of(a.setting, call.region, call.layout, early)
        if made is None:
            return
        call.plan, call.found = made
        weights = call.values[0 if call.plan.nest.swapped else 1]
        if early and can_come_early(call.plan) and _is_given(a, weights):
            call.weights = weights
            return


def _is_given(a: Assembler, v: Var) -> bool:
    """An input or a constant: nothing in the program writes it."""
    place = a.env[v].place
    if place is None or place.space in ("arena", "near"):
        return False
    return place.space == "kept" or place.index >= len(a.graph.outputs)
