"""Cycles: closed forms against a per-cycle array, queues and contention by hand, invariants."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.processor.contention_model import Sharing, Transfer
from trilobite.processor.device import Device
from trilobite.processor.isa.formats import U8
from trilobite.processor.isa.row import Region
from trilobite.processor.machine import Machine, load_machine
from trilobite.processor.machine.description import Noc
from trilobite.processor.sim.record import TensorRecord, Trace
from trilobite.processor.sim.timing import array_model
from trilobite.processor.sim.timing.arrays import output_stationary, product_cycles, weight_stationary
from trilobite.processor.sim.timing.cost import cost_of
from trilobite.processor.sim.timing.dram import dram_bytes
from trilobite.processor.sim.timing.native import replay
from trilobite.processor.sim.timing.ranges import overlap
from trilobite.processor.sim.timing.roofline import roofline
from trilobite.processor.sim.timing.stalls import critical_path, stall_table
from trilobite.processor.tools.critical import critical_path as stretches

SIZES = st.integers(1, 9)


@given(
    SIZES,
    SIZES,
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 2),
    st.integers(0, 99),
)
def test_weight_stationary_is_the_per_cycle_array(rows, cols, m, n, k, buffers, seed) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-9, 9, (m, k)).astype(float), rng.integers(-9, 9, (k, n)).astype(float)
    run = array_model.weight_stationary(a, b, rows, cols, buffers)
    assert (run.product == a @ b).all()
    tiles = -(-k // rows) * -(-n // cols)
    assert run.last_cycle == weight_stationary(rows, cols, buffers, m, tiles)


@given(SIZES, SIZES, st.integers(1, 20), st.integers(1, 20), st.integers(1, 20), st.integers(0, 99))
def test_output_stationary_is_the_per_cycle_array(rows, cols, m, n, k, seed) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-9, 9, (m, k)).astype(float), rng.integers(-9, 9, (k, n)).astype(float)
    run = array_model.output_stationary(a, b, rows, cols)
    assert (run.product == a @ b).all()
    assert run.last_cycle == output_stationary(rows, cols, k, -(-m // rows) * -(-n // cols))


def unit_cycles(machine: Machine, trace: Trace) -> dict[str, int]:
    """Busy cycles per queue, the largest over the cores: a bound that no overlap can beat."""
    largest: dict[str, int] = {}
    for core in trace.cores:
        busy: dict[str, int] = {}
        for record in core.records:
            if isinstance(record, TensorRecord):
                busy[record.queue] = (
                    busy.get(record.queue, 0) + cost_of(machine, record, core.cluster).interval
                )
        for queue, cycles in busy.items():
            largest[queue] = max(largest.get(queue, 0), cycles)
    return largest


def test_closed_forms_of_the_design() -> None:
    mfu = load_machine("dlp-s").core.mfu
    assert product_cycles(mfu, "int8", 100, 128, 128) == 64 + 3 * 100 + 100 + 64 + 64 - 3
    single = replace(mfu, weight_buffers=1)
    assert product_cycles(single, "int8", 100, 128, 128) == 4 * (128 + 64 + 100 - 2) - 1
    assert product_cycles(mfu, "fp32", 100, 64, 64) == 64 + 800 + 64 + 64 - 3
    assert product_cycles(mfu, "int4", 101, 64, 64) == 64 + 51 + 64 + 64 - 3
    tree = load_machine("nvdla-2048").core.mfu
    assert product_cycles(tree, "int8", 14 * 14, 256, 100, taps=9) == 2 * 8 * 9 * 196 + 8
    assert product_cycles(tree, "int8", 100, 64, 3, taps=49) == 3 * 2 * 100 + 8
    apart = replace(tree, first_layer_fold=False)
    assert product_cycles(apart, "int8", 100, 64, 3, taps=49) == 49 * 2 * 100 + 8
    assert product_cycles(tree, "int8", 100, 64, 5, taps=49) == 49 * 2 * 100 + 8
    assert product_cycles(tree, "int8", 100, 64, 64, taps=9, groups=64) == 64 * 9 * 100 + 8
    four = replace(mfu, rows=32, cols=32, count=4)
    assert product_cycles(four, "int8", 100, 64, 64) == 32 + 100 + 32 + 32 - 3
    assert product_cycles(mfu, "int8", 0, 5, 5) == 0


@pytest.mark.parametrize("name", ["dlp-s", "nvdla-512", "tpu-v1"])
def test_vectorised_closed_forms_are_the_scalar_ones(name: str, rng) -> None:
    mfu = load_machine(name).core.mfu
    shapes = rng.integers(1, 3000, (50, 3))
    got = product_cycles(mfu, "int8", *shapes.T)
    assert got.tolist() == [product_cycles(mfu, "int8", *shape) for shape in shapes.tolist()]


def test_shares_are_fair_and_bytes_conserved() -> None:
    sharing = Sharing(lambda resource: {"dram": 10.0, "port": 4.0}[resource])
    first, second = Transfer(600, 8.0, ("dram",), 0), Transfer(100, 8.0, ("dram", "port"), 1)
    sharing.begin(first, 0)
    assert sharing.next_end() == 75
    sharing.begin(second, 10)
    assert (sharing.rate(first), sharing.rate(second)) == (6.0, 4.0)
    assert sharing.next_end() == 35
    assert sharing.finish(35) == [second]
    assert sharing.active == 1 and sharing.rate(first) == 8.0
    assert sharing.next_end() == 35 + 47  # 600 - 80 - 150 bytes are left


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 64), st.integers(0, 200)), min_size=1, max_size=8)
)
def test_sharing_serves_all_and_never_beats_the_part(jobs) -> None:
    sharing, waiting, ends = Sharing(lambda resource: 32.0), sorted(jobs, key=lambda job: job[2]), []
    begun, kept = {}, []
    while waiting or sharing.active:
        end = sharing.next_end()
        if waiting and (end is None or waiting[0][2] < end):
            amount, rate, start = waiting.pop(0)
            made = Transfer(amount, rate, ("dram",), len(waiting))
            begun[id(made)] = start
            kept.append(made)
            sharing.begin(made, start)
        else:
            ends += [(end, transfer) for transfer in sharing.finish(end)]
    assert len(ends) == len(jobs)
    first = min(job[2] for job in jobs)
    assert max(end for end, _ in ends) - first >= sum(job[0] for job in jobs) / 32 - 1e-6
    for end, transfer in ends:
        assert end >= begun[id(transfer)] + transfer.amount / transfer.top_rate - 1e-6
        assert end <= first + 200 + sum(job[0] / min(job[1], 32) for job in jobs) + len(jobs)


def _by_bursts(jobs: list[tuple[int, int]], rate: float, burst: int) -> list[float]:
    """Round robin in the order of the cores, a burst at a time; the last of a transfer may be shorter."""
    left, ends, now, turn = [amount for amount, _ in jobs], [0.0] * len(jobs), 0.0, 0
    while any(left):
        here = [core for core, (_, start) in enumerate(jobs) if left[core] and start <= now]
        if not here:
            now = min(start for core, (_, start) in enumerate(jobs) if left[core])
            continue
        core = next((core for core in here if core >= turn), here[0])
        size = min(burst, left[core])
        left[core] -= size
        now += size / rate
        ends[core], turn = now, core + 1
    return ends


@given(st.lists(st.tuples(st.integers(1, 20000), st.integers(0, 300)), min_size=1, max_size=6))
def test_fair_shares_are_round_robin_bursts_within_one_round(jobs) -> None:
    """The closed form beside a link that serves 512-byte bursts in turn: every end within two rounds of
    bursts, and the last the same but for the rounding of each."""
    rate, burst = 32.0, 512
    sharing, found = Sharing(lambda resource: rate), {}
    waiting = sorted(range(len(jobs)), key=lambda core: (jobs[core][1], core))
    while waiting or sharing.active:
        end = sharing.next_end()
        if waiting and (end is None or jobs[waiting[0]][1] <= end):
            core = waiting.pop(0)
            sharing.begin(Transfer(jobs[core][0], 1e9, ("link",), core), jobs[core][1])
        else:
            found |= {transfer.order: end for transfer in sharing.finish(end)}
    want = _by_bursts(jobs, rate, burst)
    round_of_bursts = len(jobs) * burst / rate
    assert abs(max(found.values()) - max(want)) <= len(jobs)
    assert all(abs(found[core] - want[core]) <= 2 * round_of_bursts + len(jobs) for core in found)


def test_dram_granules_and_read_modify_write(rng) -> None:
    machine = load_machine("dlp-s")

    def block(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Region:
        return Region(offset, U8, shape, strides, "G")

    assert dram_bytes(machine, block(0, (256,), (1,)), False) == 256
    assert dram_bytes(machine, block(60, (8,), (1,)), False) == 128
    assert dram_bytes(machine, block(0, (8,), (1,)), True) == 128
    assert dram_bytes(machine, block(32, (256,), (1,)), True) == 320 + 128
    assert dram_bytes(machine, block(0, (10, 4), (256, 1)), False) == 640
    assert dram_bytes(machine, block(0, (10, 4), (4, 1)), False) == 64
    assert dram_bytes(machine, block(0, (0,), (1,)), True) == 0
    for _ in range(100):  # against counting granules one by one
        n1, n0, size = (int(x) for x in rng.integers(1, 6, 3))
        region = block(
            int(rng.integers(0, 300)),
            (n1, n0, size),
            (int(rng.integers(100, 400)), size * int(rng.integers(1, 4)), 1),
        )
        pieces = merged_pieces(region)
        reads = sum(len({byte // 64 for byte in piece}) for piece in pieces)
        partial = sum(
            sum(len({b for b in piece if b // 64 == g}) < 64 for g in {b // 64 for b in piece})
            for piece in pieces
        )
        assert dram_bytes(machine, region, False) == 64 * reads
        assert dram_bytes(machine, region, True) == 64 * (reads + partial)


def merged_pieces(region: Region) -> list[range]:
    """The contiguous pieces a copy makes: rows that touch are one."""
    n1, n0, size = region.shape
    dense = region.strides[1] == size
    if dense and region.strides[0] == n0 * size:
        return [range(region.address, region.address + n1 * n0 * size)]
    if dense:
        return [range(a, a + n0 * size) for a in (region.address + i * region.strides[0] for i in range(n1))]
    starts = (
        region.address + i * region.strides[0] + j * region.strides[1] for i in range(n1) for j in range(n0)
    )
    if n0 == 1 and region.strides[0] == size:
        return [range(region.address, region.address + n1 * size)]
    return [range(a, a + size) for a in starts]


def test_channels_and_requests_bound_one_engine() -> None:
    machine = load_machine("dlp-m")

    def alone(shape: tuple[int, ...], strides: tuple[int, ...], **changes) -> int:
        there = Region(1 << 20, U8, shape, strides, "G")
        here = Region(2 << 56, U8, (int(np.prod(shape)),), (1,), "N")
        record = TensorRecord(0, "io", "dma", {}, (), (there,), (here,))
        return cost_of(replace(machine, dram=replace(machine.dram, **changes)), record).alone

    size = 64 * 512
    assert alone((size,), (1,)) == size // 32  # the engine's own 32 bytes a cycle are the least
    slow = {"gb_per_s": 30.72}  # 26.1 bytes a cycle over four channels
    assert alone((size,), (1,), **slow) == int(np.ceil(size / 26.112))
    spread, stuck = (alone((64, 512), (stride, 1), **slow) for stride in (512 * 5, 512 * 4))
    assert stuck == pytest.approx(4 * spread, rel=0.01)  # a stride of four bursts meets one channel only
    assert (
        alone((size,), (1,), latency_ns=1000) == 64 * 1000 // 8
    )  # eight requests of 512 bytes in 1000 cycles


def test_overlap_is_exact_for_interleaved_buffers(rng) -> None:
    even, odd = Region(0, U8, (10, 8), (16, 1), "N"), Region(8, U8, (10, 8), (16, 1), "N")
    assert not overlap(even, odd)
    assert overlap(even, Region(7, U8, (10, 8), (16, 1), "N"))
    for _ in range(300):
        regions, sets = [], []
        for _ in range(2):
            shape = tuple(int(x) for x in rng.integers(1, 4, 3))
            strides = (int(rng.integers(-30, 60)), int(rng.integers(0, 20)), 1)
            start = int(rng.integers(200, 300))
            regions.append(Region(start, U8, shape, strides, "N"))
            indices = np.indices(shape).reshape(3, -1)
            sets.append(set((start + np.array(strides) @ indices).tolist()))
        assert overlap(*regions) == bool(sets[0] & sets[1])


def launch(source: str, machine: str | Machine = "dlp-s", args=(), **options):
    device = Device(machine)
    arrays = [device.array(value) if isinstance(value, np.ndarray) else value for value in args]
    return device.launch(device.load(source), arrays, **options)


PIPELINE = """
    LI $10, #nram(0)
    LI $11, #nram(65536)
    SMOVE $1, #8192
    VLOAD $10, $1, $0, #0
    VLOAD $11, $1, $0, #32768
    VEXP $10, $1, $10
    VEXP $11, $1, $11
    VSTORE $10, $1, $0, #0
    VSTORE $11, $1, $0, #32768
"""


def without_launch(name: str, **changes) -> Machine:
    machine = load_machine(name)
    return replace(machine, launch=replace(machine.launch, overhead_ns=0.0), **changes)


def test_a_pipeline_by_hand() -> None:
    """Ranges interlock: the second load runs beside the first exponential."""
    run = launch(PIPELINE, without_launch("dlp-s"), [np.zeros(16384, np.float32)])
    machine = run.machine
    load = int(np.ceil(32768 / (25.6 * 0.85)))
    exp = 32768 // 128 * 8
    operations = {op.record.place: op for op in run.timeline.cores[0].operations}
    first, second, exp_a, exp_b = (operations[i] for i in (5, 6, 7, 8))
    assert first.start == first.dispatch and first.free - first.start == load
    assert first.finish == first.free + 16 + machine.cycles(100)
    assert second.start == first.free
    assert exp_a.start == first.finish and exp_a.free - exp_a.start == exp
    assert exp_b.start == max(second.finish, exp_a.free)
    assert exp_a.bound == "operand" and second.bound == "bandwidth"
    assert run.cycles == operations[10].finish


def test_without_interlock_only_sync_orders() -> None:
    machine = without_launch("dlp-s", interlock="none")
    racing = launch(PIPELINE, machine, [np.zeros(16384, np.float32)])
    ordered = launch(
        PIPELINE.replace("    VEXP $10", "    SYNC.io\n    VEXP $10"), machine, [np.zeros(16384, np.float32)]
    )
    exp = next(op for op in racing.timeline.cores[0].operations if op.record.queue == "vector")
    assert exp.start == exp.dispatch
    assert ordered.cycles > racing.cycles
    assert ordered.stalls_by_cause()["sync"] > 0


def test_scalar_latencies_add_up() -> None:
    machine = without_launch("dlp-s")
    unit = machine.core.scalar
    run = launch(
        "SMOVE $1, #3\nloop: SMUL $2, $1, $1\nSADD $1, $1, #-1\nCB #loop, $1\nSDIV.f16 $3, $1, $2", machine
    )
    assert run.cycles == unit.add + 3 * (unit.multiply + unit.add + unit.branch) + unit.divide16


def test_queue_depth_holds_control_back() -> None:
    source = "LI $10, #nram(0)\nSMOVE $1, #4096\n" + "VEXP $10, $1, $10\n" * 12 + "SMOVE $2, #1\n"
    machine = without_launch("dlp-s")
    shallow = replace(machine, core=replace(machine.core, queues=replace(machine.core.queues, depth=2)))
    deep_run, shallow_run = launch(source, machine), launch(source, shallow)
    assert deep_run.cycles == shallow_run.cycles
    assert deep_run.stalls_by_cause()["queue full"] == 0 < shallow_run.stalls_by_cause()["queue full"]


UNION_COPY = """
    // every core of the chip loads its share; with a network, cluster 0's SRAM is read by all
    SREAD $1, #isMpu
    CBZ #end, $1
    SREAD $2, #clusterId
    LI $10, #sram(0, 0)
    LI $11, #sram(262144)
    SMOVE $3, #65536
    COPY $11, $10, $3
    end: HALT
"""


def test_contention_and_topology() -> None:
    base = without_launch("dlp-m")
    mesh = launch(UNION_COPY, base, dim=(16, 1, 1), task="union4").cycles
    line = replace(base, noc=Noc("links", (), 64, 4, ((0, 1), (1, 2), (2, 3))))
    assert launch(UNION_COPY, line, dim=(16, 1, 1), task="union4").cycles > 1.4 * mesh
    source = "LI $10, #nram(0)\nSMOVE $1, #65536\nCOPY $10, $0, $1"
    one = launch(source, base, [np.zeros(65536, np.uint8)]).cycles
    sixteen = launch(source, base, [np.zeros(65536, np.uint8)], dim=(16, 1, 1)).cycles
    assert sixteen >= 16 * 65536 / base.dram_bytes_per_cycle > one


def test_multicast_crosses_the_bus_once() -> None:
    source = (
        "SREAD $1, #isMpu\nCBZ #end, $1\nLI $2, #sram(0)\nLI $3, #nram(0)\nSMOVE $4, #65536\nSMOVE $5, #15\n"
    )
    source += "COPYX $3, $2, $4, $5\nend: HALT"
    base = without_launch("dlp-m")
    once = launch(source, base, dim=(4, 1, 1), task="union1").cycles
    each = replace(base, sram=replace(base.sram, multicast=False))
    assert launch(source, each, dim=(4, 1, 1), task="union1").cycles == pytest.approx(4 * once, rel=0.1)


def random_program(rng: np.random.Generator, length: int = 40) -> str:
    """Loads, stores, vector and matrix work on random places, with a sync now and then."""
    lines = ["LI $20, #nram(0)", "LI $21, #nram(65536)", "LI $22, #wram(0)", "LI $23, #nram(131072)"]
    for _ in range(length):
        n = int(rng.integers(1, 3000))
        size, pad = f"SMOVE $1, #{n}", int(rng.integers(20, 22))
        lines.append(size)
        lines.append(
            rng.choice(
                [
                    f"VLOAD ${pad}, $1, $0, #{4 * int(rng.integers(0, 5000))}",
                    f"VSTORE ${pad}, $1, $0, #{4 * int(rng.integers(0, 5000))}",
                    f"VEXP ${pad}, $1, $20",
                    "VAV $21, $1, $20, $21",
                    "MLOAD $22, $1, $0, #0",
                    "SYNC",
                    "SYNC.io",
                    f"SMOVE $4, #{int(rng.integers(1, 40))}\nSMOVE $5, #{int(rng.integers(1, 40))}\n"
                    f"SMOVE $6, #{int(rng.integers(1, 40))}\nMM $23, $20, $22, $4, $7",
                    "SADD $9, $9, #1",
                ]
            )
        )
    return "\n".join(lines)


@pytest.mark.parametrize("interlock", ["ranges", "none"])
def test_invariants_on_random_programs(interlock: str, rng) -> None:
    base = without_launch("dlp-s", interlock=interlock)
    for _ in range(15):
        run = launch(random_program(rng), base, [np.zeros(10000, np.float32)])
        roof = roofline(base, run.trace)
        assert run.cycles >= roof.cycles
        assert run.cycles >= max(unit_cycles(base, run.trace).values(), default=0)
        for row in stall_table(run.timeline):
            assert row.total == run.cycles and min(row.cycles.values()) >= 0, row
        assert replay(base, run.trace).cycles == run.cycles
        wider = replace(base, dram=replace(base.dram, gb_per_s=51.2))
        more_lanes = replace(base, core=replace(base.core, vfu=replace(base.core.vfu, bytes_per_cycle=256)))
        assert replay(wider, run.trace).cycles <= run.cycles
        assert replay(more_lanes, run.trace).cycles <= run.cycles
        path = critical_path(run.timeline)
        assert not path or path[-1].finish == max(op.finish for op in run.timeline.cores[0].operations)
        assert all(a.start <= b.start for a, b in pairwise(path))


def test_bytes_are_conserved_at_every_level() -> None:
    run = launch(PIPELINE, without_launch("dlp-s"), [np.zeros(16384, np.float32)])
    moved = run.bytes
    assert moved["gdram read"] == moved["gdram write"] == 65536
    assert moved["nram write"] == 65536 + 65536 and moved["nram read"] == 65536 + 65536


def test_formats_without_a_rate_run_on_the_vector_unit() -> None:
    source = "LI $1, #nram(0)\nLI $2, #wram(0)\nSMOVE $3, #8\nSMOVE $4, #8\nSMOVE $5, #8\n"
    source += "MM.f32.f32.f32 $1, $1, $2, $3, $6"
    run = launch(source, "tpu-v1")
    assert run.timeline.cores[0].operations[0].cost.on_vector_unit
    assert "on the vector unit" in run.explain()
    assert "on the vector unit" not in launch(source, "dlp-s").explain()


def test_the_cores_of_a_union_task_begin_its_next_round_together() -> None:
    """One core of each round is late; the others wait for it before the next round, not only at barriers."""
    device = Device("dlp-m")
    module = device.load(
        "SREAD $1, #taskId\nSAND $1, $1, #15\nCBNZ #done, $1\nSMOVE $2, #5000\n"
        "loop: SADD $2, $2, #-1\nCB #loop, $2\ndone: HALT"
    )
    run = device.launch(module, dim=(32, 1, 1), task="union4")
    begins = []
    for core in run.timeline.cores:
        launches = [end for _, end, what in core.segments if what == "launch"]
        begins.append(tuple(launches))
    assert len(set(begins)) == 1 and len(begins[0]) == 2
    assert begins[0][1] - begins[0][0] > 5000
    assert all(row.total == run.cycles for row in run.stalls)


@pytest.mark.parametrize("cycles", [1, 8, 100])
def test_a_barrier_takes_what_the_machine_says(cycles: int) -> None:
    """Sixteen cores meet three times; nothing else takes any time that the barrier could hide behind."""
    base = load_machine("dlp-m")
    source = "\n".join(["BARRIER.chip"] * 3)
    runs = []
    for machine in (replace(base, barrier_cycles=cycles), replace(base, barrier_cycles=cycles + 10)):
        device = Device(machine)
        runs.append(device.launch(device.load(source), [], dim=(16, 1, 1), task="union4"))
    assert runs[1].cycles - runs[0].cycles == 30
    assert sum(one.cycles for one in stretches(runs[0]) if one.what == "barrier") == 3 * cycles
