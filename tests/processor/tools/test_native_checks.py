"""Checked machine code finds what the interpreted checkers find, and changes nothing else."""

from __future__ import annotations

import time

import numpy as np
import pytest

from trilobite.processor.device import Device
from trilobite.processor.isa.assembler import assemble_program
from trilobite.processor.tools import checks as checks_module
from trilobite.processor.tools.checks import Checks
from trilobite.processor.tools.findings import CheckFailed
from trilobite.processor.tools.native_checks import CheckedCode

NEVER = 1 << 40


def launch(source: str, monkeypatch, after: int, machine: str = "dlp-m", sizes=(64, 64), **options):
    """Findings as text, outputs and the run; translated after so many interpreted instructions."""
    monkeypatch.setattr(checks_module, "NATIVE_AFTER", after)
    device = Device(machine)
    rng = np.random.default_rng(4)
    arrays = [device.array(rng.integers(0, 99, size).astype(np.int32)) for size in sizes]
    arrays.append(device.empty(64, "int32"))
    program = assemble_program(source)
    plain = device.load(program)
    found: list[str] = []
    try:
        device.launch(plain, arrays, checks=True, **options)
    except CheckFailed as error:
        found = [str(finding) for finding in error.findings]
    return found, [array.numpy().tobytes() for array in arrays]


def both(source: str, monkeypatch, **options) -> list[str]:
    slow, slow_data = launch(source, monkeypatch, NEVER, **options)
    fast, fast_data = launch(source, monkeypatch, 1, **options)
    assert fast == slow and fast_data == slow_data
    return slow


LOOP = """
    LI $10, #{base}
    SMOVE $30, #40
    {before}
next:
    SAND $5, $30, #15
    SSHL $5, $5, #2
    SADD $6, $10, $5
    SSTORE.i32 $30, $6, #0
    SLOAD.i32 $7, $6, #{offset}
    SADD $30, $30, #-1
    CB #next, $30
    SSTORE.i32 $7, $0, #0
"""


@pytest.mark.parametrize("base", ["nram(64)", "wram(0)", "ldram(0)", "sram(128)"])
def test_loops_over_every_memory(base: str, monkeypatch) -> None:
    assert both(LOOP.format(base=base, before="", offset=0), monkeypatch) == []


def test_it_is_machine_code_that_runs(monkeypatch) -> None:
    executed = []
    original = CheckedCode.run

    def counted(self, core, limit):
        executed.append(original(self, core, limit))
        return executed[-1]

    monkeypatch.setattr(CheckedCode, "run", counted)
    launch(LOOP.format(base="nram(64)", before="", offset=0), monkeypatch, 1)
    assert sum(executed) > 200


def test_dram(monkeypatch) -> None:
    source = LOOP.format(base="0", before="SMOVE $10, $1", offset=0)
    assert both(source, monkeypatch) == []
    unwritten = LOOP.format(base="0", before="SMOVE $10, $2", offset=0)
    assert both(unwritten, monkeypatch) == []  # every word is written before it is read


def test_undefined_bytes_are_found(monkeypatch) -> None:
    found = both(LOOP.format(base="nram(64)", before="", offset=64), monkeypatch)
    assert len(found) == 1 and found[0].startswith(
        "uninitialised bytes reach DRAM: $7, loaded from nram+0x84"
    )
    half = LOOP.format(base="nram(0)", before="", offset=0).replace(
        "SSTORE.i32 $30, $6", "SSTORE.i16 $30, $6"
    )
    found = both(half, monkeypatch)
    assert len(found) == 1 and "reach DRAM: $7" in found[0]


def test_a_hot_loop_that_reaches_undefined_bytes(monkeypatch) -> None:
    """Forty words are filled, sixty summed: machine code must stop at the forty-first."""
    source = """
        LI $10, #nram(0)
        SMOVE $3, #40
        VSET.i32 $10, $3, #1
        SYNC
        SMOVE $7, #0
        SMOVE $4, #{count}
    next:
        SLOAD.i32 $5, $10, #0
        SADD $7, $7, $5
        SADD $10, $10, #4
        SADD $4, $4, #-1
        CB #next, $4
        SSTORE.i32 $7, $0, #0
    """
    assert both(source.format(count=40), monkeypatch) == []
    found = both(source.format(count=60), monkeypatch)
    assert len(found) == 1 and "reach DRAM: $7, loaded from nram+0xa0" in found[0]


def test_races_with_queues_are_found(monkeypatch) -> None:
    before = "SMOVE $8, #4\nVLOAD.i32 $10, $8, $0, #0"
    found = both(LOOP.format(base="nram(0)", before=before, offset=0), monkeypatch)
    assert [line.split(" without")[0] for line in found] == ["write after write", "write after read"]
    assert "VLOAD.i32" in found[0] and "SSTORE.i32 $30, $6, #0 (<text>:10)" in found[0]
    away = LOOP.format(base="nram(0)", before=before.replace("$10,", "$11,") + "\nSYNC", offset=0)
    assert both(away.replace("SMOVE $8", "LI $11, #nram(4096)\nSMOVE $8"), monkeypatch) == []


def test_a_store_under_a_queue_that_reads_is_found(monkeypatch) -> None:
    """A store into the words that are being copied out is a race; those beside them are not."""
    source = """
        LI $10, #nram(0)
        SMOVE $8, #64
        VSET.i32 $10, $8, #1
        SYNC
        SMOVE $8, #16
        VSTORE.i32 $10, $8, $1, #0
        SMOVE $2, #50
        SADD $6, $10, #{start}
    next:
        SSTORE.i32 $2, $6, #0
        SADD $6, $6, #-4
        SADD $2, $2, #-1
        CB #next, $2
    """
    assert both(source.format(start=252).replace("#50", "#40"), monkeypatch) == []
    found = both(source.format(start=252), monkeypatch)
    assert len(found) == 1 and found[0].startswith("write after read without order: nram+0x3c to +0x40")


def test_races_between_cores_are_found(monkeypatch) -> None:
    source = """
        SREAD $40, #taskId
        SMUL $41, $40, #{slice}
        SADD $10, $1, $41
        SMOVE $2, #4
    next:
        SSHL $5, $2, #2
        SADD $6, $10, $5
        SLOAD.i32 $7, $6, #-4
        SADD $7, $7, #1
        SSTORE.i32 $7, $6, #-4
        SADD $2, $2, #-1
        CB #next, $2
    """
    assert both(source.format(slice=16), monkeypatch, dim=(16, 1, 1)) == []
    found = both(source.format(slice=12), monkeypatch, dim=(16, 1, 1))
    assert {line.split(" without")[0] for line in found} == {
        "read after write", "write after read", "write after write"}  # fmt: skip


def test_polling_and_atomics(monkeypatch) -> None:
    source = """
        SREAD $40, #taskId
        SMOVE $9, #1
        CBZ #wait, $40
        SMOVE $2, #30
    next:
        SADD $2, $2, #-1
        CB #next, $2
        SSTORE.i32 $40, $0, #16
        SADD $8, $0, #8
        ATOMIC.i32.exch $3, $8, $9
        HALT
    wait:
        SLOAD.i32 $4, $0, #8
        SADD $5, $4, #-1
        CBNZ #wait, $5
        SLOAD.i32 $6, $0, #16
        SSTORE.i32 $6, $0, #20
    """
    assert both(source, monkeypatch, dim=(2, 1, 1)) == []


def test_the_stack(monkeypatch) -> None:
    source = """
        LI $2, #{count}
    next:
        SADD $62, $62, #-1024
        SSTORE.i64 $2, $62, #0
        SADD $2, $2, #-1
        CB #next, $2
    """
    assert both(source.format(count=128), monkeypatch) == []
    found = both(source.format(count=129), monkeypatch)
    assert len(found) == 1 and found[0].startswith("stack overflow: nram+0x5fc00 is outside")
    free = source.format(count=129).replace("LI $2", "LI $62, #nram(262144)\nLI $2")
    assert both(free, monkeypatch) == []


HEAD = """
    SREAD $41, #isMpu
    LI $10, #nram(0)
    LI $11, #sram(0)
    LI $12, #nram(512)
    SMOVE $13, $1
    CBZ #ready, $41
    LI $10, #sram(4096)         // the memory core has no NRAM
    LI $12, #sram(8192)
ready:
    NOP
"""


def random_program(rng: np.random.Generator) -> str:
    """Loops of scalar accesses, queue instructions and syncs in random order, all inside lawful memory."""
    pieces = [HEAD]
    for number in range(int(rng.integers(3, 8))):
        base, other = rng.choice(["$10", "$11", "$12", "$13"], 2, replace=False)
        count = int(rng.integers(1, 30))
        loop = f"""
            SMOVE $2, #{1 + count % 12}
        l{number}: SSHL $5, $2, #3
            SADD $6, {base}, $5
            {rng.choice(["SLOAD", "SSTORE"])}.{rng.choice(["i8", "i32", "i64"])} $7, $6, #{count // 4 * 8}
            SADD $2, $2, #-1
            CB #l{number}, $2
            SMOVE $7, #3"""
        tensor = f"""
            CBNZ #t{number}, $41
            SMOVE $8, #{count}
            VSET.i32 $12, $8, #5
            VAV.i32 $10, $8, $12, $12
        t{number}: NOP"""
        copy = f"SMOVE $8, #{3 * count}\nCOPY {base}, {other}, $8"
        sync = "SYNC" + rng.choice(["", ".io", ".move", ".vector"])
        pieces.append(rng.choice([loop, loop, tensor, copy, sync, "BARRIER.cluster"]))
    return "\n".join(pieces)


@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed: int, monkeypatch) -> None:
    """A cluster with its memory core, everything unordered that can be: the same findings word for word."""
    source = random_program(np.random.default_rng(seed))
    both(source, monkeypatch, dim=(4, 1, 1), task="union1", sizes=(64, 256))


def test_random_programs_are_worth_it(monkeypatch) -> None:
    kinds: set[str] = set()
    for seed in range(25):
        source = random_program(np.random.default_rng(seed))
        found, _ = launch(source, monkeypatch, NEVER, dim=(4, 1, 1), task="union1", sizes=(64, 256))
        kinds |= {line.split(":")[0] for line in found}
    assert {"read after write without order", "write after read without order",
            "write after write without order", "uninitialised bytes reach DRAM"} <= kinds  # fmt: skip


def test_the_debugger_never_uses_it(monkeypatch) -> None:
    monkeypatch.setattr(checks_module, "NATIVE_AFTER", 1)
    device = Device("dlp-m")
    program = assemble_program("HALT")
    assert Checks(device.machine, device.memory, program)._is_native is False


SCALAR = """
    LI $2, #3000000
    SMOVE $7, #0
next:
    SAND $5, $2, #15
    SSHL $5, $5, #2
    SADD $6, $0, $5
    SLOAD.i32 $3, $6, #0
    SADD $7, $7, $3
    SSTORE.i32 $7, $6, #0
    SADD $2, $2, #-1
    CB #next, $2
"""
VECTOR = """
    LI $10, #nram(0)
    LI $11, #nram(65536)
    SMOVE $1, #1024
    SMOVE $2, #400
    VSET $10, $1, #1.0
    VSET $11, $1, #1.0
    SYNC
next:
    VAV $11, $1, $10, $11
    SYNC.vector
    VMOVE $10, $1, $11
    SYNC.move
    SADD $2, $2, #-1
    CB #next, $2
"""
STRIDED = """
    LI $10, #nram(0)
    SMOVE $3, #64
    SMOVE $4, #64
    SMOVE $5, #8192
    SMOVE $6, #512
    SMOVE $2, #100
next:
    COPY2 $10, $0, $3, $4
    SYNC
    SADD $2, $2, #-1
    CB #next, $2
"""
TILES = """
    SREAD $30, #taskId
    SMUL $30, $30, #16384
    SADD $30, $30, $0
    LI $10, #nram(0)
    LI $11, #wram(0)
    LI $12, #nram(131072)
    SMOVE $3, #64
    SMOVE $4, #64
    SMOVE $5, #64
    SMOVE $20, #4096
    SMOVE $2, #20
next:
    VLOAD $10, $20, $30, #0
    MLOAD $11, $20, $30, #0
    SYNC.io
    MM $12, $10, $11, $3, $6
    SYNC.matrix
    VSTORE $12, $20, $30, #0
    SYNC.io
    SADD $2, $2, #-1
    CB #next, $2
"""


@pytest.mark.bench
@pytest.mark.parametrize(
    ("source", "tasks"), [(SCALAR, 1), (VECTOR, 1), (VECTOR, 16), (STRIDED, 1), (TILES, 16)]
)
def test_checked_time_is_at_most_five_times_the_functional(source: str, tasks: int) -> None:
    device = Device("dlp-m")
    data = device.array(np.ones((512, 8192), np.uint8))
    module = device.load(source)
    seconds = {}
    for checks in (False, True):
        for _ in range(3):  # the first launch compiles
            begin = time.perf_counter()
            device.launch(module, [data], dim=(tasks, 1, 1), checks=checks)
            seconds[checks] = min(seconds.get(checks, 1e9), time.perf_counter() - begin)
    assert seconds[True] <= 5 * seconds[False]
