"""Caches, the FIFO of weight tiles and shared banks: closed forms of what they cost."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import pytest

from trilobite.base.errors import MachineError
from trilobite.processor import Device, Machine, Run, load_machine
from trilobite.processor.machine.description import InstructionCache, LastLevelCache, Launch
from trilobite.processor.sim.timing.caches import caches_of


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilobite.processor.device.Device.checks", False)


def machine(interlock: str = "none", **changes: object) -> Machine:
    base = load_machine("dlp-s")
    return replace(base, interlock=interlock, launch=Launch(0.0, 0.0), **changes)


def launch(part: Machine, text: str, size: int = 1 << 18) -> Run:
    device = Device(part)
    return device.launch(device.load(text), [device.array(np.zeros(size, np.float32))])


def fetching(kib: int, line: int) -> Machine:
    base = machine()
    return replace(base, core=replace(base.core, fetch=InstructionCache(kib, line)))


def a_miss(part: Machine) -> int:
    return part.cycles(part.dram.latency_ns) + ceil(part.core.fetch.line_bytes / part.dram_bytes_per_cycle)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100])
def test_straight_code_is_fetched_line_by_line(count: int) -> None:
    text = "\n".join(["SADD $1, $1, #1"] * count)
    part = fetching(1, 64)
    run = launch(part, text)
    assert run.cycles - launch(machine(), text).cycles == ceil(count / 8) * a_miss(part)
    (row,) = run.stalls
    assert row.cycles["fetch"] == ceil(count / 8) * a_miss(part) and row.total == run.cycles


def test_a_loop_that_fits_is_fetched_once_and_one_that_does_not_every_time() -> None:
    body = "\n".join(["VAV $10, $1, $10, $10"] * 254)
    text = f"LI $10, #nram(0)\nSMOVE $1, #8\nSMOVE $2, #3\nloop:\n{body}\nSADD $2, $2, #-1\nCB #loop, $2"
    first = len(Device("dlp-s").load(text).program.instructions) - 256  # where the loop begins
    lines = -(-(first + 256) * 8 // 512)
    ideal = launch(machine(), text).stalls[0].cycles["fetch"]
    large, small = fetching(4, 512), fetching(1, 512)
    assert ideal == 0
    assert launch(large, text).stalls[0].cycles["fetch"] == lines * a_miss(large)
    assert launch(small, text).stalls[0].cycles["fetch"] > 2.5 * lines * a_miss(small)


PRODUCTS = """
    LI $20, #nram(0)\nLI $23, #nram(131072)\nSMOVE $1, #4096\nSMOVE $4, #64\nSMOVE $5, #64\nSMOVE $6, #64
"""


def tiles(fifo: int, count: int = 6) -> Run:
    base = machine()
    wram = replace(base.core.wram, fifo_tiles=fifo)
    parts = [PRODUCTS]
    for number in range(count):  # every tile has a place of its own, so only the FIFO holds loads back
        load = f"LI $22, #wram({number * 16384})\nMLOAD $22, $1, $0, #0"
        parts.append(f"{load}\nSYNC.io\nMM $23, $20, $22, $4, $7")
    ahead = "\n".join(f"LI $22, #wram({(count + n) * 16384})\nMLOAD $22, $1, $0, #0" for n in range(count))
    return launch(replace(base, core=replace(base.core, wram=wram)), "\n".join([*parts, ahead]))


def test_a_load_of_weights_waits_for_the_product_of_the_tile_it_replaces() -> None:
    for fifo in (1, 2, 4):
        run = tiles(fifo)
        operations = run.timeline.cores[0].operations
        loads = [op for op in operations if op.record.queue == "io"]
        products = [op for op in operations if op.record.queue == "matrix"]
        for number, load in enumerate(loads[fifo:], fifo):
            if number - fifo < len(products):
                assert load.start >= products[number - fifo].finish
    assert tiles(1).cycles >= tiles(2).cycles >= tiles(0).cycles
    assert tiles(12).cycles == tiles(0).cycles


def test_a_product_with_an_older_tile_holds_that_tile_back() -> None:
    """Tiles 0 and 1 are loaded, then two products use tile 0 again: the third load waits for the last one."""
    base = machine()
    wram = replace(base.core.wram, fifo_tiles=2)
    load = "LI $22, #wram({})\nMLOAD $22, $1, $0, #0\n"
    product = "LI $22, #wram({})\nMM $23, $20, $22, $4, $7\n"
    text = PRODUCTS + load.format(0) + load.format(16384) + "SYNC.io\n"
    text += product.format(16384) + product.format(0) * 2 + load.format(32768) + load.format(49152)
    run = launch(replace(base, core=replace(base.core, wram=wram)), text)
    operations = run.timeline.cores[0].operations
    loads = [op for op in operations if op.record.queue == "io"]
    products = [op for op in operations if op.record.queue == "matrix"]
    assert loads[2].start >= products[2].finish  # tile 0's last user is the third product
    assert loads[2].start > products[0].finish  # and not of tile 1 alone


def cached(kib: int, rate: int = 64) -> Machine:
    return machine(llc=LastLevelCache(kib, 512, rate, 10.0))


def reads(times: int, size: int, way: str = "VLOAD") -> str:
    lines = ["LI $20, #nram(0)", f"SMOVE $1, #{size // 4}"] + [f"{way} $20, $1, $0, #0"] * times
    return "\n".join(lines)


def test_what_the_last_level_cache_holds_is_not_read_again() -> None:
    text = reads(3, 65536)
    run = launch(cached(128), text)
    missing = [bytes_ for bytes_ in caches_of(run.machine, run.trace).missing[0] if bytes_ is not None]
    first = 65536 if missing[0] == 65536 else 65536 + 512  # an array may begin within a line
    assert missing == [first, 0, 0]
    streaming = launch(cached(32), text)
    again = [
        bytes_ for bytes_ in caches_of(streaming.machine, streaming.trace).missing[0] if bytes_ is not None
    ]
    assert again == [first] * 3  # least recently used leaves, so a stream that is too long hits nothing
    assert run.cycles < streaming.cycles
    for launched, passed in ((run, first), (streaming, 3 * first)):
        assert launched.roofline.dram_bytes == passed and launched.cycles >= launched.roofline.cycles
        assert launched.energy.joules["dram"] == pytest.approx(passed * 162.5e-12)
        assert launched.energy.joules["llc"] > 0


def test_hits_run_at_the_caches_rate_and_latency() -> None:
    part = cached(128, 8)
    core = replace(part.core, io_dma=replace(part.core.io_dma, outstanding=1000, bytes_per_cycle=1024))
    run = launch(replace(part, core=core), reads(2, 65536))
    _, hit = run.timeline.cores[0].operations
    assert hit.free - hit.start == 65536 // 8
    assert hit.finish - hit.free == core.io_dma.setup + part.cycles(part.llc.latency_ns)


def test_written_lines_go_back_when_they_leave() -> None:
    run = launch(
        cached(64), reads(1, 65536, "VSTORE") + "\nLI $9, #131072\nSADD $9, $9, $0\nVLOAD $20, $1, $9, #0"
    )
    write, read = [b for b in caches_of(run.machine, run.trace).missing[0] if b is not None]
    assert write <= 1024  # whole lines are not read first; those at the ends are
    assert read >= 2 * 65536 - 1024  # the new lines, and the written ones that leave


def test_units_that_meet_in_the_banks_share_the_memory() -> None:
    """A vector instruction of 256 bytes a cycle beside a copy of 256: both take twice as long."""
    base = machine()
    nram = replace(base.core.nram, bytes_per_cycle=256)
    core = replace(base.core, nram=nram, vfu=replace(base.core.vfu, bytes_per_cycle=1024),
                   move_dma=replace(base.core.move_dma, bytes_per_cycle=1024))  # fmt: skip
    text = ("LI $20, #nram(0)\nLI $21, #nram(65536)\nLI $22, #nram(131072)\nLI $23, #nram(196608)\n"
            "SMOVE $1, #16384\nVRELU $21, $1, $20\nVMOVE $23, $1, $22")  # fmt: skip
    alone = 2 * 65536 // 256
    free = launch(replace(base, core=core), text)
    shared = launch(replace(base, core=replace(core, nram=replace(nram, contended=True))), text)
    assert [op.free - op.start for op in free.timeline.cores[0].operations] == [alone, alone]
    busy = [op.free - op.start for op in shared.timeline.cores[0].operations]
    assert all(2 * alone - 4 <= cycles <= 2 * alone for cycles in busy)
    single = launch(shared.machine, text.rsplit("\n", 1)[0])
    assert single.timeline.cores[0].operations[0].free - single.timeline.cores[0].operations[0].start == alone


def test_caches_that_cannot_be_built() -> None:
    with pytest.raises(MachineError, match="no whole number of lines"):
        cached_lines = LastLevelCache(1, 600, 64)
        machine(llc=cached_lines)
    with pytest.raises(MachineError, match="without bandwidth"):
        machine(llc=LastLevelCache(64))
