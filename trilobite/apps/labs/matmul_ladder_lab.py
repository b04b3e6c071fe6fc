"""The lab `matmul-ladder`: C = A B^T in five steps of BANG C, each faster than the one before.

Every step is judged on random shapes with the race and memory checkers on; the last part compares
cycles, step by step, and says by what a step that is not faster is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType

import numpy as np

from trilobite.apps.labs.launching import kernel_of, launched, reference
from trilobite.apps.labs.task import Fault, Inputs, Lab, Part, Sizes, compare
from trilobite.processor import Run
from trilobite.processor.tools.limits import sentence

TOLERANCE = 2e-6
STEPS = {
    "step1": "scalar loops on GDRAM",
    "step2": "the same loops on NRAM",
    "step3": "the matrix instruction, weights in WRAM",
    "step4": "all cores: tasks share the rows",
    "step5": "three stages: load, multiply and store beside each other",
}
SHAPES = {
    "step1": (4, 16, 32),
    "step2": (4, 16, 32),
    "step3": (512, 64, 128),
    "step4": (512, 64, 128),
    "step5": (512, 64, 128),
}
SLOWER = 1.3


def _shape(rng: np.random.Generator, s: Sizes) -> Inputs:
    a, b = (rng.normal(size=(rows, s["k"])).astype(np.float32) for rows in (s["m"], s["n"]))
    return {"a": a, "b": b, "tasks": s.get("tasks", 1)}


def _judge(entry: str) -> Callable[[ModuleType, Inputs], Fault | None]:
    def judge(student: ModuleType, i: Inputs) -> Fault | None:
        (m, k), n = i["a"].shape, len(i["b"])
        c = np.full((m, n), np.nan, np.float32)
        args = [c, i["a"], i["b"], m, n, k]
        _, arrays = launched("dlp-m", kernel_of(student, entry), args, i["tasks"])
        wanted = i["a"].astype(np.float64) @ i["b"].astype(np.float64).T
        hint = "NaN: never stored" if np.isnan(arrays[0]).any() else "c[i][j] is row i of a times row j of b"
        return compare("c", arrays[0], wanted.astype(np.float32), TOLERANCE, hint)

    return judge


def measured(module: ModuleType, entry: str, shape: tuple[int, int, int]) -> Run:
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=(rows, k)).astype(np.float32) for rows in (m, n))
    tasks = 16 if entry in ("step4", "step5") else 1
    args = [np.zeros((m, n), np.float32), a, b, m, n, k]
    return launched("dlp-m", kernel_of(module, entry), args, tasks, checks=False)[0]


@cache
def _reference(entry: str) -> int:
    return measured(reference("matmul-ladder"), entry, SHAPES[entry]).cycles


def _faster(student: ModuleType, _: Inputs) -> Fault | None:
    for before, after in (("step1", "step2"), ("step3", "step4"), ("step4", "step5")):
        slow, run = measured(student, before, SHAPES[after]).cycles, measured(student, after, SHAPES[after])
        most = min(slow, int(SLOWER * _reference(after)))
        if run.cycles > most:
            m, n, k = SHAPES[after]
            return Fault(
                f"{after} takes {run.cycles} cycles for {m} x {k} by {k} x {n}; {before} takes {slow}",
                f"at most {most}",
                sentence(run),
                STEPS[after],
            )
    return None


def _step(entry: str) -> Part:
    small, many = entry in ("step1", "step2"), entry in ("step4", "step5")
    sizes = {"m": (1, 6 if small else 400), "n": (1, 20 if small else 128), "k": (1, 20 if small else 64)}
    if many:
        sizes["tasks"] = (1, 5)
    return Part(entry, STEPS[entry], _shape, _judge(entry), sizes, cases=6, plain="ab")


LAB = Lab(
    "matmul-ladder",
    "one matrix product in five steps",
    (
        *(_step(entry) for entry in STEPS),
        Part(
            "faster",
            f"each step is faster than the one before, and at most {SLOWER:g} times the reference",
            lambda rng, s: {},
            _faster,
            cases=1,
        ),
    ),
)
