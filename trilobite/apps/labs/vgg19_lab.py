"""The lab `vgg19`: convolution, pooling and the whole row of layers, in NumPy, beside the framework's.

Networks are VGG19's row of layers with few channels, or a random shorter row: what counts is the order, the
padding and the pooling, not the 140 million weights.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

import trilobite as tb
from trilobite.apps.labs.task import Array, Fault, Inputs, Lab, Part, Sizes, compare, first, normal
from trilobite.framework.nn import functional as F
from trilobite.zoo.vgg import POOL, VGG19

TOLERANCE = 1e-9


def _image(rng: np.random.Generator, s: Sizes) -> Inputs:
    return {
        "x": normal(rng, s["batch"], s["inputs"], s["height"], s["width"]),
        "w": normal(rng, s["outputs"], s["inputs"], 3, 3),
        "b": normal(rng, s["outputs"]),
    }


def _convolution(student: ModuleType, i: Inputs) -> Fault | None:
    wanted = F.conv2d(tb.tensor(i["x"]), tb.tensor(i["w"]), tb.tensor(i["b"]), padding=1)
    hint = "out[n, k, y, x] = b[k] + sum of w[k, c, i, j] * x[n, c, y + i - 1, x + j - 1], zeros outside"
    return compare(
        "conv3x3(x, w, b)",
        student.conv3x3(i["x"], i["w"], i["b"]),
        np.asarray(wanted.numpy()),
        TOLERANCE,
        hint,
    )


def _pooled(rng: np.random.Generator, s: Sizes) -> Inputs:
    return {"x": normal(rng, s["batch"], s["channels"], s["height"], s["width"])}


def _pooling(student: ModuleType, i: Inputs) -> Fault | None:
    wanted = F.max_pool2d(tb.tensor(i["x"]), 2)
    hint = "a last row or column without a partner is left out"
    return compare("max_pool2x2(x)", student.max_pool2x2(i["x"]), np.asarray(wanted.numpy()), 0.0, hint)


def _flops(student: ModuleType, i: Inputs) -> Fault | None:
    wanted, channels, side = [], 3, i["side"]
    for layer in i["plan"]:
        if layer == POOL:
            side //= 2
            continue
        wanted.append(layer * channels * 9 * side * side)
        channels = layer
    found = list(student.multiplications(i["plan"], i["side"]))
    hint = "a convolution of c to k channels multiplies k * c * 9 times for every pixel"
    return compare("multiplications(plan, side)", np.asarray(found), np.asarray(wanted), 0.0, hint)


def _plan(rng: np.random.Generator, s: Sizes) -> Inputs:
    plan, left = [int(rng.integers(1, 4))], s["side"]
    while len(plan) < s["layers"]:
        pools = left >= 2 and rng.random() < 0.3
        plan.append(POOL if pools else int(rng.integers(1, 4)))
        left = left // 2 if pools else left
    return {"plan": tuple(plan), "side": s["side"]}


def _network(rng: np.random.Generator, s: Sizes) -> Inputs:
    whole = s["layers"] > 12  # the largest cases are VGG19 itself, a few channels wide
    plan = tuple(min(c, 2 + c // 256) for c in VGG19) if whole else _plan(rng, s)["plan"]
    channels, weights = 3, []
    for layer in plan:
        if layer:
            scale = np.sqrt(2 / (9 * channels))
            weights.append((rng.normal(size=(layer, channels, 3, 3)) * scale, rng.normal(size=layer) * 0.1))
            channels = layer
    side = 32 if whole else s["side"]
    return {"plan": plan, "x": rng.normal(size=(1, 3, side, side)), "_weights": weights}


def reference(x: Array, plan: tuple[int, ...], weights: list[tuple[Array, Array]]) -> list[Array]:
    """What the framework has behind every layer of the plan."""
    values, found, at = tb.tensor(x), [], iter(weights)
    for layer in plan:
        if layer == POOL:
            values = F.max_pool2d(values, 2)
        else:
            w, b = next(at)
            values = F.relu(F.conv2d(values, tb.tensor(w), tb.tensor(b), padding=1))
        found.append(np.asarray(values.numpy()))
    return found


def _layers(student: ModuleType, i: Inputs) -> Fault | None:
    found = student.vgg(i["x"], i["plan"], i["_weights"])
    wanted = reference(i["x"], i["plan"], i["_weights"])
    if not isinstance(found, (list, tuple)) or len(found) != len(wanted):
        count = len(found) if isinstance(found, (list, tuple)) else type(found).__name__
        return Fault(
            "vgg does not give the values behind every layer", f"a list of {len(wanted)}", str(count)
        )
    names = [
        f"behind layer {n} ({'pooling' if c == POOL else f'{c} channels'})" for n, c in enumerate(i["plan"])
    ]
    return first(*(compare(n, f, w, TOLERANCE) for n, f, w in zip(names, found, wanted, strict=True)))


_SPACE = {"batch": (1, 2), "height": (1, 9), "width": (1, 9)}
LAB = Lab(
    "vgg19",
    "VGG19 layer by layer",
    (
        Part(
            "conv3x3",
            "conv3x3(x, w, b): a convolution of 3×3 with one ring of zeros around the image",
            _image,
            _convolution,
            {**_SPACE, "inputs": (1, 4), "outputs": (1, 4)},
            plain="xwb",
        ),
        Part(
            "max_pool2x2",
            "max_pool2x2(x): the largest of every 2×2 pixels",
            _pooled,
            _pooling,
            {"batch": (1, 2), "channels": (1, 4), "height": (2, 11), "width": (2, 11)},
            plain="x",
        ),
        Part(
            "multiplications",
            "multiplications(plan, side): how many each convolution makes of one image",
            _plan,
            _flops,
            {"layers": (1, 12), "side": (1, 64)},
        ),
        Part(
            "vgg",
            "vgg(x, plan, weights): the values behind every layer of a plan",
            _network,
            _layers,
            {"layers": (1, 14), "side": (4, 16)},
            cases=14,
        ),
    ),
)
