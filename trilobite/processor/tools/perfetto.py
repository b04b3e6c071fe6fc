"""A launch as a binary Perfetto trace: the protobuf form that ui.perfetto.dev opens at any size.

Enters: a `Run`. Leaves: bytes. One track per core, below it one per queue; a slice per instruction with its
line and what it was bound by. Only the handful of message fields that this needs are written, by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.row import QUEUES
from trilobite.processor.sim.run import Run
from trilobite.processor.sim.timing.timeline import CoreTimes
from trilobite.processor.tools.critical import bound_of

# Field numbers of perfetto.protos
PACKET = 1
TIMESTAMP, SEQUENCE, TRACK_EVENT, TRACK_DESCRIPTOR = 8, 10, 11, 60
TRACK_UUID, TRACK_NAME, TRACK_PARENT = 1, 2, 5
EVENT_NOTE, EVENT_TYPE, EVENT_TRACK, EVENT_NAME = 4, 9, 11, 23
NOTE_TEXT, NOTE_NAME = 6, 10
BEGIN, END = 1, 2


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    """A string, bytes or an inner message."""
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def perfetto_trace(run: Run) -> bytes:
    """The whole trace; a nanosecond of the viewer is one of the part's clock."""
    return b"".join(text(PACKET, packet) for packet in _packets(run))


def _packets(run: Run) -> Iterator[bytes]:
    for core in run.timeline.cores:
        kind = "memory core" if core.trace.core == 0x80 else f"core {core.trace.core}"
        parent = _uuid(core, 0)
        name = f"cluster {core.trace.cluster} {kind}"
        yield text(TRACK_DESCRIPTOR, number(TRACK_UUID, parent) + text(TRACK_NAME, name))
        for place, queue in enumerate(QUEUES, 1):
            body = (
                number(TRACK_UUID, _uuid(core, place))
                + text(TRACK_NAME, queue)
                + number(TRACK_PARENT, parent)
            )
            yield text(TRACK_DESCRIPTOR, body)
        for start, end, what in core.segments:
            yield from _slice(run, _uuid(core, 1), start, end, what, {})
        for op in core.operations:
            shown = instruction_text(run.program.instructions[op.record.place])
            notes = {"line": run.program.where(op.record.place), "bound by": bound_of(op)}
            track = _uuid(core, 1 + QUEUES.index(op.record.queue))
            yield from _slice(run, track, op.start, op.free, shown, notes)


def _uuid(core: CoreTimes, place: int) -> int:
    return 1 + core.number * (len(QUEUES) + 1) + place


def _slice(run: Run, track: int, start: int, end: int, name: str, notes: dict[str, str]) -> Iterator[bytes]:
    body = number(EVENT_TYPE, BEGIN) + number(EVENT_TRACK, track) + text(EVENT_NAME, name)
    for key, value in notes.items():
        body += text(EVENT_NOTE, text(NOTE_TEXT, value) + text(NOTE_NAME, key))
    yield _event(run, start, body)
    yield _event(run, end, number(EVENT_TYPE, END) + number(EVENT_TRACK, track))


def _event(run: Run, cycle: int, body: bytes) -> bytes:
    nanoseconds = round(cycle / run.machine.clock_ghz)
    return number(TIMESTAMP, nanoseconds) + number(SEQUENCE, 1) + text(TRACK_EVENT, body)
