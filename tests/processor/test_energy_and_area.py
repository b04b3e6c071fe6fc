"""Energy says which of its entries are defaults; area counts parts and grows with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trilobite.processor import Device, load_machine
from trilobite.processor.machine.load import preset_names
from trilobite.processor.sim.area import area_of
from trilobite.processor.sim.energy import MACS, PUBLISHED, bank_pj_per_byte, energy_table


def test_every_action_has_a_source() -> None:
    for action, picojoules, source in energy_table(load_machine("mlu370-x4")):
        assert picojoules > 0, action
        assert source == PUBLISHED or source.startswith("default: "), action
    published = {name for name, entry in MACS.items() if entry.source == PUBLISHED}
    assert published == {"int8", "fp16", "fp32"}


def test_published_energies() -> None:
    """At 45 nm (Horowitz, ISSCC 2014): picojoules an operation, and an access of 64 bits by size."""
    assert (MACS["int8"].picojoules, MACS["fp16"].picojoules) == pytest.approx((0.2 + 0.1, 1.1 + 0.9))
    assert MACS["fp32"].picojoules == pytest.approx(3.7 + 0.9)
    pad = load_machine("dlp-s").core.nram
    for kib, access in ((8, 10.0), (32, 20.0), (1024, 100.0)):
        assert bank_pj_per_byte(replace(pad, kib=kib, banks=1)) == pytest.approx(access / 8)
    assert dict((row[0], row[1]) for row in energy_table(load_machine("dlp-s")))["dram byte"] == 1300 / 8


def test_a_launch_says_which_units_rest_on_defaults() -> None:
    device = Device("dlp-s")
    data = device.array(np.ones(64, np.float32))
    text = "LI $10, #nram(0)\nSMOVE $1, #64\nVLOAD $10, $1, $0, #0\nVAV $10, $1, $10, $10"
    energy = device.launch(device.load(text), [data], checks=False).energy
    assert {"scalar", "vector", "idle"} <= set(energy.defaults)
    assert "dram" in energy.joules and "dram" not in energy.defaults
    assert "none is published" in energy.defaults["idle"]


def test_idle_power_counts_where_it_is_published() -> None:
    device = Device("tpu-v1")
    run = device.launch(device.load("SMOVE $1, #5"))
    assert run.energy.joules["idle"] == pytest.approx(28 * run.seconds)
    assert "idle" not in run.energy.defaults


@pytest.mark.parametrize("name", preset_names())
def test_parts_of_a_die_are_smaller_than_the_die(name: str) -> None:
    machine = load_machine(name)
    area = area_of(machine)
    assert area.total > 0
    if machine.power.area_mm2:
        assert area.total < machine.power.area_mm2


def test_area_grows_with_parts_and_shrinks_with_the_node() -> None:
    base = load_machine("dlp-m")
    more = replace(base, clusters=8, noc=replace(base.noc, shape=(2, 4)))
    assert area_of(more).total == pytest.approx(2 * area_of(base).total)
    assert area_of(replace(base, process_nm=32)).total == pytest.approx(4 * area_of(base).total)
