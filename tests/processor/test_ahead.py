"""Programs that run ahead of time: what is counted without records is what the records say."""

from __future__ import annotations

import gc
import inspect
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.processor.timing_model import replay_by_model
from trilobite.base.errors import AssemblyError, ProcessorFault
from trilobite.processor.device import Device
from trilobite.processor.isa.assembler import assemble_program
from trilobite.processor.sim.chip import MOST_INSTRUCTIONS, MOST_RECORDS
from trilobite.processor.sim.energy import energy_of
from trilobite.processor.sim.record import CoreTrace, Trace
from trilobite.processor.sim.run import Run
from trilobite.processor.sim.timing.stalls import stall_table
from trilobite.processor.tools.launching import check, profile


@pytest.fixture(autouse=True)
def nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilobite.processor.device.Device.checks", False)


def long_program(rounds: int, seed: int = 0) -> str:
    """A loop of copies, products and vector work of random sizes, on tiles that alternate."""
    rng = np.random.default_rng(seed)
    lines = [f"SMOVE $5, #{rounds}", "again:"]
    for _ in range(12):
        n = int(rng.integers(1, 300))
        at = 4096 * int(rng.integers(0, 4))
        lines += [f"LI $10, #nram({at})", f"LI $11, #{n}", "SMOVE $12, $0", f"LI $13, #{4 * n}"]
        kind = int(rng.integers(0, 4))
        if kind == 0:
            lines.append("COPY $10, $12, $13")
        elif kind == 1:
            lines.append("COPY $12, $10, $13")
        elif kind == 2:
            lines.append("VAV.f32 $10, $11, $10, $10")
        else:
            lines.append("VEXP.f32 $10, $11, $10")
        if rng.random() < 0.3:
            lines.append("SYNC")
    return "\n".join([*lines, "SADD $5, $5, #-1", "CB #again, $5"])


def launch(machine: str, rounds: int, seed: int = 0) -> Run:
    device = Device(machine)
    program = replace(assemble_program(long_program(rounds, seed)), ahead=True)
    return device.launch(device.load(program), [device.array(np.ones(1024, np.float32))], dim=(2, 1, 1))


def with_records(trace: Trace) -> Trace:
    """The same trace with every record made."""
    cores = [CoreTrace(c.cluster, c.core, c.instructions, list(c.records)) for c in trace.cores]
    return Trace(cores, trace.rounds)


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m", "mlu370-x4"])
def test_energy_and_bytes_are_those_of_the_records(machine: str) -> None:
    run = launch(machine, 20, seed=3)
    assert any(not isinstance(part, list) for core in run.trace.cores for part in core.parts)
    plain = with_records(run.trace)
    wanted = energy_of(run.machine, plain, run.seconds)
    assert run.energy.joules == pytest.approx(wanted.joules, rel=1e-12)
    assert run.energy.defaults == wanted.defaults
    moved = {}
    for core in plain.cores:
        for record in core.records:
            for way in ("reads", "writes"):
                for region in getattr(record, way, None) or ():
                    if hasattr(region, "bytes"):
                        moved[way] = moved.get(way, 0) + region.bytes
    assert sum(run.bytes.values()) == sum(moved.values())


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
@pytest.mark.parametrize("seed", range(3))
def test_stalls_from_arrays_are_those_of_the_definition(machine: str, seed: int) -> None:
    run = launch(machine, 6, seed)
    plain = replay_by_model(run.machine, with_records(run.trace))
    assert run.stalls == stall_table(plain)
    assert all(row.total == run.cycles for row in run.stalls)


def test_stalls_take_time_in_proportion_to_the_trace() -> None:
    def seconds(rounds: int) -> float:
        run = launch("dlp-m", rounds)
        _ = run.cycles
        gc.collect()  # what other tests left is not this one's time
        begun = time.thread_time()
        _ = run.stalls
        return time.thread_time() - begun

    assert any(seconds(1600) < 12 * seconds(400) + 0.05 for _ in range(5))  # a disturbed one does not count


@pytest.mark.long
def test_a_program_may_have_any_number_of_lines() -> None:
    count = 100_100
    program = assemble_program("SADD $1, $1, #1\n" * count)
    assert len(program.instructions) == count


@pytest.mark.long
def test_macros_that_use_themselves_are_refused_early() -> None:
    doubling = "".join(f".macro M{n}\nM{n - 1}\nM{n - 1}\n.endm\n" for n in range(1, 60))
    with pytest.raises(AssemblyError, match="the text grows beyond all bounds"):
        assemble_program(f".macro M0\nNOP\nNOP\n.endm\n{doubling}M59")


def test_the_second_launch_computes_only() -> None:
    """Twelve hundred instructions that are executed once: after the first launch at machine speed."""
    lines = []
    for n in range(1, 400):
        lines += [f"LI $10, #nram({64 * (n % 8)})", f"LI $11, #{n}", "VAV.f32 $10, $11, $10, $10"]
    device = Device("dlp-s")
    program = assemble_program("\n".join(lines))
    modules = {ahead: device.load(replace(program, ahead=ahead)) for ahead in (True, False)}
    best = dict.fromkeys(modules, 1e9)
    device.launch(modules[True])
    for _ in range(4):  # in turns, so that a busy machine is one for both
        for ahead, module in modules.items():
            begun = time.thread_time()
            device.launch(module)
            best[ahead] = min(best[ahead], time.thread_time() - begun)
    assert best[True] < best[False] / 3, best


ENDLESS = "LI $10, #nram(0)\nSMOVE $11, #8\nagain: VAV.f32 $10, $11, $10, $10\nJUMP #again"


@pytest.mark.parametrize("ahead", [False, True])
def test_an_endless_loop_of_tensor_instructions_is_stopped_early(ahead: bool) -> None:
    device = Device("dlp-s")
    module = device.load(replace(assemble_program(ENDLESS), ahead=ahead))
    with pytest.raises(ProcessorFault) as caught:
        device.launch(module, trace_limit=100_000)
    assert "the trace of the launch grew beyond its limit of 100000 records" in str(caught.value)
    assert "give a larger trace_limit, or launch it with traced=False" in str(caught.value)
    with pytest.raises(ProcessorFault, match="limit of 300000 instructions"):
        device.launch(module, traced=False, limit=300_000)


def test_launches_have_limits_of_their_own() -> None:
    chosen = inspect.signature(Device.launch).parameters
    assert chosen["limit"].default == MOST_INSTRUCTIONS == 1 << 32
    assert chosen["trace_limit"].default == MOST_RECORDS == 1 << 22


def test_commands_take_a_limit(tmp_path: Path) -> None:
    source = tmp_path / "endless.s"
    source.write_text("again: JUMP #again", encoding="utf-8")
    for command in (check, profile):
        with pytest.raises(ProcessorFault, match="limit of 70000 instructions"):
            command(str(source), "dlp-s", limit=70_000)
