"""Machines on both sides of each bound: what is just too much is refused, what just fits is not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from trilobite.base.errors import MachineError
from trilobite.processor.machine import load_machine, machine_from
from trilobite.processor.machine.load import _presets

BASE = load_machine("dlp-m")
MOST = BASE.core.mfu.rows * BASE.core.mfu.cols * BASE.core.mfu.count
LINKS = {"kind": "links", "link_bytes_per_cycle": 8}
RING = [[0, 1], [1, 2], [2, 3], [3, 0]]


def described(changes: dict[str, Any]) -> Any:
    tree = copy.deepcopy(yaml.safe_load((_presets() / "dlp-m.yaml").read_text()))
    for path, value in changes.items():
        *way, last = path.split(".")
        place = tree
        for step in way:
            place = place.setdefault(step, {})
        place[last] = value
    return machine_from(tree, "mine.yaml")


CASES: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"core.mfu.factors": {"int7": 1}}, "the factor of int7 is 1", {"core.mfu.factors": {"int8": 1}}),
    ({"core.mfu.factors": {"int8": 0}}, "the factor of int8 is 0", {"core.mfu.factors": {"int8": 64}}),
    ({"core.mfu.factors": {"int8": 64.5}}, "the factor of int8 is 64.5", {"core.mfu.factors": {"int8": 1.5}}),
    (
        {"core.mfu.macs_per_cycle": {"int8": MOST + 1}, "core.mfu.factors": {"int8": 1}},
        rf"{MOST + 1} products of int8 a cycle are more than",
        {"core.mfu.macs_per_cycle": {"int8": MOST}, "core.mfu.factors": {"int8": 1}},
    ),
    (
        {"core.mfu.register_bytes": 8},
        "register files of 8 bytes",
        {"core.mfu.geometry": "row-stationary", "core.mfu.register_bytes": 8},
    ),
    (
        {"core.mfu.geometry": "row-stationary"},
        "register files of 0 bytes",
        {"core.mfu.geometry": "systolic-os"},
    ),
    ({"core.mfu.zero_gating": "both ways"}, "core.mfu.zero_gating is 'both ways'", {}),
    ({"core.mfu.weight_buffers": 3}, "3 weight buffers", {"core.mfu.weight_buffers": 2}),
    ({"core.mfu.weight_buffers": 4}, "4 weight buffers", {"core.mfu.weight_buffers": 1}),
    ({"activity.zero_weights": 1.01}, "activity.zero_weights is 1.01", {"activity.zero_weights": 1.0}),
    ({"activity.zero_activations": 1.01}, "zero_activations is 1.01", {"activity.zero_activations": 0.0}),
    (
        {"core.pool_kib": BASE.core.nram.kib - 1},
        "a pool of",
        {"core.pool_kib": max(BASE.core.nram.kib, BASE.core.wram.kib)},
    ),
    (
        {"core.fetch.kib": 1, "core.fetch.line_bytes": 48},
        "no whole number of lines of 48",
        {"core.fetch.kib": 3, "core.fetch.line_bytes": 48},
    ),
    (
        {"core.fetch.kib": 1, "core.fetch.line_bytes": 4},
        "lines of 4 bytes",
        {"core.fetch.kib": 1, "core.fetch.line_bytes": 8},
    ),
    ({"llc.kib": 64}, "a last-level cache without bandwidth", {"llc.kib": 64, "llc.bytes_per_cycle": 1}),
    (
        {"core.nram.reserved_kib": BASE.core.nram.kib + 1},
        "are reserved in a memory of",
        {"core.nram.reserved_kib": BASE.core.nram.kib},
    ),
    (
        {"core.nram.bytes_per_cycle": 0},
        "core.nram has no size or no bandwidth",
        {"core.nram.bytes_per_cycle": 1},
    ),
    (
        {"core.wram.kib": 0, "core.wram.reserved_kib": 0},
        "core.wram has no size or no bandwidth",
        {"core.wram.bytes_per_cycle": 1},
    ),
    ({"sram.bytes_per_cycle": 0}, "the SRAM has no bandwidth", {"sram.bytes_per_cycle": 1}),
    ({"sram.bus_bytes_per_cycle": 0}, "the SRAM has no bandwidth", {"sram.bus_bytes_per_cycle": 1}),
    ({"core.vfu.bytes_per_cycle": 0}, "core.vfu", {"core.vfu.bytes_per_cycle": 1}),
    ({"core.io_dma.bytes_per_cycle": 0}, "core.io_dma", {"core.io_dma.bytes_per_cycle": 1}),
    ({"core.move_dma.bytes_per_cycle": 0}, "core.move_dma", {"core.move_dma.bytes_per_cycle": 1}),
    ({"cores_per_cluster": 128}, "clusters of 128 cores cannot be addressed", {"cores_per_cluster": 127}),
    (
        {"clusters": 255, "chips": 1, "noc": {"kind": "ring", "link_bytes_per_cycle": 8}},
        "255 clusters of",
        {"clusters": 254, "chips": 1, "noc": {"kind": "ring", "link_bytes_per_cycle": 8}},
    ),
    ({"dram.efficiency": 1.001}, "a DRAM efficiency of 1.001", {"dram.efficiency": 1.0}),
    (
        {"noc": {**LINKS, "links": [*RING, [3, 4]]}},
        r"the link \[3, 4\] leads to no cluster",
        {"noc": {**LINKS, "links": RING}},
    ),
    (
        {"noc": {**LINKS, "links": [*RING, [-1, 0]]}},
        r"the link \[-1, 0\] leads to no cluster",
        {"noc": {**LINKS, "links": [[0, 1], [1, 2], [2, 3]]}},
    ),
    ({"noc.dram_at": [4]}, "DRAM is attached beside cluster 4", {"noc.dram_at": [3]}),
    ({"noc.dram_at": [-1]}, "DRAM is attached beside cluster -1", {"noc.dram_at": [0]}),
    ({"dram.gib": 1025}, "cannot be addressed", {"dram.gib": 1024}),
    ({"core.nram.kib": (1 << 30) + 1}, "cannot be addressed", {"core.nram.kib": 1 << 30}),
    ({"clock_ghz": float("inf")}, "clock_ghz is inf", {"clock_ghz": 0.5}),
    ({"clusters": 4.5}, "clusters is 4.5", {"clock_ghz": 1}),
]


@pytest.mark.parametrize(("wrong", "message", "right"), CASES)
def test_a_bound(wrong: dict[str, Any], message: str, right: dict[str, Any]) -> None:
    with pytest.raises(MachineError, match=message):
        described(wrong)
    described(right)
