"""T1 as machine code, T1 as plain Python and a second model of T1: the same times, causes and segments, on
random programs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processor.timing_model import replay_by_model
from trilobite.processor import Device, Machine, load_machine
from trilobite.processor.machine.description import InstructionCache, LastLevelCache
from trilobite.processor.sim.timing.native import replay, replay_in_python
from trilobite.processor.sim.timing.stalls import stall_table
from trilobite.processor.sim.timing.timeline import Operation, Timeline

ONE = (
    "VLOAD ${pad}, $1, $0, #{offset}",
    "VSTORE ${pad}, $1, $0, #{offset}",
    "VEXP ${pad}, $1, $20",
    "VAV $21, $1, $20, $21",
    "VDV ${pad}, $1, $20, $21",
    "MLOAD $22, $1, $0, #0",
    "SYNC",
    "SYNC.io",
    "SYNC.vector.io",
    "SMOVE $4, #{small}\nSMOVE $5, #{other}\nSMOVE $6, #{small}\nMM $23, $20, $22, $4, $7",
    "SADD $9, $9, #1",
    "SSTORE $9, $20, #{scratch}",
    "SLOAD $9, $21, #{scratch}",
    # interleaved rows of two buffers: ranges with holes
    "SMOVE $11, #64\nSMOVE $12, #256\nSMOVE $13, #{rows}\nSADD $15, $20, #{hole}\nCOPY2 $15, $0, $16, $11",
    "SMOVE $11, #64\nSMOVE $12, #256\nSMOVE $13, #{rows}\nSADD $15, $20, #{hole}\nVRELU $15, $16, $20",
)
MANY = (
    "BARRIER.cluster",
    "BARRIER.chip",
    "SYNC.io\nSYNC.move",
    "LI $24, #sram(0)\nCOPY $24, $20, $16",
    "LI $24, #sram({scratch})\nCOPY $21, $24, $16",
)


def program(rng: np.random.Generator, kinds: tuple[str, ...], length: int) -> str:
    lines = [
        "LI $20, #nram(0)",
        "LI $21, #nram(65536)",
        "LI $22, #wram(0)",
        "LI $23, #nram(131072)",
        "SMOVE $16, #64",
    ]
    for _ in range(length):
        drawn = {
            "pad": int(rng.integers(20, 22)), "offset": 4 * int(rng.integers(0, 5000)),
            "small": int(rng.integers(1, 40)), "other": int(rng.integers(1, 40)),
            "scratch": 8 * int(rng.integers(0, 500)), "rows": int(rng.integers(1, 9)),
            "hole": 64 * int(rng.integers(0, 8)),
        }  # fmt: skip
        lines.append(f"SMOVE $1, #{int(rng.integers(1, 3000))}")
        lines.append(str(rng.choice(kinds)).format(**drawn))
    return "\n".join(lines)


def is_operation_equal(one: Operation | None, other: Operation | None, numbers: dict[int, int]) -> bool:
    return (one is None) == (other is None) and (
        one is None or other is None or numbers[id(one)] == numbers[id(other)]
    )


def compare(native: Timeline, defined: Timeline) -> None:
    assert native.cycles == defined.cycles
    for core, wanted in zip(native.cores, defined.cores, strict=True):
        assert core.segments == wanted.segments
        assert core.places == wanted.places
        numbers = {id(op): at for ops in (core.operations, wanted.operations) for at, op in enumerate(ops)}
        for op, right in zip(core.operations, wanted.operations, strict=True):
            assert op.record is right.record
            assert op.cost == right.cost
            times = (op.dispatch, op.start, op.free, op.finish, op.bound)
            assert times == (right.dispatch, right.start, right.free, right.finish, right.bound)
            for name in ("behind", "cause", "core_wait"):
                assert is_operation_equal(getattr(op, name), getattr(right, name), numbers), name
    rows = zip(stall_table(native), stall_table(defined), strict=True)
    assert all(one == other for one, other in rows)


def narrow(machine: Machine, depth: int) -> Machine:
    core = replace(machine.core, queues=replace(machine.core.queues, depth=depth))
    return replace(machine, core=core)


@pytest.mark.parametrize("interlock", ["ranges", "none"])
@given(seed=st.integers(0, 2**32), depth=st.sampled_from([1, 2, 16]))
@settings(deadline=None, max_examples=12)
def test_one_core(interlock: str, seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    device = Device(narrow(replace(load_machine("dlp-s"), interlock=interlock), depth))
    run = device.launch(
        device.load(program(rng, ONE, 50)), [device.array(np.zeros(10000, np.float32))], checks=False
    )
    compare(run.timeline, replay_by_model(device.machine, run.trace))


@pytest.mark.parametrize("interlock", ["ranges", "none"])
@given(seed=st.integers(0, 2**32), task=st.sampled_from(["union1", "union2", "union4"]))
@settings(deadline=None, max_examples=6)
def test_cores_that_meet_and_share(interlock: str, seed: int, task: str) -> None:
    rng = np.random.default_rng(seed)
    base = load_machine("dlp-m")
    device = Device(replace(base, interlock=interlock, memory_core=False))
    module = device.load(program(rng, ONE + MANY, 25))
    run = device.launch(
        module,
        [device.array(np.zeros(10000, np.float32))],
        (16 * int(rng.integers(1, 3)), 1, 1),
        task,
        checks=False,
    )
    compare(run.timeline, replay_by_model(device.machine, run.trace))
    compare(run.timeline, replay_in_python(device.machine, run.trace))
    slow = replace(device.machine, dram=replace(base.dram, gb_per_s=20.0, channels=2))
    compare(replay(slow, run.trace), replay_by_model(slow, run.trace))


def with_everything(machine: Machine) -> Machine:
    """Caches, a FIFO of tiles, and scratchpads whose banks the units share."""
    core = machine.core
    nram, wram = replace(core.nram, contended=True), replace(core.wram, contended=True, fifo_tiles=2)
    full = replace(core, nram=nram, wram=wram, fetch=InstructionCache(1, 128))
    return replace(machine, core=full, llc=LastLevelCache(64, 256, 48, 30.0))


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=8)
def test_caches_fifos_and_banks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    base = with_everything(replace(load_machine("dlp-m"), memory_core=False))
    device = Device(replace(base, interlock=str(rng.choice(["none", "ranges"]))))
    module = device.load(program(rng, ONE + MANY, 30))
    data = device.array(np.zeros(10000, np.float32))
    run = device.launch(module, [data], (8, 1, 1), "union2", checks=False)
    compare(run.timeline, replay_by_model(device.machine, run.trace))
    compare(run.timeline, replay_in_python(device.machine, run.trace))


@pytest.mark.parametrize("name", ["mlu270", "mlu370-x8", "tpu-v1", "nvdla-512", "diannao"])
def test_presets(name: str, rng: np.random.Generator) -> None:
    device = Device(name)
    size = device.machine.core.nram.bytes // 4
    text = "\n".join(
        ["LI $20, #nram(0)", f"LI $21, #nram({size})", f"SMOVE $1, #{size // 16}", "SMOVE $3, #20", "loop:",
         "VLOAD $20, $1, $0, #0", "SYNC", "VAV $21, $1, $20, $20", "VEXP $20, $1, $21", "SYNC",
         "VSTORE $20, $1, $0, #64", "SADD $3, $3, #-1", "CB #loop, $3"]
    )  # fmt: skip
    run = device.launch(
        device.load(text), [device.array(np.zeros(size, np.float32))], (9, 1, 1), checks=False
    )
    compare(run.timeline, replay_by_model(device.machine, run.trace))


def test_an_empty_trace_takes_no_time() -> None:
    device = Device("dlp-s")
    run = device.launch(device.load("HALT"), checks=False)
    assert run.cycles == replay_by_model(device.machine, run.trace).cycles
