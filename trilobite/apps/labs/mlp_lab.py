"""The lab `mlp`: layers of a perceptron with their gradients, in NumPy, and a network that reads digits.

Gradients are compared with the framework's in doubles. The digits of the last part are drawn afresh for every
check, shifted, turned, scaled and noisy, so that nobody can learn them by heart.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.apps.labs.task import Array, Fault, Inputs, Lab, Part, Sizes, as_array, compare, first, normal
from trilobite.framework.nn import functional as F

SIDE = 12
TOLERANCE = 1e-9
ACCURACY = 0.9


def draw_digits(rng: np.random.Generator, count: int, side: int = SIDE) -> tuple[Array, Array]:
    """Pictures (count, side × side) between 0 and 1 of digits, and which digit each shows."""
    from PIL import Image, ImageDraw, ImageFont

    labels = rng.integers(0, 10, count)
    big, font = 4 * side, ImageFont.load_default(size=int(2.9 * side))
    pictures = np.empty((count, side * side))
    for number, label in enumerate(labels):
        picture = Image.new("L", (big, big))
        at = (big / 2 + float(rng.normal(0, side / 12)), big / 2 + float(rng.normal(0, side / 12)))
        ImageDraw.Draw(picture).text(at, str(label), 255, font=font, anchor="mm")
        turned = picture.rotate(float(rng.normal(0, 6)), Image.Resampling.BILINEAR)
        small = turned.resize((side, side), Image.Resampling.BOX)
        pictures[number] = np.asarray(small, np.float64).reshape(-1) / 255
    return np.clip(pictures + rng.normal(0, 0.08, pictures.shape), 0, 1), labels


def gradients(f: Any, inputs: list[Array], cotangent: Array) -> list[Array]:
    """The framework's gradients of `f` in doubles."""
    leaves = [tb.tensor(x, requires_grad=True) for x in inputs]
    f(*leaves).backward(tb.tensor(cotangent))
    return [np.asarray(leaf.grad.numpy()) for leaf in leaves if leaf.grad is not None]


def _layer(rng: np.random.Generator, s: Sizes) -> Inputs:
    return {
        "x": normal(rng, s["batch"], s["inputs"]),
        "w": normal(rng, s["inputs"], s["outputs"]),
        "b": normal(rng, s["outputs"]),
    }


def _layer_backward(rng: np.random.Generator, s: Sizes) -> Inputs:
    return {**_layer(rng, s), "g": normal(rng, s["batch"], s["outputs"])}


def _linear(student: ModuleType, i: Inputs) -> Fault | None:
    return compare(
        "linear(x, w, b)", student.linear(i["x"], i["w"], i["b"]), i["x"] @ i["w"] + i["b"], TOLERANCE
    )


def _linear_backward(student: ModuleType, i: Inputs) -> Fault | None:
    found = student.linear_backward(i["x"], i["w"], i["g"])
    if not isinstance(found, (tuple, list)) or len(found) != 3:
        return Fault("linear_backward does not give three arrays", "(gx, gw, gb)", repr(type(found).__name__))
    wanted = gradients(lambda x, w, b: x @ w + b, [i["x"], i["w"], i["b"]], i["g"])
    hints = ("g times w, transposed", "x, transposed, times g", "the sum of g over the batch")
    rows = zip(("gx", "gw", "gb"), found, wanted, hints, strict=True)
    return first(*(compare(name, got, want, TOLERANCE, hint) for name, got, want, hint in rows))


def _signed(rng: np.random.Generator, s: Sizes) -> Inputs:
    x = normal(rng, s["batch"], s["width"])
    x[rng.random(x.shape) < 0.2] = 0.0
    return {"x": x, "g": normal(rng, s["batch"], s["width"])}


def _relu_backward(student: ModuleType, i: Inputs) -> Fault | None:
    wanted = np.where(i["x"] > 0, i["g"], 0.0)
    hint = "g passes where x is above 0; at 0 the slope is 0"
    return compare("relu_backward(x, g)", student.relu_backward(i["x"], i["g"]), wanted, TOLERANCE, hint)


def _scores(rng: np.random.Generator, s: Sizes) -> Inputs:
    scores = rng.normal(size=(s["batch"], s["classes"])) * 10.0 ** rng.integers(0, 4)
    return {"scores": scores, "labels": rng.integers(0, s["classes"], s["batch"])}


def _loss(student: ModuleType, i: Inputs) -> Fault | None:
    found = student.softmax_cross_entropy(i["scores"], i["labels"])
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        return Fault(
            "softmax_cross_entropy does not give two values", "(loss, gradient)", type(found).__name__
        )
    labels = tb.tensor(i["labels"])
    loss = F.cross_entropy(tb.tensor(i["scores"]), labels)
    (slope,) = gradients(lambda scores: F.cross_entropy(scores, labels), [i["scores"]], np.ones(()))
    return first(
        compare(
            "the loss",
            found[0],
            np.asarray(loss.item()),
            TOLERANCE,
            "subtract the largest score of a row first: exp(1000) is infinite",
        ),
        compare("the gradient", found[1], slope, TOLERANCE, "(softmax - one_hot) / batch"),
    )


def _digits(rng: np.random.Generator, _: Sizes) -> Inputs:
    images, labels = draw_digits(rng, 900)
    return {"images": images[:600], "labels": labels[:600], "_unseen": (images[600:], labels[600:])}


def _train(student: ModuleType, i: Inputs) -> Fault | None:
    read = student.train(i["images"], i["labels"])
    images, labels = i["_unseen"]
    answers = as_array(read(images)) if callable(read) else None
    if answers is None or answers.shape != labels.shape:
        return Fault(
            "train does not give a function that reads digits",
            f"read(images) gives {len(labels)} whole numbers from 0 to 9",
            repr(answers if answers is None else answers.shape),
        )
    share = float((answers == labels).mean())
    if share >= ACCURACY:
        return None
    return Fault(
        f"{share:.1%} of digits that were not in the training set are read right",
        f"at least {ACCURACY:.0%}",
        hint="more steps, another learning rate, a wider layer; are the weights random at the start?",
    )


_WIDTHS = {"batch": (1, 9), "inputs": (1, 8), "outputs": (1, 7)}
LAB = Lab(
    "mlp",
    "a multilayer perceptron that reads digits",
    (
        Part(
            "linear", "linear(x, w, b): x @ w + b for a batch of rows", _layer, _linear, _WIDTHS, plain="xwb"
        ),
        Part(
            "linear_backward",
            "linear_backward(x, w, g): the gradients (gx, gw, gb)",
            _layer_backward,
            _linear_backward,
            _WIDTHS,
            plain="xwg",
        ),
        Part(
            "relu_backward",
            "relu_backward(x, g): the gradient of max(x, 0)",
            _signed,
            _relu_backward,
            {"batch": (1, 5), "width": (1, 9)},
            plain="xg",
        ),
        Part(
            "softmax_cross_entropy",
            "softmax_cross_entropy(scores, labels): (mean loss, gradient)",
            _scores,
            _loss,
            {"batch": (1, 8), "classes": (2, 10)},
            plain=("scores",),
        ),
        Part(
            "train",
            f"train(images, labels): a function that reads at least {ACCURACY:.0%} of new digits",
            _digits,
            _train,
            cases=1,
        ),
    ),
)
