"""The lab `power-difference`: (x - y)^p as an operator of the framework, on the CPU, then in BANG C."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.apps.labs.launching import MACHINES, kernel_of, launched
from trilobite.apps.labs.task import Array, Fault, Inputs, Lab, Part, Sizes, compare, first

TOLERANCE = 1e-5


def _operands(rng: np.random.Generator, s: Sizes) -> Inputs:
    x, y = (rng.uniform(-2, 2, s["n"]).astype(np.float32) for _ in range(2))
    return {"x": x, "y": y, "p": s["power"]}


def _power(x: Array, y: Array, p: int) -> Array:
    return np.asarray((x.astype(np.float64) - y) ** p)


def _forward(student: ModuleType, i: Inputs) -> Fault | None:
    found = student.forward(i["x"], i["y"], i["p"])
    return compare("forward(x, y, p)", found, _power(i["x"], i["y"], i["p"]).astype(np.float32), TOLERANCE)


def _operator(student: ModuleType, i: Inputs) -> Fault | None:
    faults = []
    for way in ("eagerly", "under jit"):
        x, y = (tb.tensor(i[name], requires_grad=True) for name in "xy")

        def loss(x: Any = x, y: Any = y) -> Any:
            return (
                student.power_difference(x, y, p=i["p"])
                * tb.tensor(np.cos(np.arange(x.size)).astype(np.float32))
            ).sum()

        value = loss() if way == "eagerly" else tb.jit(loss)()
        value.backward()
        weights = np.cos(np.arange(i["x"].size))
        wanted = (_power(i["x"], i["y"], i["p"]) * weights).sum()
        slope = weights * i["p"] * (_power(i["x"], i["y"], i["p"] - 1) if i["p"] else 0.0)
        hint = "d/dx (x - y)^p = p (x - y)^(p - 1), and d/dy is its negative; times the cotangent"
        faults += [
            compare(f"the sum of results, {way}", value, np.asarray(wanted), 10 * TOLERANCE),
            compare(f"the gradient of x, {way}", x.grad, np.asarray(slope), TOLERANCE, hint),
            compare(f"the gradient of y, {way}", y.grad, np.asarray(-slope), TOLERANCE, hint),
        ]
    return first(*faults)


def _launch(rng: np.random.Generator, s: Sizes) -> Inputs:
    return {**_operands(rng, s), "tasks": s["tasks"], "machine": MACHINES[int(rng.integers(len(MACHINES)))]}


def _kernel(student: ModuleType, i: Inputs) -> Fault | None:
    n = i["x"].size
    out = np.full(n, np.nan, np.float32)
    kernel = kernel_of(student, "power_difference")
    _, arrays = launched(i["machine"], kernel, [i["x"], i["y"], out, n, i["p"]], i["tasks"])
    missing = np.isnan(arrays[2]).any()
    hint = "NaN is what the array held before the launch: those elements were never stored" if missing else ""
    return compare("out", arrays[2], _power(i["x"], i["y"], i["p"]).astype(np.float32), TOLERANCE, hint)


LAB = Lab(
    "power-difference",
    "an operator of one's own: PowerDifference on the CPU, then in BANG C",
    (
        Part(
            "forward",
            "forward(x, y, p): (x - y)^p of NumPy arrays",
            _operands,
            _forward,
            {"n": (1, 50), "power": (0, 4)},
            plain="xy",
        ),
        Part(
            "power_difference",
            "power_difference: the same as a tb.custom_op with its derivative",
            _operands,
            _operator,
            {"n": (1, 12), "power": (0, 4)},
            cases=8,
            plain="xy",
        ),
        Part(
            "kernel",
            "SOURCE: the entry power_difference(x, y, out, n, power) in BANG C",
            _launch,
            _kernel,
            {"n": (1, 60_000), "power": (0, 4), "tasks": (1, 8)},
            cases=10,
        ),
    ),
)
