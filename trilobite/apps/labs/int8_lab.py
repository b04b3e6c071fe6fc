"""The lab `int8`: from floats to eight bits and back, and the same bits from the processor's matrix unit.

The meaning of every step is the framework's own primitive (`quantise`, `requantise`), whose rounding is
that of the matrix unit as it drains its sums; so the kernel of the last part is judged bit for bit.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from trilobite.apps.labs.launching import MACHINES, launched
from trilobite.apps.labs.task import Array, Fault, Inputs, Lab, Part, Sizes, compare, first
from trilobite.ir.primitives.quantise import quantise, requantise

ROUND = "halves go to the even neighbour, as np.rint does it"


def quantised(x: Array, scale: Any) -> Array:
    found: Array = quantise.evaluate(x, np.float32(scale), np.int8(0), axis=None, dtype=np.dtype("int8"))
    return np.asarray(found)


def requantised(total: Array, scale: Array) -> Array:
    zero = np.zeros(scale.shape, np.int8)
    return np.asarray(requantise.evaluate(total, scale, zero, axis=total.ndim - 1, dtype=np.dtype("int8")))


def _weights(rng: np.random.Generator, s: Sizes) -> Inputs:
    x = (rng.normal(size=s["n"]) * 10.0 ** rng.integers(-3, 4)).astype(np.float32)
    return {"x": x if rng.random() < 0.9 else np.zeros_like(x)}


def _scale(student: ModuleType, i: Inputs) -> Fault | None:
    largest = np.abs(i["x"]).max()
    wanted = np.float32(largest / np.float32(127)) if largest else np.float32(1)
    hint = "the largest magnitude becomes 127; of zeros alone the scale is 1"
    return compare("scale_of(x)", student.scale_of(i["x"]), np.asarray(wanted), 1e-6 * float(wanted), hint)


def _steps(rng: np.random.Generator, s: Sizes) -> Inputs:
    """Whole and half steps of a scale that is a power of two: every tie is met exactly."""
    scale = np.float32(2.0 ** rng.integers(-6, 3))
    return {"x": (rng.integers(-300, 301, s["n"]) * scale / 2).astype(np.float32), "scale": scale}


def _quantise(student: ModuleType, i: Inputs) -> Fault | None:
    found = student.quantise(i["x"], i["scale"])
    if getattr(found, "dtype", None) != np.int8:
        return Fault(
            "quantise does not give 8-bit integers", "int8", str(getattr(found, "dtype", type(found)))
        )
    return compare(
        "quantise(x, scale)", found, quantised(i["x"], i["scale"]), 0.0, f"{ROUND}; clip to -128..127"
    )


def _bytes(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _operands(rng: np.random.Generator, s: Sizes) -> Inputs:
    return {"a": _bytes(rng, s["m"], s["k"]), "b": _bytes(rng, s["k"], s["n"])}


def _product(student: ModuleType, i: Inputs) -> Fault | None:
    wanted = i["a"].astype(np.int32) @ i["b"].astype(np.int32)
    hint = "a product of two bytes needs 16 bits, a sum of them 32: widen first"
    return compare("product(a, b)", student.product(i["a"], i["b"]), wanted, 0.0, hint)


def _sums(rng: np.random.Generator, s: Sizes) -> Inputs:
    total = rng.integers(-(2**20), 2**20, (s["m"], s["n"])).astype(np.int32)
    scale = (2.0 ** rng.uniform(-16, -8, s["n"])).astype(np.float32)
    if rng.random() < 0.5:  # ties
        total, scale = rng.integers(-500, 500, total.shape).astype(np.int32), np.full(s["n"], 0.5, np.float32)
    return {"total": total, "scale": scale}


def _requantise(student: ModuleType, i: Inputs) -> Fault | None:
    found = student.requantise(i["total"], i["scale"])
    hint = f"multiply in float64, then round once ({ROUND}), then clip"
    return compare("requantise(total, scale)", found, requantised(i["total"], i["scale"]), 0.0, hint)


def _launch(rng: np.random.Generator, s: Sizes) -> Inputs:
    scale = (2.0 ** rng.uniform(-14, -9, s["n"])).astype(np.float32)
    machine = MACHINES[int(rng.integers(2))]
    return {**_operands(rng, s), "scale": scale, "machine": machine, "tasks": s["tasks"]}


def _kernel(student: ModuleType, i: Inputs) -> Fault | None:
    m, k = i["a"].shape
    n = i["b"].shape[1]
    out = np.full((m, n), 99, np.int8)
    args = [i["a"], i["b"], i["scale"], out, m, k, n]
    _, arrays = launched(i["machine"], student.matmul_int8, args, i["tasks"])
    wanted = requantised(i["a"].astype(np.int32) @ i["b"].astype(np.int32), i["scale"])
    hint = "99 is what the array held before the launch: those elements were never stored"
    return first(compare("c", arrays[3], wanted, 0.0, hint if (arrays[3] == 99).any() else ""))


LAB = Lab(
    "int8",
    "eight bits: quantise, multiply, requantise, and run it on the processor",
    (
        Part(
            "scale_of",
            "scale_of(x): the float32 scale that takes the largest magnitude to 127",
            _weights,
            _scale,
            {"n": (1, 20)},
            plain="x",
        ),
        Part(
            "quantise",
            "quantise(x, scale): x / scale as int8, rounded to nearest even, saturated",
            _steps,
            _quantise,
            {"n": (1, 20)},
        ),
        Part(
            "product",
            "product(a, b): the exact int32 product of int8 matrices",
            _operands,
            _product,
            {"m": (1, 5), "k": (1, 40), "n": (1, 5)},
        ),
        Part(
            "requantise",
            "requantise(total, scale): sums times a scale per column, rounded once to int8",
            _sums,
            _requantise,
            {"m": (1, 5), "n": (1, 6)},
        ),
        Part(
            "matmul_int8",
            "matmul_int8: all of it as one kernel for the processor, bit for bit",
            _launch,
            _kernel,
            {"m": (1, 200), "k": (1, 64), "n": (1, 48), "tasks": (1, 4)},
            cases=10,
        ),
    ),
)
