"""Every figure and sentence of a page beside the numbers that it is made of: profiles made by hand."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.targets.cpu.tools.profiling import Event, Profile, Row
from trilobite.processor.sim.run import Run
from trilobite.report import feed as feeds
from trilobite.report.cpu import LONGEST_CODE, _bound, cpu_subject, first_lines
from trilobite.report.feed import KERNELS, LAUNCHES, Feed
from trilobite.report.memory import alive
from trilobite.report.network import _busy, layers_table
from trilobite.report.places import place_text, short_path
from trilobite.report.processor import _WAITS, processor_subject

KIB = 1 << 10
ROOF: Any = SimpleNamespace(
    sizes=(32 * KIB, 512 * KIB, 64 * KIB * KIB),
    bandwidth=(4e11, 2e11, 5e10),
    bandwidth_of=lambda n: 4e11 if n <= 32 * KIB else 2e11 if n <= 512 * KIB else 5e10,
    flops={"float32": 1e11},
    threads=2,
)
ROWS = (
    Row(0, "loops", ("a", "a", "b"), "x.py:1", 3, 3e-6, 1e3, 32 * KIB, 1e-6),
    Row(1, "gemm", ("c",), "x.py:2", 1, 5e-6, 4e5, 4 * KIB, 4e-6),
    Row(2, "loops", ("d",), "x.py:3", 2, 2e-6, 0.0, 0, 0.0),
)
EVENTS = (Event(1, "c", 5000, 11000), Event(0, "a", 1000, 4000), Event(2, "d", 11500, 13500))


def profile(call: float = 15e-6, **changed: Any) -> Profile:
    given: dict[str, Any] = {"rows": ROWS, "events": EVENTS, **changed}
    return Profile("net", 20, call, given["rows"], (), given["events"], ROOF)


def test_rates_of_a_row() -> None:
    row = ROWS[0]
    assert row.gflops == pytest.approx(1e3 / 3e-6 / 1e9) and row.share == pytest.approx(1 / 3)
    assert row.gbytes == pytest.approx(32 * KIB / 3e-6 / 1e9) and row.name == "a + b"
    still = Row(0, "loops", ("a",), "", 1, 0.0, 1.0, 1, 1.0)
    assert still.gflops == still.gbytes == still.share == 0.0


def test_parts_of_a_call_sum_to_it() -> None:
    p = profile()
    assert p.kernels == pytest.approx(10e-6) and p.elsewhere == pytest.approx(4e-6)
    assert p.disturbed == pytest.approx(1e-6)
    assert p.kernels + p.elsewhere + p.disturbed == pytest.approx(p.call)
    assert profile(9e-6).elsewhere == 0.0 and profile(9e-6).disturbed == 0.0
    assert p.target == "cpu" and p.fused is None and p.arena == 0


@pytest.mark.parametrize(
    ("flops", "size", "said"),
    [
        (0.0, 32 * KIB, "caches within 32 KiB"),
        (0.0, 32 * KIB + 1, "caches within 512 KiB"),
        (0.0, 512 * KIB, "caches within 512 KiB"),
        (0.0, 512 * KIB + 1, "memory"),
        (0.0, 1 << 40, "memory"),
        (0.0, 0, "arithmetic"),
        (4096.0, 16384, "arithmetic"),  # as long as the memory
        (4095.0, 16384, "caches within 32 KiB"),
    ],
)
def test_what_bounds_a_kernel(flops: float, size: int, said: str) -> None:
    row = Row(0, "", (), "", 1, 1.0, flops, size, 0.0)
    assert _bound(profile(), row) == said


def test_a_profile_as_a_subject() -> None:
    found = cpu_subject(profile(), "mine")
    assert (found.name, found.target, found.unit, found.total) == ("mine", "cpu", "ns", 12500.0)
    assert cpu_subject(profile()).name == "net"
    figures = dict(found.figures)
    assert figures["time"] == "15.00 µs, least of 20"
    assert figures["in kernels, each at its quickest"] == "10.00 µs"
    assert figures["outside kernels"] == "4.000 µs" and figures["threads"] == "2"
    assert figures["arithmetic"] == "401.0 kFLOP, 40.10 GFLOP/s"
    assert figures["read and written by kernels"] == "36.86 kB"
    assert "lost to other programs" not in figures
    assert found.numbers == {"time in µs": pytest.approx(15.0), "in kernels in µs": pytest.approx(10.0)}
    assert found.sentence == (
        "It ran on 2 threads of this CPU. A call took 15.00 µs. Its kernels reach 50% of what arithmetic and "
        "memory of this machine allow. The longest is c: 50% of the kernels' time, bound by arithmetic."
    )
    (lane,) = found.lanes
    assert lane.start.tolist() == [0.0, 4000.0, 10500.0] and lane.length.tolist() == [3000.0, 6000.0, 2000.0]
    assert [found.labels[n][0].split("\n")[0] for n in lane.label] == ["a", "c", "d"]
    (table,) = found.tables
    assert [row[0] for row in table.rows] == ["c", "a + b", "d"]
    assert table.rows[1][2:8] == [3, pytest.approx(3.0), pytest.approx(0.3), ROWS[0].gflops, ROWS[0].gbytes,
                                  ROWS[0].share]  # fmt: skip
    assert table.rows[1][8:] == ["caches within 32 KiB", "", "x.py:1"]
    assert found.roofs is not None and found.roofs.points[0] == ("a + b\n x.py:1", 1e3, 32.0 * KIB, 3e-6)
    assert found.roofs.peaks == [("float32", 1e11)]
    assert found.roofs.bandwidths == [("memory", 5e10), ("32 KiB", 4e11)]


def test_what_others_took_is_told_above_a_tenth() -> None:
    slow = (Event(0, "a", 0, 5000), Event(1, "c", 5000, 12000), Event(2, "d", 12000, 14000))
    quiet, lost = cpu_subject(profile(14e-6, events=EVENTS)), cpu_subject(profile(15e-6, events=slow))
    assert "lost to other programs" not in dict(quiet.figures) and "something else" not in quiet.sentence
    assert dict(lost.figures)["lost to other programs"] == "4.000 µs"
    assert "In 4.000 µs of it kernels took longer" in lost.sentence
    assert [name for name, _ in lost.figures][3] == "lost to other programs"
    edge = (Event(0, "a", 0, 11 * 10**9),)  # disturbed for exactly a tenth
    assert "lost to other programs" not in dict(cpu_subject(profile(10.0, events=edge, rows=(
        Row(0, "", ("a",), "", 1, 9.0, 0.0, 1, 1e-6),))).figures)  # fmt: skip


def test_a_profile_without_kernels() -> None:
    found = cpu_subject(profile(2e-6, rows=(), events=()))
    assert found.lanes == [] and found.total == 0.0
    assert found.sentence.endswith(
        "Its kernels reach 0% of what arithmetic and memory of this machine allow."
    )


@pytest.mark.parametrize("more", [-1, 0, 1, 7])
def test_long_code_is_cut(more: int) -> None:
    text = "\n".join(map(str, range(LONGEST_CODE + more)))
    found = first_lines(text).splitlines()
    if more <= 0:
        assert "\n".join(found) == text
    else:
        assert found == [*map(str, range(LONGEST_CODE)), f"... and {more} more lines"]


def test_memory_from_maker_to_last_reader() -> None:
    def f(x: tb.Tensor) -> tuple[tb.Tensor, tb.Tensor]:
        a = tb.tanh(x)
        b = a @ a
        return b.exp(), a

    graph = tb.jit(f).lower(tb.zeros((8, 8))).graph
    rows = {owner.split()[0]: (first, last, size) for owner, first, last, size in alive(graph)}
    count = len(graph.equations)
    size = 8 * 8 * 4.0
    places = {e.primitive.name: float(n) for n, e in enumerate(graph.equations)}
    assert rows["tanh"] == (places["tanh"], count + 1.0, size)  # a result lives to the end
    assert rows["dot"] == (places["dot"], places["exp"] + 1.0, size)
    assert rows["exp"] == (places["exp"], count + 1.0, size)


def test_places_are_short_and_clear(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from trilobite.base.locations import UNKNOWN, Location

    monkeypatch.chdir(tmp_path)
    assert short_path(str(tmp_path / "a" / "net.py")) == "a/net.py"
    assert short_path("/one/two/three/four/net.py") == "three/four/net.py"
    for long in ("/net.py", "/a/net.py", "/a/b/net.py", "/a/b/c/net.py", "/a/b/c/d/e/f/net.py"):
        assert short_path(long) == "/".join(long.split("/")[-3:] if long.count("/") > 2 else [long])
    assert place_text(UNKNOWN) == ""
    at = Location(str(tmp_path / "net.py"), 12, "forward")
    assert place_text(at) == "net.py:12 in forward"
    assert place_text(Location("model.onnx", 0, "conv1")) == "model.onnx: conv1"


def test_rows_of_layers() -> None:
    row = SimpleNamespace(number=3, name="conv", operations=2, cycles=70, share=0.7, bound="DRAM", unit="MFU",
                          utilisation=0.0, dram_bytes=99, joules=2e-6, predicted=0, mapping="m",
                           where="x.py:1")  # fmt: skip
    table = layers_table(SimpleNamespace(rows=[row]))
    assert table.rows == [
        ["3 conv", 2, 70, 0.7, "DRAM", "MFU", None, 99, pytest.approx(2.0), None, "m", "x.py:1"]
    ]


# -- launches ------------------------------------------------------------------------------------------------


def test_figures_of_a_launch(run: Run) -> None:
    found = processor_subject(run)
    roof, figures = run.roofline, dict(found.figures)
    assert figures["cycles"] == f"{run.cycles:,}" and figures["instructions"] == f"{run.instructions:,}"
    side = "arithmetic" if roof.compute_cycles >= roof.memory_cycles else "memory"
    assert figures["roofline"] == f"{roof.cycles:,.0f} cycles, {side}"
    assert figures["of the roofline"] == f"{roof.cycles / run.cycles:.1%}"
    assert figures["multiply-accumulates"] == f"{roof.macs:,}"
    assert found.numbers == {
        "time in µs": run.seconds * 1e6, "cycles": run.cycles, "energy in µJ": run.energy.total * 1e6,
        "DRAM bytes": roof.dram_bytes, "instructions": run.instructions,
    }  # fmt: skip
    waits = {cause: cycles for cause, cycles in run.stalls_by_cause().items() if cause in _WAITS}
    worst = max(waits, key=lambda cause: waits[cause])
    assert found.sentence.endswith(f"Its queues wait longest for {_WAITS[worst]} ({worst}).")
    assert f", {roof.cycles / run.cycles:.0%} of them." in found.sentence
    begun = max(row.cycles.get("launch", 0) for row in run.stalls)
    told = f" Starting it takes {begun:,} of them." in found.sentence
    assert told == (begun > run.cycles / 10)


def test_tables_of_a_launch(run: Run) -> None:
    tables = {table.title: table for table in processor_subject(run).tables}
    for row in tables["Stalls"].rows:
        assert sum(row[1:]) == run.cycles
    operations = [op for core in run.timeline.cores for op in core.operations]
    busy, waiting = (
        sum(op.free - op.start for op in operations),
        sum(op.start - op.dispatch for op in operations),
    )
    for name in ("by module", "by line"):
        rows = tables[f"Where the cycles went, {name}"].rows
        assert [sum(row[n] for row in rows) for n in (-3, -2, -1)] == [len(operations), busy, waiting]
        assert [row[-2] for row in rows] == sorted((row[-2] for row in rows), reverse=True)
    energy = tables["Energy"].rows
    assert sum(row[1] for row in energy) == pytest.approx(run.energy.total * 1e6)
    assert sum(row[2] for row in energy) == pytest.approx(1.0)
    assert tables["Bytes"].rows == [[name, count] for name, count in run.bytes.items()]
    path = run.critical_path
    for name in ("Critical path", "Critical path, by module"):
        assert sum(row[-1] for row in tables[name].rows) == run.cycles - path[0].start
    counts = _busy(run)
    assert sum(n for n, _ in counts.values()) == len(operations)
    assert sum(cycles for _, cycles in counts.values()) == busy


def test_roofs_of_a_launch(run: Run) -> None:
    roofs = processor_subject(run).roofs
    hertz = run.machine.clock_ghz * 1e9
    assert roofs is not None and roofs.bandwidths == [("DRAM", run.machine.dram_bytes_per_cycle * hertz)]
    rates = run.machine.core.mfu.macs_per_cycle
    assert all(rate == 2 * rates[name] * run.machine.cores * hertz for name, rate in roofs.peaks)


# -- what a run tells while it runs --------------------------------------------------------------------------


def test_the_last_launches_are_kept(run: Run) -> None:
    feed = Feed()
    for _ in range(LAUNCHES + 5):
        feed._launch(run)
    state = feed.snapshot()
    assert [row["number"] for row in state["launches"]] == list(range(6, LAUNCHES + 6))
    assert state["launched"] == LAUNCHES + 5 and state["cycles"] == (LAUNCHES + 5) * run.cycles
    row = state["launches"][-1]
    assert (row["machine"], row["cycles"]) == ("dlp-s", run.cycles)
    assert row["ms"] == pytest.approx(run.seconds * 1e3) and row["mJ"] == pytest.approx(
        run.energy.total * 1e3
    )
    assert feed.last_run is run


def test_the_longest_kernels_and_where_it_is() -> None:
    feed = Feed()
    assert feed.snapshot()["kernels"] == [] and feed.snapshot()["kernel"] == ""
    spent = {f"k{n}": 1e-3 * (n + 1) for n in range(KERNELS + 3)}
    now = SimpleNamespace(kernel="k1", number=2, of=9)
    feed._watch = SimpleNamespace(now=lambda: now, spent=lambda: spent)  # type: ignore[assignment]
    state = feed.snapshot()
    assert [row["kernel"] for row in state["kernels"]] == [f"k{KERNELS + 2 - n}" for n in range(KERNELS)]
    assert state["kernels"][0]["ms"] == pytest.approx(KERNELS + 3)
    assert state["kernels"][0]["share"] == pytest.approx((KERNELS + 3) * 1e-3 / sum(spent.values()))
    assert state["kernel"] == "k1, 2 of 9" and state["line"]
    feed.ended("in peace")
    state = feed.snapshot()
    assert (state["kernel"], state["line"], state["ended"]) == ("", "", "in peace")


def test_a_thread_that_is_gone_has_no_line() -> None:
    made: list[Feed] = []
    worker = threading.Thread(target=lambda: made.append(Feed()))
    worker.start()
    worker.join()
    assert made[0].snapshot()["line"] == "" and feeds.MOST > 1


def test_roofs_of_a_launch_beside_their_formulas() -> None:
    """Points by source line, peaks of the formats in use, all from the machine's description."""
    from trilobite.processor import Device
    from trilobite.report.processor import _roofs

    text = """
        LI $10, #nram(0)
        LI $11, #wram(0)
        LI $12, #nram(65536)
        SMOVE $1, #4096
        SMOVE $20, #16
        SMOVE $21, #32
        SMOVE $22, #24
        VLOAD $10, $1, $0, #0
        SYNC
        MM.f32.f32.f32 $12, $10, $11, $20, $24
    """
    device = Device("dlp-s")
    run = device.launch(device.load(text), [device.array(np.zeros(4096, np.float32))], checks=False)
    made = _roofs(run, lambda place: "all")
    machine, hertz = run.machine, run.machine.clock_ghz * 1e9
    ((label, operations, moved, seconds),) = made.points
    assert label == "all" and operations == 2 * run.roofline.macs == 2 * 16 * 32 * 24
    assert moved == run.roofline.dram_bytes > 0
    spans = [(op.start, op.finish) for core in run.timeline.cores for op in core.operations]
    assert seconds == pytest.approx((max(f for _, f in spans) - min(s for s, _ in spans)) / hertz)
    rate = machine.core.mfu.macs_per_cycle["fp32"]
    assert made.peaks == [("fp32", pytest.approx(2 * rate * machine.cores * hertz))]
    assert made.bandwidths == [("DRAM", pytest.approx(machine.dram_bytes_per_cycle * hertz))]
    only = device.launch(device.load("SMOVE $1, #1"), checks=False)
    name, rate = next(iter(machine.core.mfu.macs_per_cycle.items()))
    found = _roofs(only, lambda place: "all")
    assert not found.points and found.peaks == [(name, pytest.approx(2 * rate * machine.cores * hertz))]
