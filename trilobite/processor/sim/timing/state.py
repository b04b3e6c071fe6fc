"""What T1's loop works on: one class of arrays and numbers, as typed Python (`sim/typed_python.py`).

Operations are numbered core by core in the order of dispatch. -1 stands for nothing, and for times that are
not known yet.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.processor.sim.typed_python import Floats, Ints

TENSOR, SCALAR, SYNC, TASK, BARRIER = 0, 1, 2, 3, 4  # kinds of records
DID = ("scalar", "dispatch", "sync", "operand", "queue full", "barrier", "launch", "fetch")  # by control
DID_SCALAR, DID_DISPATCH, DID_SYNC, DID_OPERAND, DID_FULL, DID_BARRIER, DID_LAUNCH, DID_FETCH = range(8)
QUEUE_COUNT = 5


class State:
    """Everything the loop reads and writes."""

    # records: kind, what the kind needs (cost, cycles, queues, group, meeting), queue, footprint, cycles of
    # fetching before it, and the record before whose end it may not start
    kind: Ints
    argument: Ints
    queue: Ints
    foot: Ints
    fetch: Ints
    after: Ints
    operation_of: Ints
    # costs, by number
    interval: Ints
    latency: Ints
    amount: Floats
    top: Floats
    path: Ints
    # paths: from where to where in the lists of parts and of the share each carries
    path_from: Ints
    path_to: Ints
    part: Ints
    weight: Floats
    capacity: Floats
    room: Floats
    users: Floats
    # footprints: reads, then writes, as spans of bytes; solid ones have no holes
    foot_reads: Ints
    foot_writes: Ints
    foot_end: Ints
    span_low: Ints
    span_high: Ints
    span_solid: Ints
    meet: Callable[[int, int], int]  # whether two spans touch of which one has holes
    # cores
    place: Ints
    last_place: Ints
    clock: Ints
    tasks: Ints
    waited_for: Ints
    next_op: Ints
    fetched: Ints
    companion: Ints  # the next core that came to the same meeting
    is_ready: Ints
    ready: Ints
    # queues, by core and queue: what is outstanding, in a ring
    ring: Ints
    ring_head: Ints
    ring_count: Ints
    newest: Ints
    queue_order: Ints
    queues_used: Ints
    # in flight, by core
    flying: Ints
    flying_count: Ints
    # operations
    op_record: Ints
    op_core: Ints
    op_dispatch: Ints
    op_behind: Ints
    op_start: Ints
    op_free: Ints
    op_finish: Ints
    op_missing: Ints
    op_cause: Ints
    op_core_wait: Ints
    op_waiters: Ints
    op_waiters_end: Ints
    op_blocked: Ints
    # who waits for an operation, as linked lists
    node_op: Ints
    node_next: Ints
    node_need: Ints
    # what control did
    did_from: Ints
    did_to: Ints
    did_what: Ints
    did_record: Ints
    did_count: Ints
    # meetings and groups of tasks
    expected: Ints
    arrived: Ints
    first_there: Ints
    last_there: Ints
    # begins of transfers, a heap
    heap_cycle: Ints
    heap_core: Ints
    heap_sequence: Ints
    heap_op: Ints
    # groups of transfers under way, in the order of their beginning; ends of members, the soonest last
    group: Ints
    group_path: Ints
    group_top: Floats
    group_rate: Floats
    group_served: Floats
    group_members: Ints
    group_waits: Ints
    group_bound: Floats
    free_groups: Ints
    group_empty: Ints
    end_at: Floats
    end_core: Ints
    end_op: Ints
    over: Ints
    pending_op: Ints
    pending_finish: Ints
    # numbers
    cores: int
    depth: int
    flight_room: int
    member_room: int
    dispatch: int
    ranges: int
    barrier_cycles: int
    round_cycles: int
    overhead_cycles: int
    ready_head: int
    ready_count: int
    free_node: int
    heap_count: int
    sequence: int
    groups: int
    now: int
