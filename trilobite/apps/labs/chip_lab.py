"""The lab `chip`: a machine of the student's own within a budget, which runs networks right and one fast.

A machine is YAML text. Area is counted part by part (`processor/sim/area.py`), time comes from compiling the
network for the machine and simulating it, so everything that a description can say has its price and its use.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.apps.labs.task import Fault, Inputs, Lab, Part, Sizes, compare
from trilobite.framework import nn
from trilobite.processor.machine import Machine, load_machine
from trilobite.processor.machine.load import parse_machine
from trilobite.processor.sim.area import area_of

AREA, BANDWIDTH, CLOCK, NODE = 3.0, 51.2, 1.0, 16
SHARE = 0.65
TOLERANCE = 1e-4


@cache
def _parsed(text: str) -> Machine:
    return parse_machine(text, "MACHINE")


def machine_of(student: ModuleType) -> Machine:
    text = getattr(student, "MACHINE", "")
    if not isinstance(text, str) or not text.strip():
        raise NotImplementedError("MACHINE")
    return _parsed(text)


def _budget(student: ModuleType, _: Inputs) -> Fault | None:
    machine = machine_of(student)
    area = area_of(machine)
    limits = (
        ("clock_ghz", machine.clock_ghz, CLOCK, ""),
        ("dram.gb_per_s", machine.dram.gb_per_s, BANDWIDTH, ""),
        (
            "the area in mm²",
            area.total,
            AREA,
            ", ".join(f"{unit} {mm2:.2f}" for unit, mm2 in area.mm2.items()),
        ),
    )
    for name, value, most, parts in limits:
        if value > most:
            return Fault(
                f"{name} is {value:.4g}", f"at most {most:g}", parts, "what does the workload not need?"
            )
    if machine.process_nm != NODE:
        return Fault(f"process_nm is {machine.process_nm}", str(NODE), hint="the node is given, not chosen")
    return None


def _network(seed: int, channels: int, side: int, classes: int) -> Any:
    tb.manual_seed(seed)
    flat = channels * ((side + 1) // 2) ** 2
    layers = (
        nn.Conv2d(3, channels, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(flat, classes),
    )
    return nn.Sequential(*layers).eval()


def _random_network(rng: np.random.Generator, s: Sizes) -> Inputs:
    x = rng.normal(size=(s["batch"], 3, s["side"], s["side"])).astype(np.float32)
    return {**s, "x": x, "_seed": int(rng.integers(1 << 30))}


def _runs(student: ModuleType, i: Inputs) -> Fault | None:
    network, x = _network(i["_seed"], i["channels"], i["side"], i["classes"]), tb.tensor(i["x"])
    with tb.no_grad():
        wanted = np.asarray(network(x).numpy())
        found = tb.jit(lambda x: network(x), target=machine_of(student), options={"checks": True})(x)
    return compare("what the network gives on your machine", found, wanted, TOLERANCE)


def workload() -> tuple[Any, Any]:
    """The network that has to be fast: two convolutions and a wide linear layer, eight small images."""
    tb.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 128),
    )
    return network.eval(), tb.tensor(np.random.default_rng(0).normal(size=(8, 3, 16, 16)).astype(np.float32))


def seconds(machine: Machine) -> tuple[float, str]:
    """The workload's time on a machine, and where it goes."""
    network, x = workload()
    with tb.no_grad():
        compiled = tb.jit(lambda x: network(x), target=machine)
        compiled(x)
        rows = sorted(compiled.profile(x).rows, key=lambda row: -row.cycles)
    where = ", ".join(f"{row.name} {row.cycles} cycles ({row.bound})" for row in rows[:4])
    return float(compiled.last_run.seconds), where


@cache
def _base() -> float:
    return seconds(load_machine("dlp-s"))[0]


def _fast(student: ModuleType, _: Inputs) -> Fault | None:
    found, where = seconds(machine_of(student))
    most = SHARE * _base()
    if found <= most:
        return None
    return Fault(
        f"the workload takes {found * 1e6:.1f} µs on your machine",
        f"at most {most * 1e6:.1f} µs; dlp-s takes {_base() * 1e6:.1f}",
        where,
        "widen what bounds the longest part; pay with what no part needs",
    )


def _nothing(_rng: np.random.Generator, _sizes: Sizes) -> Inputs:
    return {}


LAB = Lab(
    "chip",
    "a chip of one's own",
    (
        Part(
            "budget",
            f"MACHINE: YAML of at most {AREA:g} mm², {BANDWIDTH:g} GB/s, {CLOCK:g} GHz, at {NODE} nm",
            _nothing,
            _budget,
            cases=1,
        ),
        Part(
            "runs",
            "random networks give what they give on the CPU, and no checker complains",
            _random_network,
            _runs,
            {"batch": (1, 3), "channels": (1, 9), "side": (3, 9), "classes": (1, 12)},
            cases=4,
        ),
        Part("fast", f"the workload takes at most {SHARE:g} of its time on dlp-s", _nothing, _fast, cases=1),
    ),
)
