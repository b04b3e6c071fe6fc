"""The lab `sigmoid`: a first BANG C kernel, forward and backward, then one that hides its transfers."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy as np

from trilobite.apps.labs.launching import MACHINES, kernel_of, launched, reference
from trilobite.apps.labs.task import Array, Fault, Inputs, Lab, Part, Sizes, compare
from trilobite.processor.tools.limits import sentence

TOLERANCE = 2e-6
SLOWER = 1.3
MANY, CORES = 40_000, 4


def _forward(rng: np.random.Generator, s: Sizes) -> Inputs:
    x = (rng.normal(size=s["n"]) * 10.0 ** rng.integers(-1, 3)).astype(np.float32)
    return {"x": x, "tasks": s["tasks"], "machine": MACHINES[int(rng.integers(len(MACHINES)))]}


def _sigmoid(x: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0, -x.astype(np.float64))), np.float32)


def _unstored(values: Array) -> str:
    missing = np.isnan(values).any()
    return "NaN is what the array held before the launch: those elements were never stored" if missing else ""


def _judge(student: ModuleType, i: Inputs) -> Fault | None:
    n = i["x"].size
    out = np.full(n, np.nan, np.float32)
    _, arrays = launched(i["machine"], kernel_of(student, "sigmoid"), [i["x"], out, n], i["tasks"])
    return compare("out", arrays[1], _sigmoid(i["x"]), TOLERANCE, _unstored(arrays[1]))


def _gradient(rng: np.random.Generator, s: Sizes) -> Inputs:
    inputs = _forward(rng, s)
    y = _sigmoid(inputs.pop("x") / 4)
    return {"y": y, "g": rng.normal(size=s["n"]).astype(np.float32), **inputs}


def _judge_gradient(student: ModuleType, i: Inputs) -> Fault | None:
    n = i["y"].size
    out = np.full(n, np.nan, np.float32)
    kernel = kernel_of(student, "sigmoid_gradient")
    _, arrays = launched(i["machine"], kernel, [i["y"], i["g"], out, n], i["tasks"])
    wanted = i["g"].astype(np.float64) * i["y"] * (1 - i["y"].astype(np.float64))
    return compare(
        "out", arrays[2], wanted.astype(np.float32), TOLERANCE, _unstored(arrays[2]) or "g y (1 - y)"
    )


@cache
def _cycles_of_reference() -> int:
    return _measured(reference("sigmoid"))[0]


def _measured(module: ModuleType) -> tuple[int, str]:
    x = np.linspace(-8, 8, MANY, dtype=np.float32)
    run, _ = launched("dlp-m", kernel_of(module, "sigmoid"), [x, np.zeros_like(x), MANY], CORES, checks=False)
    return run.cycles, sentence(run)


def _judge_speed(student: ModuleType, _: Inputs) -> Fault | None:
    cycles, bound = _measured(student)
    most = int(SLOWER * _cycles_of_reference())
    if cycles <= most:
        return None
    return Fault(
        f"{MANY} elements on {CORES} cores of dlp-m take {cycles} cycles",
        f"at most {most}",
        bound,
        "load the next chunk with __memcpy_async while this one is computed: two buffers, __sync() between",
    )


_SIZES = {"n": (1, 200_000), "tasks": (1, 8)}  # more than a core's NRAM holds
LAB = Lab(
    "sigmoid",
    "a first BANG C kernel: sigmoid, its gradient, and its speed",
    (
        Part(
            "sigmoid",
            "the entry sigmoid(x, out, n): 1 / (1 + e^-x) for any n and any number of tasks",
            _forward,
            _judge,
            _SIZES,
            cases=12,
            plain="x",
        ),
        Part(
            "sigmoid_gradient",
            "the entry sigmoid_gradient(y, g, out, n): g y (1 - y)",
            _gradient,
            _judge_gradient,
            _SIZES,
            cases=12,
        ),
        Part(
            "speed",
            f"sigmoid in at most {SLOWER:g} times the cycles of a kernel that loads ahead",
            lambda rng, s: {},
            _judge_speed,
            cases=1,
        ),
    ),
)
