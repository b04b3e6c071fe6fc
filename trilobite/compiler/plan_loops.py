"""Loops in a Program: the body's own Program, set into that of the graph around it.

Enters: a `scan` whose body is a fused graph, planned alone. Leaves: the steps that run it: carries begin as
copies in the memory of the results, each round reads and writes moving slices of the sequences, and what the
body makes of the carries is copied back. The body's arena is one interval of the arena around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trilobite.compiler.kernels import Kernel
from trilobite.compiler.program import Call, Loop, Place, Program, Step, Value

BLOCK = 1 << 16
"""Bytes that a unit of the copying kernel takes, whatever the target."""


@dataclass(frozen=True)
class Nested:
    """A scan on its way: its body's program, and what memory it needs besides operands and results."""

    body: Program
    consts: int
    carries: int
    length: int
    reverse: bool
    copy: Kernel

    @property
    def temporaries(self) -> tuple[int, ...]:
        """The body's arena, then the carries that it computes."""
        return (self.body.packing.peak, *(size_of(v) for v in self.body.outputs[: self.carries]))


def size_of(v: Value) -> int:
    total = int(v.dtype.itemsize)
    for d in v.shape:
        total *= d
    return total


def copy_step(kernel: Kernel, to: Place, source: Place, size: int, fusion: int) -> Call:
    units = max(1, -(-size // BLOCK))
    return Call(kernel, (to, source, size), units, fusion, bytes=2 * size, serial=size <= 4 * BLOCK)


def loop_steps(
    nested: Nested,
    at: int,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    temporaries: Sequence[Place],
    constant: Callable[[Any], int],
) -> list[Step]:
    """The steps of a scan whose operands and results lie in these places."""
    n, k = nested.consts, nested.carries
    carried = [v.place for v in outputs[:k]]
    begin: list[Step] = [
        copy_step(nested.copy, place, source.place, size_of(source), at)
        for place, source in zip(carried, inputs[n : n + k], strict=True)
    ]
    moving_in = [_moving(v, nested) for v in inputs[n + k :]]
    moving_out = [_moving(v, nested) for v in outputs[k:]]
    places = _Places(
        temporaries[0],
        [*(v.place for v in inputs[:n]), *carried, *moving_in],
        [*temporaries[1:], *moving_out],
        {i: constant(array) for i, array in enumerate(nested.body.constants)},
    )
    steps = [_set_in(s, places, at) for s in nested.body.steps]
    for j, v in enumerate(nested.body.outputs):  # results that are not computed in their own place
        if v.place != Place("output", j):
            steps.append(copy_step(nested.copy, places.outputs[j], places(v.place), size_of(v), at))
    for place, new, v in zip(carried, temporaries[1:], outputs[:k], strict=True):
        steps.append(copy_step(nested.copy, place, _level(new), size_of(v), at))
    return [*begin, Loop(nested.length, tuple(_deepened(s) for s in steps), at)]


def _moving(v: Value, nested: Nested) -> Place:
    """A slice of a sequence, which moves by one element each round."""
    stride = size_of(v) // nested.length if nested.length else 0
    first = (nested.length - 1) * stride if nested.reverse else 0
    return replace(v.place, offset=v.place.offset + first, strides=(-stride if nested.reverse else stride,))


@dataclass(frozen=True)
class _Places:
    """Where the body's places are outside."""

    arena: Place
    inputs: Sequence[Place]
    outputs: Sequence[Place]
    constants: Mapping[int, int]

    def __call__(self, place: Place) -> Place:
        if place.space == "constant":
            return Place("constant", self.constants[place.index], place.offset, (0, *place.strides))
        base = {"arena": [self.arena], "input": self.inputs, "output": self.outputs}[place.space]
        found = _level(base[place.index])
        return replace(found, offset=found.offset + place.offset, strides=(found.strides[0], *place.strides))


def _level(place: Place) -> Place:
    """A place that says how it moves with the loop: not at all, unless it does."""
    return place if place.strides else replace(place, strides=(0,))


def _set_in(step: Step, places: _Places, at: int) -> Step:
    if isinstance(step, Call):
        args = tuple(places(a) if isinstance(a, Place) else a for a in step.args)
        return replace(step, args=args, fusion=at)
    assert isinstance(step, Loop)  # a body with host steps is never planned this way
    return Loop(step.count, tuple(_set_in(s, places, at) for s in step.steps), at)


def _deepened(step: Step) -> Step:
    """Every place inside a loop says how it moves with it."""
    if isinstance(step, Call):
        args = tuple(_level(a) if isinstance(a, Place) else a for a in step.args)
        return replace(step, args=args)
    return step
