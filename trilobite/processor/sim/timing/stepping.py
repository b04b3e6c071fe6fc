"""T1: a trace in whole cycles, with queues, interlocks or sync edges, and contention for shared parts. This
is its definition, in typed Python: `native.py` runs it as machine code, or as it stands.

Enters: a `State`, made of a machine and a trace. Leaves: in the same state, the times of every operation and
what each control did. Function is not repeated: records are replayed.

Each core dispatches in order. An instruction starts when it is dispatched, its queue is free and (with
`interlock: ranges`) nothing under way touches its bytes. Everything whose time is known is placed at once;
only transfers over shared parts wait for the clock (`shares.py`), because others may slow them.
"""

from __future__ import annotations

from trilobite.processor.sim.timing.shares import heed, next_event, place, push_ready
from trilobite.processor.sim.timing.state import (
    BARRIER,
    DID_BARRIER,
    DID_DISPATCH,
    DID_FETCH,
    DID_FULL,
    DID_LAUNCH,
    DID_OPERAND,
    DID_SCALAR,
    DID_SYNC,
    QUEUE_COUNT,
    SCALAR,
    SYNC,
    TASK,
    TENSOR,
    State,
)


def entry(e: State) -> None:
    """From the first record to the end."""
    for core in range(e.cores):
        push_ready(e, core)
    going = True
    while going:
        while e.ready_count > 0:
            core = e.ready[e.ready_head]
            e.ready_head = (e.ready_head + 1) % (e.cores + 1)
            e.ready_count -= 1
            e.is_ready[core] = 0
            advance(e, core)
        going = next_event(e)


def spend(e: State, core: int, until: int, what: int) -> None:
    if until > e.clock[core]:
        at = e.did_count[core]
        e.did_from[at] = e.clock[core]
        e.did_to[at] = until
        e.did_what[at] = what
        e.did_record[at] = e.place[core]
        e.did_count[core] = at + 1
        e.clock[core] = until


def advance(e: State, core: int) -> None:
    """Runs a core's control until it must wait for a time that is not known yet."""
    while e.place[core] < e.last_place[core]:
        record = e.place[core]
        if e.fetched[core] < record:
            e.fetched[core] = record
            spend(e, core, e.clock[core] + e.fetch[record], DID_FETCH)
        if not pass_record(e, core, record):
            return
        e.place[core] += 1


def pass_record(e: State, core: int, record: int) -> bool:
    kind = e.kind[record]
    if kind == TENSOR:
        return dispatch(e, core, record)
    if kind == SCALAR:
        return scalar(e, core, record)
    if kind == SYNC:
        queues = e.argument[record]  # three bits each, in the order in which they are waited for
        while queues > 0:
            if not drain(e, core, queues & 7):
                return False
            queues = queues >> 3
        return True
    if kind == TASK:
        for number in range(e.queues_used[core]):
            if not drain(e, core, e.queue_order[core * QUEUE_COUNT + number]):
                return False
    return meeting(e, core, e.argument[record], kind)


def wait(e: State, core: int, op: int, what: int) -> bool:
    """Control waits for a result; False if its time is not known yet."""
    if e.op_finish[op] < 0:
        e.op_blocked[op] = 1
        return False
    if e.op_finish[op] > e.clock[core]:
        spend(e, core, e.op_finish[op], what)
        e.waited_for[core] = op
    return True


def drain(e: State, core: int, queue: int) -> bool:
    line = core * QUEUE_COUNT + queue
    for number in range(e.ring_count[line]):
        if not wait(e, core, e.ring[line * e.depth + (e.ring_head[line] + number) % e.depth], DID_SYNC):
            return False
    e.ring_count[line] = 0
    return True


def meeting(e: State, core: int, number: int, kind: int) -> bool:
    """A barrier, or the beginning of a task: when all are there, they go on together."""
    if e.arrived[number] == 0:
        e.first_there[number] = core
    else:
        e.companion[e.last_there[number]] = core
    e.last_there[number] = core
    e.companion[core] = -1
    e.arrived[number] += 1
    if e.arrived[number] < e.expected[number]:
        return False
    latest = 0
    member = e.first_there[number]
    while member >= 0:
        latest = max(latest, e.clock[member])
        member = e.companion[member]
    member = e.first_there[number]
    while member >= 0:
        release(e, member, latest, kind)
        if member != core:
            e.place[member] += 1
            push_ready(e, member)
        member = e.companion[member]
    return True


def release(e: State, member: int, latest: int, kind: int) -> None:
    if kind == BARRIER:
        spend(e, member, latest + e.barrier_cycles, DID_BARRIER)
        return
    ahead = e.round_cycles if e.tasks[member] > 0 else e.overhead_cycles
    spend(e, member, latest + ahead, DID_LAUNCH)
    e.tasks[member] += 1


def scalar(e: State, core: int, record: int) -> bool:
    foot = e.foot[record]
    if e.ranges != 0 and foot >= 0:
        for number in range(e.flying_count[core]):
            op = e.flying[core * e.flight_room + number]
            if conflicts(e, foot, e.foot[e.op_record[op]]) and not wait(e, core, op, DID_OPERAND):
                return False
    spend(e, core, e.clock[core] + e.argument[record], DID_SCALAR)
    return True


def dispatch(e: State, core: int, record: int) -> bool:
    queue = e.queue[record]
    line = core * QUEUE_COUNT + queue
    first = line * e.depth
    while e.ring_count[line] > 0 and done(e, e.ring[first + e.ring_head[line]], e.clock[core]):
        pop(e, line)
    if e.ring_count[line] >= e.depth:
        if not wait(e, core, e.ring[first + e.ring_head[line]], DID_FULL):
            return False
        pop(e, line)
    spend(e, core, e.clock[core] + e.dispatch, DID_DISPATCH)
    op = e.next_op[core]
    e.next_op[core] = op + 1
    e.operation_of[record] = op
    e.op_record[op] = record
    e.op_core[op] = core
    e.op_dispatch[op] = e.clock[core]
    e.op_behind[op] = e.newest[line]
    e.op_core_wait[op] = e.waited_for[core]
    e.op_start[op] = e.clock[core]
    if e.newest[line] < 0:
        e.queue_order[core * QUEUE_COUNT + e.queues_used[core]] = queue
        e.queues_used[core] += 1
    else:
        heed(e, op, e.newest[line], 0)
    if e.after[record] >= 0:
        heed(e, op, e.operation_of[e.after[record]], 1)
    if e.ranges != 0:
        interlock(e, core, op, queue)
    e.ring[first + (e.ring_head[line] + e.ring_count[line]) % e.depth] = op
    e.ring_count[line] += 1
    e.newest[line] = op
    if e.op_missing[op] == 0:
        e.op_finish[op] = place(e, op)
    return True


def pop(e: State, line: int) -> None:
    e.ring_head[line] = (e.ring_head[line] + 1) % e.depth
    e.ring_count[line] -= 1


def done(e: State, op: int, clock: int) -> bool:
    return e.op_finish[op] >= 0 and e.op_finish[op] <= clock


def interlock(e: State, core: int, op: int, queue: int) -> None:
    """Finds what is under way and touches its bytes; what is over is forgotten."""
    first = core * e.flight_room
    count = e.flying_count[core]
    clock = e.clock[core]
    foot = e.foot[e.op_record[op]]
    kept = 0
    number = 0
    while number < count:
        other = e.flying[first + number]
        number += 1
        if done(e, other, clock):
            continue
        e.flying[first + kept] = other
        kept += 1
        record = e.op_record[other]
        cost = e.argument[record]
        if e.queue[record] == queue and e.latency[cost] == e.interval[cost]:
            continue
        if conflicts(e, foot, e.foot[record]):
            heed(e, op, other, 1)
    e.flying[first + kept] = op
    e.flying_count[core] = kept + 1


def conflicts(e: State, one: int, other: int) -> bool:
    """Read after write, write after read, or write after write."""
    return touch(e, e.foot_reads[one], e.foot_writes[one], e.foot_writes[other], e.foot_end[other]) or touch(
        e, e.foot_writes[one], e.foot_end[one], e.foot_reads[other], e.foot_end[other]
    )


def touch(e: State, first: int, last: int, other_first: int, other_last: int) -> bool:
    """Whether a span of one row of spans meets a span of another."""
    for one in range(first, last):
        for other in range(other_first, other_last):
            apart = e.span_low[one] >= e.span_high[other] or e.span_low[other] >= e.span_high[one]
            solid = e.span_solid[one] != 0 and e.span_solid[other] != 0
            if not apart and (solid or e.meet(one, other) != 0):
                return True
    return False
