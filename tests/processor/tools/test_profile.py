"""The profiler: line tables that sum to the stall table, a path without gaps, points below their roofs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilobite.processor.device import Device
from trilobite.processor.machine import Machine, load_machine
from trilobite.processor.sim.timing.stalls import CAUSES
from trilobite.processor.tools.critical import bound_of, critical_path, critical_text
from trilobite.processor.tools.line_stalls import OUTSIDE, line_stalls, line_text
from trilobite.processor.tools.profile import (
    critical_csv,
    lines_csv,
    roofline_csv,
    summary_json,
    write_profile,
)
from trilobite.processor.tools.roofs import roofline_points, roofline_text

PIECES = {
    "load": "VLOAD $10, $1, $0, #0",
    "store": "VSTORE $11, $1, $0, #4096",
    "vector": "VEXP $11, $1, $10",
    "add": "VAV $10, $1, $10, $11",
    "weights": "MLOAD $12, $2, $0, #0",
    "matrix": "MM $13, $10, $12, $3, $6",
    "move": "VMOVE $14, $1, $10",
    "sync": "SYNC",
    "sync.io": "SYNC.io",
    "scalar": "SMUL $20, $20, $20",
    "loop": "SMOVE $21, #40\nw{n}: SADD $21, $21, #-1\nCB #w{n}, $21",
    "pool": "VPOOL.f32.max $14, $10, $22",
    "f64": "VAV.f64 $10, $30, $10, $11",
}
HEAD = """
    LI $10, #nram(0)
    LI $11, #nram(16384)
    LI $12, #wram(0)
    LI $13, #nram(32768)
    LI $14, #nram(65536)
    SMOVE $1, #1024
    SMOVE $2, #1024
    SMOVE $3, #16
    SMOVE $4, #32
    SMOVE $5, #32
    SMOVE $22, #16
    SMOVE $23, #16
    SMOVE $24, #4
    SMOVE $25, #3
    SMOVE $26, #3
    SMOVE $27, #2
    SMOVE $28, #2
    SMOVE $30, #99
"""


def launch(source: str, machine: str | Machine = "dlp-m", tasks: int = 1, **options):
    device = Device(machine)
    data = device.array(np.ones(4096, np.float32))
    return device.launch(device.load(source), [data], dim=(tasks, 1, 1), **options)


def program(names: list[str]) -> str:
    return HEAD + "\n".join(PIECES[name].format(n=n) for n, name in enumerate(names))


@given(
    st.lists(st.sampled_from(sorted(PIECES)), min_size=1, max_size=25),
    st.sampled_from(["dlp-s", "dlp-m", "tpu-v1"]),
    st.sampled_from([1, 3, 20]),
)
def test_sums_and_paths_of_random_programs(names: list[str], machine: str, tasks: int) -> None:
    run = launch(program(names), machine, tasks)
    rows = line_stalls(run)
    for cause in CAUSES:
        assert sum(row.cycles[cause] for row in rows) == run.stalls_by_cause()[cause]
    assert sum(row.total for row in rows) == run.cycles * len(run.stalls)
    executed = sum(len(core.operations) for core in run.timeline.cores)
    assert sum(row.executions for row in rows) == executed
    path = critical_path(run)
    assert path[0].start == 0 and path[-1].end == run.cycles
    assert all(a.end == b.start and a.cycles > 0 for a, b in pairwise(path))
    for point in roofline_points(run):
        assert point.share <= 1 + 1e-9 and point.operations >= 0


def without_launch(name: str) -> Machine:
    machine = load_machine(name)
    return replace(machine, launch=replace(machine.launch, overhead_ns=0.0))


def test_what_binds_an_instruction() -> None:
    source = (
        HEAD
        + """
        VLOAD $10, $1, $0, #0
        VLOAD $11, $1, $0, #0
        SYNC.io
        VEXP $11, $1, $10
        VEXP $11, $1, $10
        SYNC.vector
        SMOVE $21, #400
        wait: SADD $21, $21, #-1
        CB #wait, $21
        VAV $10, $1, $10, $11
    """
    )
    run = launch(source, without_launch("dlp-m"))
    bound = [bound_of(op) for op in run.timeline.cores[0].operations]
    assert bound == ["scalar", "unit busy", "sync", "unit busy", "scalar"]
    started = launch(source)  # with the launch's overhead, which is longer than the first instructions
    assert bound_of(started.timeline.cores[0].operations[0]) == "launch"
    narrow = launch(source, without_launch("dlp-s"))  # its DRAM gives less than its DMA takes
    assert [bound_of(op) for op in narrow.timeline.cores[0].operations][:2] == ["bandwidth", "bandwidth"]
    waiting = launch(source.replace("SYNC.io", ""), without_launch("dlp-s"))
    assert bound_of(waiting.timeline.cores[0].operations[2]) == "operand"
    contended = launch(HEAD + "VLOAD $10, $1, $0, #0", without_launch("dlp-m"), tasks=16)
    assert {bound_of(op) for core in contended.timeline.cores for op in core.operations} == {"bandwidth"}


BARRIER = """
    SREAD $1, #coreId
    SREAD $2, #isMpu
    CBNZ #meet, $2
    LI $10, #nram(0)
    SMOVE $3, #1024
    SADD $4, $1, #-2
    CBNZ #meet, $4
    VSET $10, $3, #1
    VEXP $10, $3, $10       // core 2 keeps everybody waiting
    SYNC
    meet: BARRIER.cluster
    CBNZ #end, $2
    CBNZ #end, $1
    LI $10, #nram(0)
    SMOVE $3, #4096
    VSET $10, $3, #1        // core 0 is the last to end
    end: HALT
"""


def test_the_path_crosses_a_barrier_to_the_core_that_was_late() -> None:
    run = launch(BARRIER, without_launch("dlp-m"), 4, task="union1")
    path = critical_path(run)
    cores = [stretch.core for stretch in path]
    assert cores[0] == 2 and cores[-1] == 0
    meeting = next(stretch for stretch in path if stretch.what == "barrier")
    before = path[path.index(meeting) - 1]
    assert (before.core, before.queue, before.what) == (2, "vector", "VEXP.f32 $10, $3, $10")
    assert path[-1].what == "VSET.f32 $10, $3, #1.0"
    assert sum(stretch.cycles for stretch in path) == run.cycles


def test_lines_name_the_waiting() -> None:
    run = launch(HEAD + "VLOAD $10, $1, $0, #0\nSYNC.io\nVEXP $11, $1, $10\nSYNC", without_launch("dlp-m"))
    rows = {row.line: row for row in line_stalls(run)}
    load, wait, exp = (rows[f"<text>:{n}"] for n in (20, 21, 22))
    assert load.executions == exp.executions == 1 and wait.executions == 0
    assert wait.cycles["sync"] > 0 and exp.cycles["sync"] == 0
    assert exp.cycles["busy"] == 256 + 1  # 8 passes of 4 KiB at 128 bytes a cycle, and one cycle of dispatch
    assert OUTSIDE not in rows  # the last SYNC keeps control until everything is done
    text = line_text(run, limit=2).splitlines()
    assert text[0].split()[0] == "line" and "others" in text[-1]


def test_points_by_hand() -> None:
    run = launch(program(["load", "weights", "sync", "matrix", "sync"]) + "\nVAV $11, $1, $10, $10")
    whole, *lines = roofline_points(run)
    assert (whole.operations, whole.bytes) == (2 * 16 * 32 * 32 + 1024, 8192)
    assert whole.bandwidth == pytest.approx(307.2e9 * 0.85)
    assert whole.peak == pytest.approx((2 * 16 * 32 * 32 + 1024) / 32 * 16 * 1e9)  # both units at once
    points = {point.name: point for point in lines}
    product, addition = points["<text>:23"], points["<text>:25"]
    assert (product.operations, product.memory) == (2 * 16 * 32 * 32, "nram")
    assert product.bytes == 4 * (16 * 32 * 2) and product.peak == pytest.approx(2 * 512e9)
    assert addition.operations == 1024 and addition.bytes == 3 * 4096
    assert addition.peak == pytest.approx(32e9)
    assert addition.share == pytest.approx(1.0)  # 12 KiB through NRAM at 256 bytes a cycle
    text = roofline_text(run).splitlines()
    assert text[0].split()[0] == "point" and text[2].startswith("launch")


def test_files_of_a_profile(tmp_path) -> None:
    run = launch(program(["load", "weights", "sync", "matrix", "sync", "store"]), tasks=5)
    made = write_profile(run, tmp_path / "profile")
    assert sorted(path.name for path in made) == [
        "critical.csv", "lines.csv", "roofline.csv", "stalls.csv", "summary.json", "trace.json",
        "trace.pftrace"]  # fmt: skip
    assert all(path.stat().st_size for path in made)
    lines = list(csv.DictReader(io.StringIO(lines_csv(run))))
    assert sum(int(row["total"]) for row in lines) == run.cycles * len(run.stalls)
    path = list(csv.DictReader(io.StringIO(critical_csv(run))))
    assert sum(int(row["cycles"]) for row in path) == run.cycles
    assert {row["bound by"] for row in path} <= {*CAUSES, "unit busy"}
    points = list(csv.DictReader(io.StringIO(roofline_csv(run))))
    assert points[0]["point"] == "launch"
    summary = json.loads(summary_json(run))
    assert sum(summary["critical"].values()) == run.cycles and summary["points"][0]["memory"] == "dram"
    events = json.loads((tmp_path / "profile" / "trace.json").read_text())["traceEvents"]
    assert {event["args"]["bound by"] for event in events if event["name"].startswith("MM.")} <= {
        *CAUSES,
        "unit busy",
    }


def test_the_path_as_text() -> None:
    run = launch(BARRIER, "dlp-m", 4, task="union1")
    text = critical_text(run)
    assert "VEXP.f32 $10, $3, $10" in text and "barrier" in text and "launch" in text
    short = critical_text(run, limit=2).splitlines()
    assert short[-1].startswith("and ") and short[-1].endswith(" cycles")
    assert len(short) == 5


def test_roofs_rise_with_the_clock() -> None:
    text = program(["load", "weights", "sync", "matrix", "sync"])
    machine = load_machine("dlp-m")
    slow, fast = (roofline_points(launch(text, replace(machine, clock_ghz=ghz))) for ghz in (0.5, 2.0))
    assert [p.peak for p in fast] == pytest.approx([4 * p.peak for p in slow], rel=1e-12)
    assert all(p.seconds > 0 for p in slow)
