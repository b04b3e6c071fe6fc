"""The lab `style`: the losses of style transfer by optimisation, and the layers of the real-time network.

All is written with tensors, so that gradients come from the framework. Losses and their gradients are
compared in doubles; the last part paints a picture and asks whether the loss has fallen.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.apps.labs.task import Array, Fault, Inputs, Lab, Part, Sizes, compare, first, normal
from trilobite.framework.nn import functional as F

TOLERANCE = 1e-9
FALLEN = 0.5


def gram(values: Any) -> Any:
    n, c, h, w = values.shape
    rows = values.reshape(n, c, h * w)
    return rows @ rows.transpose(1, 2) / (c * h * w)


def variation(picture: Any) -> Any:
    down, right = picture[:, :, 1:] - picture[:, :, :-1], picture[:, :, :, 1:] - picture[:, :, :, :-1]
    return (down * down).mean() + (right * right).mean()


def instance_norm(x: Any, scale: Any, shift: Any) -> Any:
    return F.instance_norm(x, weight=scale, bias=shift)


def residual(x: Any, w1: Any, w2: Any) -> Any:
    def convolved(x: Any, w: Any) -> Any:
        return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), w)

    ones, zeros = tb.ones(x.shape[1], dtype=tb.float64), tb.zeros(x.shape[1], dtype=tb.float64)
    inner = F.relu(instance_norm(convolved(x, w1), ones, zeros))
    return x + instance_norm(convolved(inner, w2), ones, zeros)


def _both(
    name: str, ours: Callable[..., Any], inputs: tuple[str, ...], hint: str
) -> Callable[..., Fault | None]:
    """A judge: values of a function of tensors, and the gradient of its first argument."""

    def run(f: Callable[..., Any], i: Inputs) -> tuple[Array, Array]:
        leaves = [tb.tensor(i[key]) for key in inputs]
        leaves[0].requires_grad_(True)
        out = f(*leaves)
        if not isinstance(out, tb.Tensor):
            raise TypeError(f"{name} gives {type(out).__name__}; a tensor was expected")
        weights = np.random.default_rng(5).normal(size=tuple(out.shape))
        (out * tb.tensor(weights)).sum().backward()
        return np.asarray(out.detach().numpy()), np.asarray(_gradient(leaves[0]).numpy())

    def judge(student: ModuleType, i: Inputs) -> Fault | None:
        value, slope = run(getattr(student, name), i)
        wanted, wanted_slope = run(ours, i)
        call = f"{name}({', '.join(inputs)})"
        return first(
            compare(call, value, wanted, TOLERANCE, hint),
            compare(
                f"the gradient of {call}",
                slope,
                wanted_slope,
                TOLERANCE,
                "does it flow through tensors, without .numpy() or .detach()?",
            ),
        )

    return judge


def _gradient(leaf: Any) -> Any:
    return tb.zeros_like(leaf) if leaf.grad is None else leaf.grad


def _values(rng: np.random.Generator, s: Sizes) -> Inputs:
    return {"values": normal(rng, s["batch"], s["channels"], s["height"], s["width"])}


def _picture(rng: np.random.Generator, s: Sizes) -> Inputs:
    return {"picture": normal(rng, s["batch"], 3, s["height"], s["width"])}


def _normed(rng: np.random.Generator, s: Sizes) -> Inputs:
    values = normal(rng, s["batch"], s["channels"], s["height"], s["width"]) + 3 * rng.normal()
    return {"x": values, "scale": normal(rng, s["channels"]), "shift": normal(rng, s["channels"])}


def _block(rng: np.random.Generator, s: Sizes) -> Inputs:
    c = s["channels"]
    return {
        "x": normal(rng, s["batch"], c, s["height"], s["width"]),
        "w1": normal(rng, c, c, 3, 3),
        "w2": normal(rng, c, c, 3, 3),
    }


def _paintings(rng: np.random.Generator, s: Sizes) -> Inputs:
    side = s["side"]
    waves = np.sin(np.arange(side)[:, None] * rng.uniform(0.5, 1.5) + np.arange(side) * rng.uniform(0.5, 1.5))
    filters = rng.normal(size=(6, 3, 3, 3)) * 0.4
    style = np.stack([0.5 + 0.4 * waves, 0.5 - 0.3 * waves, 0.3 + 0.2 * waves])[None]
    return {"content": rng.random((1, 3, side, side)), "style": style, "_filters": filters}


def _paint(student: ModuleType, i: Inputs) -> Fault | None:
    filters = tb.tensor(i["_filters"])

    def features(picture: Any) -> Any:
        return F.relu(F.conv2d(picture, filters, padding=1))

    content, style = tb.tensor(i["content"]), tb.tensor(i["style"])
    wanted = gram(features(style)).detach()

    def loss(picture: Any) -> float:
        difference = gram(features(picture)) - wanted
        return float((difference * difference).sum())

    painted = student.paint(content, style, features)
    if not isinstance(painted, tb.Tensor) or tuple(painted.shape) != tuple(content.shape):
        return Fault(
            "paint does not give a picture", f"a tensor of shape {tuple(content.shape)}", repr(type(painted))
        )
    if float(painted.min()) < 0 or float(painted.max()) > 1:
        return Fault(
            "the painted picture leaves the range of pixels",
            "values from 0 to 1",
            hint="clip after each step",
        )
    before, after = loss(content), loss(painted)
    if after <= FALLEN * before:
        return None
    return Fault(
        f"the distance between the Gram matrices went from {before:.3g} to {after:.3g}",
        f"at most {FALLEN:g} of what it was",
        hint="start from the content, train the picture with Adam, weigh the style strongly",
    )


_SPACE = {"batch": (1, 2), "channels": (1, 4), "height": (2, 6), "width": (2, 6)}
LAB = Lab(
    "style",
    "style transfer, by optimisation and in real time",
    (
        Part(
            "gram",
            "gram(values): products of all pairs of channels, divided by c·h·w",
            _values,
            _both("gram", gram, ("values",), "rows (n, c, h·w) times rows, transposed"),
            _SPACE,
            plain=("values",),
        ),
        Part(
            "total_variation",
            "total_variation(picture): mean squares of differences of neighbours",
            _picture,
            _both(
                "total_variation",
                variation,
                ("picture",),
                "downwards and to the right, a mean each, then the sum",
            ),
            {"batch": (1, 2), "height": (2, 6), "width": (2, 6)},
            plain=("picture",),
        ),
        Part(
            "paint",
            "paint(content, style, features): a picture whose Gram matrix comes near the style's",
            _paintings,
            _paint,
            {"side": (8, 16)},
            cases=2,
        ),
        Part(
            "instance_norm",
            "instance_norm(x, scale, shift): mean 0, variance 1 for each channel of each picture",
            _normed,
            _both(
                "instance_norm",
                instance_norm,
                ("x", "scale", "shift"),
                "the variance divides by h·w; add 1e-5 under the root",
            ),
            _SPACE,
            plain="x",
        ),
        Part(
            "residual",
            "residual(x, w1, w2): two convolutions with reflected edges and norms, beside a shortcut",
            _block,
            _both("residual", residual, ("x", "w1", "w2"), "x + norm(conv(relu(norm(conv(x)))))"),
            {**_SPACE, "channels": (1, 3)},
            cases=10,
            plain="x",
        ),
    ),
)
