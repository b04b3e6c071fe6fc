"""T1 run over a trace: the trace made into arrays, and the loop of `stepping.py` over them, as machine code
or as the plain Python that it is.

Enters: a machine and a trace. Leaves: a `Timeline`; its lists of operations are made from the arrays when
somebody asks for them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from trilobite.native.cache import Kernels, kernels
from trilobite.processor.isa.formats import Array
from trilobite.processor.machine import Machine
from trilobite.processor.sim.record import ScalarRecord, TensorRecord, Trace
from trilobite.processor.sim.timing import fairness, shares, stepping
from trilobite.processor.sim.timing.state import DID, QUEUE_COUNT, State
from trilobite.processor.sim.timing.tables import Tables
from trilobite.processor.sim.timing.timeline import CoreTimes, Operation, Timeline
from trilobite.processor.sim.typed_python import module_text, structure_of

MEET = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
# Arrays of State by their length: one entry for each core, queue of a core, operation, meeting, ...
PER_CORE = ("clock", "tasks", "next_op", "companion", "is_ready", "flying_count", "queues_used", "did_count")
PER_OPERATION = ("op_record", "op_core", "op_dispatch", "op_start", "op_free", "op_missing", "op_blocked",
                 "op_waiters_end")  # fmt: skip
GROUPS = ("group", "group_path", "group_members", "group_waits", "group_empty", "over")
GROUP_RATES = ("group_top", "group_rate", "group_served", "group_bound")
NOTHING_YET = ("op_behind", "op_finish", "op_cause", "op_core_wait", "op_waiters")


@lru_cache(maxsize=1)
def _loop() -> tuple[Kernels, Callable[[int], None]]:
    """The loop as machine code, which is kept on disk; it lives as long as the first of the two."""
    code = kernels([(module_text((fairness, shares, stepping), State, ["entry"]), 2)])
    return code, ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses[0])


def replay(machine: Machine, trace: Trace) -> Timeline:
    """The timeline of a trace; the machine may differ in timing parameters from the one that ran it."""
    return _Replay(machine, trace).timeline(_Replay.run_native)


def replay_in_python(machine: Machine, trace: Trace) -> Timeline:
    """The same by the loop as Python reads it: slow, to look into and to compare with."""
    return _Replay(machine, trace).timeline(_Replay.run_python)


class _Replay:
    """The arrays of one replay."""

    def __init__(self, machine: Machine, trace: Trace) -> None:
        self.machine, self.trace = machine, trace
        self.tables = Tables(machine, trace)
        self.arrays: dict[str, Array] = self.tables.arrays()
        self._allocate(len(trace.cores))

    def _allocate(self, cores: int) -> None:
        arrays, first = self.arrays, self.tables.first
        operations = np.bincount(self.tables.core_of_tensor, minlength=cores)
        self.first_op = np.concatenate([[0], np.cumsum(operations)]).astype(np.int64)
        depth, total = self.machine.core.queues.depth, int(self.first_op[-1])
        self.depth, self.flight = depth, (QUEUE_COUNT - 1) * depth + 1
        whole = partial(np.zeros, dtype=np.int64)
        arrays.update({name: whole(cores) for name in PER_CORE})
        arrays.update({name: whole(total) for name in PER_OPERATION})
        arrays.update({name: np.full(total, -1) for name in NOTHING_YET})
        arrays["place"], arrays["last_place"] = first[:-1].copy(), first[1:].copy()
        arrays["fetched"] = arrays["place"] - 1
        arrays["next_op"] = self.first_op[:-1].copy()
        arrays["waited_for"], arrays["ready"] = np.full(cores, -1), whole(cores + 1)
        lines = cores * QUEUE_COUNT
        arrays.update(ring=whole(lines * depth), ring_head=whole(lines), ring_count=whole(lines),
                      newest=np.full(lines, -1), queue_order=whole(lines),
                      flying=whole(cores * self.flight))  # fmt: skip
        segments = 3 * np.diff(first) + 1
        self.first_segment = np.concatenate([[0], np.cumsum(segments)]).astype(np.int64)
        arrays["did_count"] = self.first_segment[:-1].copy()
        arrays.update({name: whole(int(self.first_segment[-1]))
                       for name in ("did_from", "did_to", "did_what", "did_record")})  # fmt: skip
        nodes = min(cores * self.flight * (self.flight + 2), total * (self.flight + 2)) + 1
        arrays.update(node_op=whole(nodes), node_need=whole(nodes), node_next=np.arange(1, nodes + 1))
        members = cores * (QUEUE_COUNT - 1)  # transfers at a time: one a queue
        arrays.update({name: whole(members * depth + 1) for name in
                       ("heap_cycle", "heap_core", "heap_sequence", "heap_op", "pending_op",
                        "pending_finish")})  # fmt: skip
        arrays.update({name: whole(members) for name in GROUPS})
        arrays.update({name: np.zeros(members) for name in GROUP_RATES})
        arrays.update(free_groups=np.arange(members), end_at=np.zeros(members * members),
                      end_core=whole(members * members), end_op=whole(members * members))  # fmt: skip
        self.members = members

    def _numbers(self) -> dict[str, int]:
        machine, launch = self.machine, self.machine.launch
        return {
            "cores": len(self.trace.cores), "depth": self.depth, "flight_room": self.flight,
            "member_room": self.members, "dispatch": machine.core.queues.dispatch,
            "ranges": int(machine.interlock == "ranges"), "barrier_cycles": machine.barrier_cycles,
            "round_cycles": machine.cycles(launch.round_ns),
            "overhead_cycles": machine.cycles(launch.overhead_ns),
        }  # fmt: skip

    def run_native(self) -> None:
        state = structure_of(State)()
        for name, array in self.arrays.items():
            setattr(state, name, array.ctypes.data)
        for name, value in self._numbers().items():
            setattr(state, name, value)
        meet = MEET(self.tables.meet)
        state.meet = ctypes.cast(meet, ctypes.c_void_p)
        _loop()[1](ctypes.addressof(state))

    def run_python(self) -> None:
        state, lists = State(), {name: array.tolist() for name, array in self.arrays.items()}
        for name, kind in State.__annotations__.items():
            if kind == "int":
                setattr(state, name, 0)
        for name, value in {**lists, **self._numbers()}.items():
            setattr(state, name, value)
        state.meet = self.tables.meet
        stepping.entry(state)
        for name, values in lists.items():
            self.arrays[name][:] = values

    def timeline(self, run: Callable[[_Replay], None]) -> Timeline:
        run(self)
        ends = [int(self.arrays["clock"].max(initial=0)), int(self.arrays["op_finish"].max(initial=0))]
        cores = [
            CoreTimes(core, number, self._fill, self._columns) for number, core in enumerate(self.trace.cores)
        ]
        return Timeline(self.machine, cores, max(ends))

    def _columns(self, number: int) -> tuple[Array, Array]:
        """Segments and operations of one core as columns."""
        arrays = self.arrays
        did = slice(int(self.first_segment[number]), int(arrays["did_count"][number]))
        segments = np.stack([arrays[name][did] for name in ("did_from", "did_to", "did_what")])
        span = slice(int(self.first_op[number]), int(self.first_op[number + 1]))
        records = arrays["op_record"][span]
        times = [arrays[name][span] for name in ("op_dispatch", "op_start", "op_free")]
        interval = arrays["interval"][arrays["argument"][records]]
        return segments, np.stack([arrays["queue"][records], *times, interval])

    def _fill(self, core: CoreTimes) -> None:
        """Makes the lists of one core."""
        arrays, number, first = self.arrays, core.number, int(self.tables.first[core.number])
        records = core.trace.records
        did = slice(int(self.first_segment[number]), int(arrays["did_count"][number]))
        columns = [arrays[name][did].tolist() for name in ("did_from", "did_to", "did_what", "did_record")]
        for start, end, what, record in zip(*columns, strict=True):
            behind = records[record - first]
            if isinstance(behind, ScalarRecord):
                core.scalar_records[len(core.segments)] = behind
            core.segments.append((start, end, DID[what]))
            core.places.append(behind.place)
        base = int(self.first_op[number])
        span = slice(base, int(self.first_op[number + 1]))
        names = ("op_record", "op_dispatch", "op_behind", "op_start", "op_free", "op_finish", "op_cause",
                 "op_core_wait")  # fmt: skip
        made: list[Operation] = core.operations
        for record, dispatch, prior, start, free, finish, cause, wait in zip(
            *(arrays[name][span].tolist() for name in names), strict=True
        ):
            done = records[record - first]
            assert isinstance(done, TensorRecord)
            cost = self.tables.costs[int(arrays["argument"][record])]
            before = made[prior - base] if prior >= 0 else None
            made.append(Operation(done, cost, core, dispatch, before, start, free, finish))
            made[-1].core_wait = made[wait - base] if wait >= 0 else None
            made[-1].cause = made[cause - base] if cause >= 0 else None
