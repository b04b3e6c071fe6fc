"""The binary trace, read back field by field: tracks, slices that balance, names and lines."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.processor import Device
from trilobite.processor.tools.perfetto import perfetto_trace, varint


def fields(raw: bytes) -> list[tuple[int, int | bytes]]:
    """A protobuf message as (field number, number or bytes)."""
    found, place = [], 0

    def read() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = raw[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(raw):
        key = read()
        if key & 7 == 0:
            found.append((key >> 3, read()))
        else:
            assert key & 7 == 2
            length = read()
            found.append((key >> 3, raw[place : place + length]))
            place += length
    return found


def test_varints() -> None:
    for value in (0, 1, 127, 128, 300, 1 << 40, (1 << 64) - 1):
        assert fields(varint(1 << 3) + varint(value)) == [(1, value)]


def test_every_instruction_is_a_balanced_slice() -> None:
    device = Device("dlp-m")
    source = "LI $1, #nram(0)\nSMOVE $2, #999\nVLOAD $1, $2, $0, #0\nSYNC\n"
    source += "VEXP $1, $2, $1\nSYNC\nVSTORE $1, $2, $0, #0"
    run = device.launch(device.load(source), [device.array(np.zeros(999, np.float32))], dim=(3, 1, 1))
    packets = [dict(fields(packet)) for _, packet in fields(perfetto_trace(run))]
    tracks = [dict(fields(packet[60])) for packet in packets if 60 in packet]
    assert len(tracks) == 3 * 6 and len({track[1] for track in tracks}) == 18
    assert tracks[0][2] == b"cluster 0 core 0" and tracks[5][2] == b"vector" and tracks[5][5] == tracks[0][1]
    open_slices: dict[int, list[int]] = {}
    names = []
    for packet in packets:
        if 11 not in packet:
            continue
        event = dict(fields(packet[11]))
        stack = open_slices.setdefault(event[11], [])
        if event[9] == 1:
            stack.append(packet[8])
            names.append(event.get(23))
        else:
            assert packet[8] >= stack.pop()
    assert not any(open_slices.values())
    assert names.count(b"VEXP.f32 $1, $2, $1") == 3
    begin = next(dict(fields(p[11])) for p in packets if 11 in p and b"VEXP" in p[11])
    assert b"bound by" in begin[4]


def test_perfettos_own_reader_agrees() -> None:
    """Decoded by the messages that Perfetto publishes: every operation of the timeline is there."""
    messages = pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the perfetto package is not installed"
    )
    device = Device("dlp-m")
    source = "LI $1, #nram(0)\nSMOVE $2, #777\nVLOAD $1, $2, $0, #0\nSYNC\n"
    source += "VEXP $1, $2, $1\nSYNC\nVSTORE $1, $2, $0, #0"
    run = device.launch(device.load(source), [device.array(np.zeros(777, np.float32))], dim=(2, 1, 1))
    trace = messages.Trace.FromString(perfetto_trace(run))
    names = {
        p.track_descriptor.uuid: p.track_descriptor.name
        for p in trace.packet
        if p.HasField("track_descriptor")
    }
    begun: dict[int, list[int]] = {}
    spans: dict[str, list[tuple[int, int]]] = {}
    event = messages.TrackEvent
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        track, time = packet.track_event.track_uuid, packet.timestamp
        if packet.track_event.type == event.TYPE_SLICE_BEGIN:
            begun.setdefault(track, []).append(time)
        else:
            spans.setdefault(names[track], []).append((begun[track].pop(), time))
    assert not any(begun.values())
    for queue in ("io", "vector"):
        wanted = [(op.start, op.free) for core in run.timeline.cores for op in core.operations
                  if op.record.queue == queue]  # fmt: skip
        assert sorted(spans[queue]) == sorted(wanted) and wanted
