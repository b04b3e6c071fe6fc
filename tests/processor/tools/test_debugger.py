"""The debugger as a library: stops, steps in both directions, state of any core and memory."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError
from trilobite.processor.device import Device
from trilobite.processor.sim.memory import Place
from trilobite.processor.tools.debugger import Debugger
from trilobite.processor.tools.history import ALWAYS

SUMS = """
.entry main
.nram
x: .space 256
.text
main:
    LA $10, x
    SMOVE $1, #3
    SMOVE $2, #16
loop:
    VIOTA.i32 $10, $2, $1, $1
    SYNC.vector
    VSTORE.i32 $10, $2, $0, #0
    SADD $1, $1, #-1
    CB #loop, $1
"""


def held(source: str = SUMS, machine: str = "dlp-m", **options) -> Debugger:
    device = Device(machine)
    out = device.array(np.zeros(16, np.int32))
    debugger = Debugger(device, device.load(source)["main"], [out], **options)
    debugger.out = out
    return debugger


def test_it_is_held_before_the_first_instruction() -> None:
    debugger = held()
    assert str(debugger.where()) == ("held\ncluster 0 core 0, instruction 0: SLI $10, #0 (<text>:7)")
    assert not debugger.out.numpy().any() and debugger.registers[62] != 0


def test_breaks_on_labels_lines_and_instructions() -> None:
    debugger = held()
    debugger.break_at("loop")
    debugger.break_at("14")
    debugger.break_at("*8")
    reasons = [debugger.run() for _ in range(7)]
    assert [(stop.reason, stop.instruction) for stop in reasons] == [
        ("breakpoint 1: loop", 4), ("breakpoint 2: 14", 7), ("breakpoint 3: *8", 8),
        ("breakpoint 1: loop", 4), ("breakpoint 2: 14", 7), ("breakpoint 3: *8", 8),
        ("breakpoint 1: loop", 4)]  # fmt: skip
    debugger.delete(1)
    debugger.delete(2)
    debugger.delete(3)
    assert debugger.run().reason == "the program has ended"
    assert debugger.run().reason == "the program has ended"
    assert debugger.out.numpy().tolist() == list(range(1, 17))


def test_a_line_of_several_instructions_breaks_once() -> None:
    debugger = held()
    debugger.break_at("<text>:7")
    debugger.break_at("8")
    assert debugger.run().instruction == 2
    assert debugger.step_line().line == "<text>:9"
    assert debugger.back_line(2).instruction == 0
    assert debugger.step_line().line == "<text>:8"


def test_a_write_stops_behind_it() -> None:
    debugger = held()
    watched = debugger.watch("x + 60", 4)
    stop = debugger.run()
    assert stop.reason == (
        f"watchpoint {watched.number}: x + 60, 4 bytes, written by cluster 0 core 0 at <text>:11"
    )
    assert stop.instruction == 5
    assert debugger.tensor("x", "i32", (16,)).tolist() == [3 + 3 * i for i in range(16)]
    debugger.watch(f"{debugger.out.address}", 1)
    assert "written by cluster 0 core 0 at <text>:13" in debugger.run().reason
    debugger.delete(watched.number)
    assert "<text>:13" in debugger.run().reason


def test_a_strided_write_beside_watched_bytes_is_no_write() -> None:
    source = """
        .entry main
        main: LI $10, #nram(0)
            SMOVE $1, #4
            SMOVE $2, #16     // dst_stride, a_stride, count
            SMOVE $3, #4
            SMOVE $4, #4
            COPY2 $10, $0, $1, $2
            SSTORE.i32 $1, $10, #20
    """
    debugger = held(source)
    debugger.watch("nram(4)", 12)
    debugger.watch("nram(20)", 12)
    assert debugger.run().reason.endswith("written by cluster 0 core 0 at <text>:9")
    debugger = held(source)
    debugger.watch("nram(47)", 2)
    assert debugger.run().reason.endswith("<text>:8")


def states(debugger: Debugger, count: int) -> list:
    seen = []
    for _ in range(count):
        core = debugger.core
        seen.append((core.pc, tuple(core.registers), debugger.tensor("x", "u8", (256,)).tobytes(),
                     debugger.out.numpy().tobytes(), debugger.in_flight()))  # fmt: skip
        debugger.step()
    return seen


def test_back_is_the_exact_inverse() -> None:
    """Every earlier state comes back, register for register and byte for byte; and forward again."""
    debugger = held()
    forward = states(debugger, 18)
    backward = []
    for _ in range(18):
        assert debugger.back().reason == "stepped back"
        core = debugger.core
        backward.append((core.pc, tuple(core.registers), debugger.tensor("x", "u8", (256,)).tobytes(),
                         debugger.out.numpy().tobytes(), debugger.in_flight()))  # fmt: skip
    assert backward[::-1] == forward
    assert debugger.back().reason == "the undo log reaches no further back"
    assert states(debugger, 18) == forward
    debugger.run()
    assert debugger.out.numpy().tolist() == list(range(1, 17))


def test_a_thousand_instructions_back_and_no_memory_without_end() -> None:
    source = """
        .entry main
        main: LI $10, #nram(0)
            LI $2, #4000
        loop: SSTORE.i64 $2, $10, #0
            SADD $2, $2, #-1
            CB #loop, $2
    """
    debugger = held(source, history=1)
    debugger.run()
    assert debugger.registers[2] == 0
    stop = debugger.back(ALWAYS - 1)
    assert stop.reason == "stepped back"
    assert (stop.instruction, debugger.registers[2]) == (3, 333)
    assert debugger.tensor("nram(0)", "i64", (1,))[0] == 334
    assert debugger.back().reason == "stepped back"
    assert debugger.back().reason == "the undo log reaches no further back"
    debugger.run()
    assert debugger.registers[2] == 0 and debugger.ended


def test_run_back_finds_the_stop_before() -> None:
    debugger = held()
    debugger.break_at("loop")
    for _ in range(3):
        debugger.run()
    assert debugger.registers[1] == 1
    assert debugger.run_back().reason == "breakpoint 1: loop"
    assert debugger.registers[1] == 2
    watched = debugger.watch("x", 4)
    stop = debugger.run_back()
    assert stop.reason == f"watchpoint {watched.number}: x, 4 bytes, before the write"
    assert debugger.registers[1] == 3 and stop.instruction == 4


def test_what_is_under_way_is_listed() -> None:
    debugger = held()
    debugger.break_at("12")
    debugger.run()
    (entry,) = debugger.in_flight()
    assert (entry.queue, entry.instruction, entry.writes[0].bytes) == ("vector", 4, 64)
    debugger.step()
    assert debugger.in_flight() == ()
    debugger.step()
    assert [entry.queue for entry in debugger.in_flight()] == ["io"]
    debugger.back(2)
    assert [entry.queue for entry in debugger.in_flight()] == ["vector"]


UNION = """
.entry main
main:
    SREAD $1, #coreId
    SREAD $2, #isMpu
    LI $10, #sram(0)
    LI $11, #nram(0)
    SMOVE $3, #4
    CBZ #meet, $2
    SMOVE $4, #77
    SSTORE.i32 $4, $10, #0
meet:
    BARRIER.cluster
    CBNZ #end, $2
    COPY $11, $10, $3
    SYNC
    SLOAD.i32 $5, $11, #0
    SADD $5, $5, $1
    SSTORE.i32 $5, $11, #4
end:
    HALT
"""


def test_cores_and_barriers() -> None:
    debugger = held(UNION, dim=(4, 1, 1), task="union1")
    assert [core.place for core in debugger.cores] == [Place(0, core) for core in (0, 1, 2, 3, 0x80)]
    debugger.set_focus(Place(0, 2))
    assert debugger.core.pc == 0
    debugger.step(3)
    assert debugger.registers[1] == 2 and debugger.core.pc == 3
    debugger.break_at("end", Place(0, 3))
    stop = debugger.run()
    assert (stop.core, stop.instruction) == (Place(0, 3), 17)
    assert debugger.tensor("nram(4)", "i32", (1,))[0] == 80
    debugger.set_focus(Place(0, 1))
    assert debugger.tensor("nram(4)", "i32", (1,))[0] == 78
    assert debugger.core.halted
    debugger.run_back()  # to the beginning
    assert all(core.pc == 0 and not core.halted for core in debugger.cores)
    assert debugger.tensor("sram(0)", "i32", (1,))[0] == 0
    debugger.set_focus(Place(0, 0x80))
    assert debugger.step(10).reason == "stepped"
    assert debugger.tensor("sram(0)", "i32", (1,))[0] == 77
    debugger.run()
    debugger.delete(1)
    assert debugger.run().reason == "the program has ended"
    for core in range(4):
        debugger.set_focus(Place(0, core))
        assert debugger.tensor("nram(0)", "i32", (2,)).tolist() == [77, 77 + core]
    with pytest.raises(ArgumentError, match="cluster 3 core 0 has no part in this launch"):
        debugger.set_focus(Place(3, 0))


def test_one_step_back_over_a_barrier_takes_everybody_back() -> None:
    debugger = held(UNION, dim=(4, 1, 1), task="union1")
    debugger.break_at("meet", Place(0, 0x80))  # the last to come
    debugger.run()
    waiting = [core.pc for core in debugger.cores]
    assert len(set(waiting)) == 1
    debugger.step()
    assert [core.pc for core in debugger.cores][-1] == waiting[-1] + 1
    debugger.back()
    assert [core.pc for core in debugger.cores] == waiting


def test_rounds_of_tasks_can_be_taken_back() -> None:
    source = ".entry main\nmain: SREAD $1, #taskId\nSMOVE $2, $1\nHALT"
    debugger = held(source, machine="dlp-s", dim=(3, 1, 1))
    seen = []
    while not debugger.ended:
        seen.append((debugger.core.pc, debugger.registers[1], debugger.registers[2]))
        debugger.step()
    assert (1, 2, 0) in seen
    for state in reversed(seen):
        debugger.back()
        assert (debugger.core.pc, debugger.registers[1], debugger.registers[2]) == state


def test_before_a_round_all_cores_are_where_the_last_one_left_them() -> None:
    debugger = held(".entry main\nmain: SREAD $1, #taskId\nHALT", dim=(20, 1, 1))
    debugger.break_at("main", Place(0, 1))
    debugger.run()
    debugger.run()  # the second round
    assert debugger.registers[1] == 0 and not debugger.core.halted
    debugger.set_focus(Place(3, 3))
    debugger.back()  # the end of the first round's last task
    states = [(core.halted, core.pc, core.registers[1]) for core in debugger.cores]
    assert states == [(number != 15, 1, number) for number in range(16)]


def test_a_fault_holds_the_program_where_it_is() -> None:
    debugger = held(".entry main\nmain: SMOVE $1, #5\nLI $2, #nram(2)\nSLOAD.i32 $3, $2, #0\nHALT")
    stop = debugger.run()
    assert stop.reason == "fault: nram+0x2 is not aligned to the 4 bytes of i32"
    assert stop.instruction == 3
    assert debugger.step().reason == stop.reason
    assert debugger.back().instruction == 2
    assert debugger.run().reason == stop.reason


def test_a_finding_stops() -> None:
    debugger = held(SUMS.replace("SYNC.vector", "NOP"), checks=True)
    stop = debugger.run()
    assert stop.reason.startswith("finding: read after write without order: nram+0x0 to +0x40")
    assert stop.line == "<text>:14"
    assert debugger.findings[0].kind == "race"
    assert held(SUMS, checks=False).findings == []


def test_arguments_live_as_long_as_the_debugger() -> None:
    device = Device("dlp-m")
    debugger = Debugger(device, device.load(SUMS)["main"], [device.array(np.zeros(16, np.int32))])
    gc.collect()
    assert debugger.run().reason == "the program has ended"


def test_a_deadlock_is_a_fault() -> None:
    source = UNION.replace("    BARRIER.cluster\n", "    CBZ #end, $1\n    BARRIER.cluster\n")
    debugger = held(source, dim=(4, 1, 1), task="union1")
    assert debugger.run().reason.startswith("fault: the barrier is deadlocked: cluster 0 core 1 waits for")


@pytest.mark.parametrize("fmt", ["i4", "i8", "u16", "f16", "bf16", "e4m3", "f32", "f64", "i64"])
def test_memory_in_every_format(fmt: str) -> None:
    from trilobite.processor.isa.formats import BY_NAME, unpack

    debugger = held()
    debugger.break_at("loop")
    debugger.run()
    debugger.run()
    raw = debugger.tensor("x", "u8", (64,))
    count = 64 * 8 // BY_NAME[fmt].bits
    shown = debugger.tensor("x", fmt, (2, count // 2))
    assert shown.shape == (2, count // 2)
    assert shown.tobytes() == unpack(BY_NAME[fmt], raw, count).tobytes()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.break_at("nowhere"), "there is no code at 'nowhere'.*labels are loop, main"),
        (lambda d: d.break_at("900"), "there is no code at '900'"),
        (lambda d: d.break_at("other.s:7"), "there is no code at 'other.s:7'"),
        (lambda d: d.break_at("*99"), "there is no instruction '99'.*a number below 9"),
        (lambda d: d.watch("y", 4), "'y' is no address: y.*symbols are x"),
        (lambda d: d.watch("nram(0)", 0), "a shape of .0,."),
        (lambda d: d.watch("nram(0x7ffff)", 4), "reach outside the nram"),
        (lambda d: d.watch("1.5", 4), "'1.5' is 1.5"),
        (lambda d: d.tensor("x", "f33", (4,)), "there is no format 'f33'"),
        (lambda d: d.tensor("x", "f32", (0,)), "a shape of .0,."),
        (lambda d: d.tensor("0", "f32", (4,)), "null pointer"),
        (lambda d: d.delete(7), "there is no breakpoint 7"),
    ],
)
def test_errors_say_what_would_be_understood(call, message: str) -> None:
    import re

    with pytest.raises(ArgumentError) as caught:
        call(held())
    assert re.search(message, str(caught.value), re.DOTALL)


def test_the_same_results_as_a_launch() -> None:
    debugger = held(UNION, dim=(16, 1, 1), task="union2")
    debugger.run()
    device = Device("dlp-m")
    run = device.launch(
        device.load(UNION)["main"], [device.empty(16, "int32")], dim=(16, 1, 1), task="union2"
    )
    assert debugger._launch.executed == run.instructions
    for core in debugger.cores:
        assert not core.place.is_memory_core or core.halted
        for space in "NS":
            if space == "S" or not core.place.is_memory_core:
                mine = debugger.device.memory.pad(space, core.place.cluster, core.place.core)
                assert (mine == device.memory.pad(space, core.place.cluster, core.place.core)).all()
