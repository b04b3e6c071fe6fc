"""Programs as fixtures: a function and its inputs. One harness runs each of them on every target and compares
bits.

A program is made anew for every run, so that state (parameters, statistics, random keys) starts the same.
After the last step the results of all steps and the whole state are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base import pytree

TARGETS = ("reference",)


@dataclass
class Built:
    """One instance of a program: the function, the inputs of step i, and the tensors that it may change."""

    fn: Callable[..., Any]
    inputs: Callable[[int], tuple[Any, ...]]
    state: Any = field(default_factory=list)


@dataclass(frozen=True)
class Program:
    name: str
    make: Callable[[], Built]
    steps: int = 1


programs: dict[str, Program] = {}


def program(steps: int = 1) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Enter a maker into the table under its name."""

    def enter(make: Callable[[], Built]) -> Callable[[], Built]:
        programs[make.__name__] = Program(make.__name__, make, steps)
        return make

    return enter


def arrays(tree: Any) -> list[np.ndarray]:
    leaves = pytree.leaves(tree, lambda x: isinstance(x, tb.Tensor))
    return [np.array(x.detach().numpy()) if isinstance(x, tb.Tensor) else np.asarray(x) for x in leaves]


def run(p: Program, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> list[np.ndarray]:
    """Every result of every step, then the state."""
    tb.manual_seed(1234)
    built = p.make()
    fn = wrap(built.fn)
    seen: list[np.ndarray] = []
    for i in range(p.steps):
        seen += arrays(fn(*built.inputs(i)))
    return seen + arrays(built.state)


def assert_same_bits(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    assert len(got) == len(want)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape, (
            f"array {i}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        )
        assert a.tobytes() == b.tobytes(), (
            f"array {i} differs: at most by {np.abs(a.astype(float) - b.astype(float)).max()}"
        )
