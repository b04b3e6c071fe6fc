"""The labs by name, in the order of the course. A lab's module is imported when it is asked for."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from importlib.resources import files

from trilobite.apps.labs.task import Lab
from trilobite.base.errors import ArgumentError

# name: what it is about, in a line
LABS = {
    "mlp": "A multilayer perceptron that reads digits: forward, backward, a training loop",
    "vgg19": "VGG19 layer by layer: convolution, pooling, and the whole network",
    "style": "Style transfer: by optimisation, and in real time",
    "int8": "Eight bits: quantise, multiply, requantise, and run it on the processor",
    "power-difference": "An operator of one's own: on the CPU, then in BANG C",
    "sigmoid": "A first BANG C kernel: tiles, tails, tasks",
    "matmul-ladder": "One matrix product in five steps, each faster than the last",
    "autodiff": "Automatic differentiation by hand: a tape in fifty lines",
    "pass": "A pass for the compiler: transposes that need not happen",
    "stencil": "A schedule for a stencil: order, vectors, threads",
    "chip": "A chip of one's own: a machine within a budget",
}


def load(name: str) -> Lab:
    """A lab by its name."""
    if name not in LABS:
        near = get_close_matches(name, LABS, 1)
        raise ArgumentError(
            f"there is no lab {name!r}",
            expected="one of " + ", ".join(LABS),
            remedy=f"did you mean {near[0]!r}?" if near else "see `trilobite labs`",
        )
    lab: Lab = import_module(f"trilobite.apps.labs.{name.replace('-', '_')}_lab").LAB
    return lab


def material(name: str, what: str) -> str:
    """The text of a lab's `starter` or `solution`."""
    place = files("trilobite.apps.labs") / "material" / name.replace("-", "_") / f"{what}.py"
    return place.read_text(encoding="utf-8")
