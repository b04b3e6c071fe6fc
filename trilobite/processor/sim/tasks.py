"""Which task runs where and when: BLOCK and UNION launches over a part, in rounds.

Enters: a machine, a task grid and a task type. Leaves: rounds of groups; a group is the cores that start
together and may meet at barriers. A grid larger than the chip takes several rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trilobite.base.errors import ArgumentError
from trilobite.processor.isa.address import address
from trilobite.processor.isa.row import LDRAM, NRAM, SRAM
from trilobite.processor.machine import Machine
from trilobite.processor.sim.memory import LDRAM_BYTES, MEMORY_CORE, Place

TASK_TYPES = ("block", "union1", "union2", "union4", "union8", "union16")


@dataclass(frozen=True)
class Member:
    """One core of a group with the values of its built-in variables."""

    place: Place
    special: dict[str, int]


Group = list[Member]


def clusters_of(task: str) -> int:
    """Clusters a task type spans; 0 for BLOCK."""
    if task not in TASK_TYPES:
        raise ArgumentError(
            f"there is no task type {task!r}",
            expected="one of " + ", ".join(TASK_TYPES),
            remedy="choose one of these",
        )
    return 0 if task == "block" else int(task[5:])


def rounds(machine: Machine, dim: tuple[int, int, int], task: str, seed: int) -> Iterator[list[Group]]:
    """The groups that run at the same time, round after round."""
    span = clusters_of(task)
    if min(dim) < 1:
        raise ArgumentError(
            f"a launch of {dim} tasks", expected="three extents of at least 1", remedy="give dim=(x, y, z)"
        )
    if span == 0:
        yield from _block_rounds(machine, dim, seed)
        return
    width = span * machine.cores_per_cluster
    if span > machine.clusters:
        raise ArgumentError(
            f"{task} needs {span} clusters, {machine.name} has {machine.clusters}",
            expected="a task type that fits the part",
            remedy="choose a smaller union",
        )
    if dim[0] % width:
        raise ArgumentError(
            f"dim x is {dim[0]} in a {task} launch",
            expected=f"a multiple of {width}",
            remedy="round it up and let the surplus tasks return at once",
        )
    groups = [(x, y, z) for z in range(dim[2]) for y in range(dim[1]) for x in range(0, dim[0], width)]
    slots = machine.clusters // span
    for first in range(0, len(groups), slots):
        chosen = groups[first : first + slots]
        yield [_union(machine, dim, origin, span, slot, seed) for slot, origin in enumerate(chosen)]


def _block_rounds(machine: Machine, dim: tuple[int, int, int], seed: int) -> Iterator[list[Group]]:
    total = dim[0] * dim[1] * dim[2]
    for first in range(0, total, machine.cores):
        groups = []
        for number in range(first, min(first + machine.cores, total)):
            cluster, core = divmod(number - first, machine.cores_per_cluster)
            x, rest = number % dim[0], number // dim[0]
            ids = (x, rest % dim[1], rest // dim[1])
            groups.append([_member(machine, dim, ids, Place(cluster, core), (1, 0), seed)])
        yield groups


def _union(
    machine: Machine, dim: tuple[int, int, int], origin: tuple[int, int, int], span: int, slot: int, seed: int
) -> Group:
    x, y, z = origin
    members = []
    for inner in range(span):
        cluster = slot * span + inner
        first = x + inner * machine.cores_per_cluster
        for core in range(machine.cores_per_cluster):
            ids = (first + core, y, z)
            members.append(_member(machine, dim, ids, Place(cluster, core), (span, inner), seed))
        if machine.memory_core:
            place = Place(cluster, MEMORY_CORE)
            members.append(_member(machine, dim, (first, y, z), place, (span, inner), seed))
    return members


def _member(
    machine: Machine,
    dim: tuple[int, int, int],
    ids: tuple[int, int, int],
    place: Place,
    cluster: tuple[int, int],
    seed: int,
) -> Member:
    """The memory core takes the task number of its cluster's first core."""
    number = ids[2] * dim[1] * dim[0] + ids[1] * dim[0] + ids[0]
    special = {
        "taskDim": dim[0] * dim[1] * dim[2],
        "taskDimX": dim[0],
        "taskDimY": dim[1],
        "taskDimZ": dim[2],
        "taskId": number,
        "taskIdX": ids[0],
        "taskIdY": ids[1],
        "taskIdZ": ids[2],
        "clusterDim": cluster[0],
        "clusterId": cluster[1],
        "coreDim": machine.cores_per_cluster,
        "coreId": place.core,
        "isMpu": int(place.is_memory_core),
        "stack": stack_top(machine, place),
        "arguments": 0,
        "randomSeed": (seed << 32 | number << 8 | place.core) & ((1 << 64) - 1),
    }
    return Member(place, special)


def stack_top(machine: Machine, place: Place) -> int:
    """The stack grows down from the top of the reserved part, or of LDRAM where nothing is reserved."""
    if place.is_memory_core and machine.sram.reserved_kib:
        return address(SRAM, machine.sram.bytes)
    if not place.is_memory_core and machine.core.nram.reserved_kib:
        return address(NRAM, machine.core.nram.bytes)
    return address(LDRAM, LDRAM_BYTES)
