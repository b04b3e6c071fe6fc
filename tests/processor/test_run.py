"""A run's figures: energy by actions, replay, determinism, profiles."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError
from trilobite.processor.device import Device
from trilobite.processor.machine import load_machine
from trilobite.processor.sim.energy import MACS, NODE_EXPONENT, bank_pj_per_byte
from trilobite.processor.tools.profile import chrome_trace, stalls_csv, summary_json

MATMUL = """
    .entry matmul
    matmul:
        LI $10, #nram(0)
        LI $11, #wram(0)
        LI $12, #nram(131072)
        SMUL $20, $3, $5
        SMUL $21, $5, $4
        SMUL $22, $3, $4
        VLOAD $10, $20, $0, #0
        MLOAD $11, $21, $1, #0
        SYNC
        MM $12, $10, $11, $3, $6
        SYNC
        VSTORE $12, $22, $2, #0
"""


def matmul(machine, m: int = 30, n: int = 50, k: int = 70, **options):
    device = Device(machine)
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    out = device.array(np.zeros((m, n), np.float32))
    run = device.launch(
        device.load(MATMUL)["matmul"], [device.array(a), device.array(b), out, m, n, k], **options
    )
    return run, out.numpy()


def test_energy_is_actions_times_cost() -> None:
    run, _ = matmul("dlp-s")
    scale = (16 / 45) ** NODE_EXPONENT
    joules = run.energy.joules
    assert joules["matrix"] == pytest.approx(30 * 50 * 70 * MACS["fp32"].picojoules * scale * 1e-12)
    nram = 4 * (30 * 70 * 2 + 30 * 50 * 2)
    assert joules["nram"] == pytest.approx(nram * bank_pj_per_byte(run.machine.core.nram) * scale * 1e-12)
    assert joules["dram"] == pytest.approx(
        1300 / 8 * sum(-(-4 * x // 64) * 64 for x in (2100, 3500, 1500)) * 1e-12, rel=0.02
    )
    assert run.energy.total == pytest.approx(sum(joules.values()))
    assert bank_pj_per_byte(replace(run.machine.core.nram, kib=1024, banks=1)) == pytest.approx(100 / 8)


def test_idle_power_counts_over_time() -> None:
    run, _ = matmul("tpu-v1")
    assert run.energy.joules["idle"] == pytest.approx(28 * run.seconds)


def test_replay_changes_time_and_not_data() -> None:
    run, out = matmul("dlp-s")
    machine = load_machine("dlp-s")
    slow = replace(machine, dram=replace(machine.dram, gb_per_s=2.56))
    again = run.replay(slow)
    fresh, same = matmul(slow)
    assert again.cycles == fresh.cycles > run.cycles
    assert (out == same).all()
    with pytest.raises(ArgumentError, match="clusters is structural: 1 here, 4 there"):
        run.replay("dlp-m")


def test_outputs_and_cycles_are_the_same_every_time() -> None:
    first, out = matmul("dlp-m", dim=(20, 1, 1))
    second, again = matmul("dlp-m", dim=(20, 1, 1))
    assert first.cycles == second.cycles and (out == again).all()
    assert [row.cycles for row in first.stalls] == [row.cycles for row in second.stalls]
    untraced, quick = matmul("dlp-m", dim=(20, 1, 1), traced=False)
    assert (quick == out).all()
    with pytest.raises(ArgumentError, match="the launch was not traced"):
        untraced.cycles


def test_profiles_hold_every_instruction() -> None:
    run, _ = matmul("dlp-s")
    events = json.loads(chrome_trace(run))["traceEvents"]
    named = [event for event in events if event["ph"] == "X" and event["name"].startswith("MM.f32")]
    assert len(named) == 1 and named[0]["args"]["line"] == "<text>:13"
    busy = run.timeline.cores[0].operations[2]
    assert named[0]["ts"] == busy.start and named[0]["dur"] == busy.free - busy.start
    rows = list(csv.DictReader(io.StringIO(stalls_csv(run))))
    assert all(int(row["total"]) == run.cycles for row in rows)
    summary = json.loads(summary_json(run))
    assert summary["cycles"] == run.cycles and summary["roofline"]["macs"] == 30 * 50 * 70
    assert {line["line"] for line in summary["lines"]} == {"<text>:10", "<text>:11", "<text>:13", "<text>:15"}


def test_stall_text_has_a_row_per_queue() -> None:
    run, _ = matmul("dlp-s")
    text = run.stall_text().splitlines()
    assert text[0].split()[:2] == ["core", "queue"] and text[0].endswith("total")
    assert [line.split()[1] for line in text[2:]] == ["control", "io", "matrix"]
    assert all(line.split()[-1] == str(run.cycles) for line in text[2:])
