"""T1's loop in typed Python: what waits for the clock. Operations whose start becomes known, and transfers
that share parts.

Round-robin service of equal bursts gives every waiting transfer the same share of a part; in the limit of
small bursts that is max-min fairness (`fairness.py`), computed without stepping through bursts. Between two
events all rates are constant. Transfers with the same parts and the same highest rate always run at the same
rate: they form a group, whose bytes per member are counted once.
"""

from __future__ import annotations

from math import ceil

from trilobite.processor.sim.timing.fairness import share
from trilobite.processor.sim.timing.state import State

EPSILON = 1e-6  # of a byte, or of a cycle: below this a transfer is over


def push_ready(e: State, core: int) -> None:
    if e.is_ready[core] == 0:
        e.is_ready[core] = 1
        e.ready[(e.ready_head + e.ready_count) % (e.cores + 1)] = core
        e.ready_count += 1


def heed(e: State, op: int, other: int, need: int) -> None:
    """`op` starts no earlier than `other` allows; if that is not known yet, it waits to be told."""
    if e.op_finish[other] >= 0:
        delay(e, op, other, need)
        return
    e.op_missing[op] += 1
    node = e.free_node
    e.free_node = e.node_next[node]
    e.node_op[node] = op
    e.node_need[node] = need
    e.node_next[node] = -1
    if e.op_waiters[other] < 0:
        e.op_waiters[other] = node
    else:
        e.node_next[e.op_waiters_end[other]] = node
    e.op_waiters_end[other] = node


def delay(e: State, op: int, other: int, need: int) -> None:
    """The start as far as it is known. Of equal causes the unit itself counts, then the oldest."""
    start = e.op_start[op]
    cause = e.op_cause[op]
    if need == 0:
        if e.op_free[other] > start or (e.op_free[other] == start and cause >= 0):
            e.op_start[op] = e.op_free[other]
            e.op_cause[op] = other
        return
    if e.op_finish[other] > start:
        e.op_start[op] = e.op_finish[other]
        e.op_cause[op] = other
        return
    behind = e.op_behind[op]
    if e.op_finish[other] < start or cause < 0 or other > cause:
        return
    if behind < 0 or e.op_finish[behind] < 0 or e.op_free[behind] < start:
        e.op_cause[op] = other


def place(e: State, op: int) -> int:
    """The start is known; gives the finish if nothing shared is involved, else -1."""
    cost = e.argument[e.op_record[op]]
    if e.path[cost] < 0:
        e.op_free[op] = e.op_start[op] + e.interval[cost]
        return e.op_start[op] + e.latency[cost]
    e.sequence += 1
    at = e.heap_count
    e.heap_count += 1
    while at > 0 and sooner(e, e.op_start[op], e.op_core[op], e.sequence, (at - 1) // 2):
        heap_move(e, (at - 1) // 2, at)
        at = (at - 1) // 2
    e.heap_cycle[at] = e.op_start[op]
    e.heap_core[at] = e.op_core[op]
    e.heap_sequence[at] = e.sequence
    e.heap_op[at] = op
    return -1


def sooner(e: State, cycle: int, core: int, sequence: int, at: int) -> bool:
    """Whether a begin comes before the one at a place of the heap."""
    if cycle != e.heap_cycle[at]:
        return cycle < e.heap_cycle[at]
    if core != e.heap_core[at]:
        return core < e.heap_core[at]
    return sequence < e.heap_sequence[at]


def heap_move(e: State, source: int, target: int) -> None:
    e.heap_cycle[target] = e.heap_cycle[source]
    e.heap_core[target] = e.heap_core[source]
    e.heap_sequence[target] = e.heap_sequence[source]
    e.heap_op[target] = e.heap_op[source]


def heap_pop(e: State) -> None:
    """Removes the first: the last one sinks from its place."""
    e.heap_count -= 1
    last = e.heap_count
    at = 0
    while 2 * at + 1 < last:
        child = 2 * at + 1
        if child + 1 < last:
            right = child + 1
            if sooner(e, e.heap_cycle[right], e.heap_core[right], e.heap_sequence[right], child):
                child = right
        if sooner(e, e.heap_cycle[last], e.heap_core[last], e.heap_sequence[last], child):
            break
        heap_move(e, child, at)
        at = child
    heap_move(e, last, at)


def settle(e: State, op: int, finish: int) -> None:
    """An operation's times are known: whoever waited for them may go on."""
    count = 1
    e.pending_op[0] = op
    e.pending_finish[0] = finish
    while count > 0:
        count -= 1
        known = e.pending_op[count]
        e.op_finish[known] = e.pending_finish[count]
        if e.op_blocked[known] != 0:
            e.op_blocked[known] = 0
            push_ready(e, e.op_core[known])
        node = e.op_waiters[known]
        e.op_waiters[known] = -1
        while node >= 0:
            waiter = e.node_op[node]
            delay(e, waiter, known, e.node_need[node])
            e.op_missing[waiter] -= 1
            if e.op_missing[waiter] == 0:
                done = place(e, waiter)
                if done >= 0:
                    e.pending_op[count] = waiter
                    e.pending_finish[count] = done
                    count += 1
            after = e.node_next[node]
            e.node_next[node] = e.free_node
            e.free_node = node
            node = after


def next_event(e: State) -> bool:
    """The next begin or end of a shared transfer; False when nothing is left."""
    end = next_end(e)
    if e.heap_count > 0 and (end < 0 or e.heap_cycle[0] < end):
        cycle = e.heap_cycle[0]
        op = e.heap_op[0]
        heap_pop(e)
        begin(e, op, cycle)
        return True
    if end < 0:
        return False
    finish(e, end)
    return True


def ended(e: State, op: int, end: int) -> None:
    """A transfer has moved its last byte."""
    cost = e.argument[e.op_record[op]]
    free = max(e.op_start[op] + e.interval[cost], end)
    e.op_free[op] = free
    settle(e, op, free + e.latency[cost] - e.interval[cost])


def begin(e: State, op: int, cycle: int) -> None:
    cost = e.argument[e.op_record[op]]
    if e.groups == 0:
        end = cycle + cycles_alone(e, cost)
        if e.heap_count == 0 or e.heap_cycle[0] >= end:  # nobody comes in between
            e.now = end
            ended(e, op, end)
            return
    pass_time(e, cycle)
    group = group_of(e, e.path[cost], e.top[cost])
    join(e, group, e.group_served[group] + e.amount[cost], op)
    share(e)


def cycles_alone(e: State, cost: int) -> int:
    """How long a transfer takes with nobody beside it."""
    rate = e.top[cost]
    for at in range(e.path_from[e.path[cost]], e.path_to[e.path[cost]]):
        rate = min(rate, e.capacity[e.part[at]] / e.weight[at])
    return max(ceil(e.amount[cost] / rate - EPSILON), 0)


def group_of(e: State, path: int, top: float) -> int:
    """The group with these parts and this highest rate, a new one if there is none."""
    for number in range(e.groups):
        group = e.group[number]
        if e.group_path[group] == path and e.group_top[group] == top:
            return group
    group = e.free_groups[e.groups]
    e.group[e.groups] = group
    e.groups += 1
    e.group_path[group] = path
    e.group_top[group] = top
    e.group_rate[group] = 0.0
    e.group_served[group] = 0.0
    e.group_members[group] = 0
    return group


def join(e: State, group: int, end: float, op: int) -> None:
    """Members stand with the soonest end last; of equal ones, that of the lower core, then the older."""
    first = group * e.member_room
    at = first + e.group_members[group]
    e.group_members[group] += 1
    core = e.op_core[op]
    while at > first and before(e, at - 1, end, core):
        e.end_at[at] = e.end_at[at - 1]
        e.end_core[at] = e.end_core[at - 1]
        e.end_op[at] = e.end_op[at - 1]
        at -= 1
    e.end_at[at] = end
    e.end_core[at] = core
    e.end_op[at] = op


def before(e: State, at: int, end: float, core: int) -> bool:
    """Whether a member ends before a new one; it came earlier."""
    return e.end_at[at] < end or (e.end_at[at] == end and e.end_core[at] <= core)


def left(e: State, group: int) -> float:
    """Bytes until the next member is done."""
    return max(0.0, e.end_at[group * e.member_room + e.group_members[group] - 1] - e.group_served[group])


def next_end(e: State) -> int:
    """The first cycle in which some transfer is over, if nothing else begins before; -1 if there is none."""
    if e.groups == 0:
        return -1
    soonest = left(e, e.group[0]) / e.group_rate[e.group[0]]
    for number in range(1, e.groups):
        soonest = min(soonest, left(e, e.group[number]) / e.group_rate[e.group[number]])
    return e.now + max(ceil(soonest - EPSILON), 0)


def finish(e: State, cycle: int) -> None:
    """Ends the transfers that are over in this cycle, in the order of their cores."""
    pass_time(e, cycle)
    count = 0
    kept = 0
    for number in range(e.groups):
        group = e.group[number]
        # twice what `next_end` leaves out, in bytes: what is over by the clock never stays for ever
        over = EPSILON * max(1.0, 2.0 * e.group_rate[group])
        while e.group_members[group] > 0 and left(e, group) <= over:
            e.group_members[group] -= 1
            insert_over(e, e.end_op[group * e.member_room + e.group_members[group]], count)
            count += 1
        if e.group_members[group] > 0:
            e.group[kept] = group
            kept += 1
        else:
            e.group_empty[number - kept] = group
    give_back(e, kept)
    if count > 0:
        share(e)
    for number in range(count):
        ended(e, e.over[number], cycle)


def give_back(e: State, kept: int) -> None:
    """The numbers of groups that are empty can be given again."""
    while e.groups > kept:
        e.groups -= 1
        e.free_groups[e.groups] = e.group_empty[e.groups - kept]


def insert_over(e: State, op: int, count: int) -> None:
    at = count
    while at > 0 and e.op_core[e.over[at - 1]] > e.op_core[op]:
        e.over[at] = e.over[at - 1]
        at -= 1
    e.over[at] = op


def pass_time(e: State, cycle: int) -> None:
    passed = cycle - e.now
    if passed > 0:
        for number in range(e.groups):
            group = e.group[number]
            e.group_served[group] += e.group_rate[group] * float(passed)
        e.now = cycle
