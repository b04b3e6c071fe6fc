"""T1's loop in typed Python: which group of transfers moves how many bytes per cycle.

Max-min fairness between the groups that are under way.
"""

from __future__ import annotations

from trilobite.processor.sim.timing.state import State

SAME = 1 + 1e-12


def share(e: State) -> None:
    """Fill all rates at the same pace; whoever meets its own top or a full part stays there."""
    if e.groups == 0:
        return
    if e.groups == 1:  # nobody else is there
        share_one(e, e.group[0])
        return
    waiting = e.groups
    for number in range(waiting):
        group = e.group[number]
        e.group_waits[number] = group
        for at in range(e.path_from[e.group_path[group]], e.path_to[e.group_path[group]]):
            e.room[e.part[at]] = e.capacity[e.part[at]]
    while waiting > 0:
        waiting = fill(e, waiting)


def share_one(e: State, group: int) -> None:
    rate = e.group_top[group]
    for at in range(e.path_from[e.group_path[group]], e.path_to[e.group_path[group]]):
        rate = min(rate, e.capacity[e.part[at]] / (float(e.group_members[group]) * e.weight[at]))
    e.group_rate[group] = rate


def fill(e: State, waiting: int) -> int:
    """One level more: the groups that are full at it get it; gives how many still wait."""
    count_users(e, waiting)
    level = 0.0
    for number in range(waiting):
        group = e.group_waits[number]
        bound = e.group_top[group]
        for at in range(e.path_from[e.group_path[group]], e.path_to[e.group_path[group]]):
            bound = min(bound, e.room[e.part[at]] / e.users[e.part[at]])
        e.group_bound[number] = bound
        if number == 0 or bound < level:
            level = bound
    still = 0
    for number in range(waiting):
        group = e.group_waits[number]
        if e.group_bound[number] > level * SAME:
            e.group_waits[still] = group
            still += 1
        else:
            take(e, group, level)
    return still


def count_users(e: State, waiting: int) -> None:
    for number in range(waiting):
        path = e.group_path[e.group_waits[number]]
        for at in range(e.path_from[path], e.path_to[path]):
            e.users[e.part[at]] = 0.0
    for number in range(waiting):
        group = e.group_waits[number]
        for at in range(e.path_from[e.group_path[group]], e.path_to[e.group_path[group]]):
            e.users[e.part[at]] += float(e.group_members[group]) * e.weight[at]


def take(e: State, group: int, level: float) -> None:
    e.group_rate[group] = level
    for at in range(e.path_from[e.group_path[group]], e.path_to[e.group_path[group]]):
        e.room[e.part[at]] -= level * float(e.group_members[group]) * e.weight[at]
