"""Control flow in a Program: the Programs of its regions, set into that of the graph around them.

Enters: a `scan`, `while` or `cond` whose regions are fused graphs, each planned alone. Leaves: the steps that
run it. Carries begin as copies in the memory of the results. A body writes those there that it may change in
place; the others are copied back after each round. A scan's rounds read and write moving slices of the
sequences; branches write the results themselves. The regions' arenas are one interval of the arena around
them, for they never run at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from trilobite.base.records import dataclass
from trilobite.compiler.graph.regions import CONTROL
from trilobite.compiler.program.kernels import Kernel
from trilobite.compiler.program.program import (
    Arrival,
    Branch,
    Call,
    Exchange,
    HostCall,
    Loop,
    Place,
    Program,
    Step,
    Value,
    While,
    size_of,
)
from trilobite.ir.graph import Equation, Graph
from trilobite.ir.types import Dim

BLOCK = 1 << 16
"""Bytes that a unit of the copying kernel takes, whatever the target."""

Constant = Callable[[Any], int]
"""The number that an array has among the constants of the program around."""


class Setting(NamedTuple):
    """What a control-flow equation has around it."""

    at: int  # which fusion it is
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    temporaries: Sequence[Place]
    constant: Constant


class Nested(ABC):
    """Control flow on its way: programs of its regions, and the memory it needs beside that of its values."""

    @property
    @abstractmethod
    def temporaries(self) -> tuple[int, ...]:
        """Bytes of the regions' arena, then of what each kind says."""

    @abstractmethod
    def steps(self, s: Setting) -> list[Step]:
        """The steps of it in its surroundings."""


Planned = Callable[[Graph, Mapping[int, int]], Program]
"""Plans a region; outputs may take the memory of these inputs."""


def nested(e: Equation, planned: Planned, number: Callable[[Dim], int], copy: Kernel) -> Nested:
    """A control-flow equation on its way; `copy` is the kernel that copies bytes."""
    a = e.attributes
    match e.primitive.name:
        case "scan":
            body = planned(a["body"], {k: a["consts"] + k for k in range(a["carries"])})
            return _Scan(body, a["consts"], a["carries"], number(a["length"]), a["reverse"], copy)
        case "while":
            body = planned(a["body"], {k: a["consts"][1] + k for k in range(len(e.outputs))})
            return _While(planned(a["test"], {}), body, a["consts"], copy)
        case _:
            return _Cond(tuple(planned(g, {}) for g in a["branches"]), copy)


def is_control(e: Equation) -> bool:
    """Is it a fusion of one control-flow equation, whose regions are fused?"""
    return e.primitive.name == "fusion" and e.attributes["kind"] in CONTROL


def copy_step(kernel: Kernel, to: Place, source: Place, size: int, fusion: int) -> Call:
    units = max(1, -(-size // BLOCK))
    return Call(kernel, (to, source, size), units, fusion, bytes=2 * size, serial=size <= 4 * BLOCK)


# -- the three kinds -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scan(Nested):
    """Behind the arena: the carries that the body computes."""

    body: Program
    consts: int
    carries: int
    length: int
    reverse: bool
    copy: Kernel

    @property
    def temporaries(self) -> tuple[int, ...]:
        return (self.body.packing.peak, *_room(self.body, self.carries))

    def steps(self, s: Setting) -> list[Step]:
        n, k = self.consts, self.carries
        carried = [v.place for v in s.outputs[:k]]
        begin = _begun(self.copy, carried, s.inputs[n : n + k], s.at)
        moving_in = [self._moving(v) for v in s.inputs[n + k :]]
        moving_out = [self._moving(v) for v in s.outputs[k:]]
        places = _Places(
            s.temporaries[0],
            [*(v.place for v in s.inputs[:n]), *carried, *moving_in],
            [*_computed(self.body, carried, s.temporaries[1:]), *moving_out],
            _numbers(self.body, s.constant),
            loops=1,
        )
        steps = _region(self.body, places, self.copy, s.at)
        steps += _handed_on(s.outputs[:k], places, self.copy, s.at)
        return [*begin, Loop(self.length, tuple(steps), s.at)]

    def _moving(self, v: Value) -> Place:
        """A slice of a sequence, which moves by one element each round."""
        stride = size_of(v) // self.length if self.length else 0
        first = (self.length - 1) * stride if self.reverse else 0
        return replace(v.place, offset=v.place.offset + first, strides=(-stride if self.reverse else stride,))


@dataclass(frozen=True)
class _While(Nested):
    """Behind the arena: the test's answer, then the carries that the body computes."""

    test: Program
    body: Program
    consts: tuple[int, int]
    copy: Kernel

    @property
    def temporaries(self) -> tuple[int, ...]:
        peak = max(self.test.packing.peak, self.body.packing.peak)
        return (peak, 1, *_room(self.body, len(self.body.outputs)))

    def steps(self, s: Setting) -> list[Step]:
        a, b = self.consts
        arena, answer, *apart = s.temporaries
        carried = [v.place for v in s.outputs]
        computed = _computed(self.body, carried, apart)
        for_test, for_body = ([v.place for v in vs] for vs in (s.inputs[:a], s.inputs[a : a + b]))
        asked = _Places(arena, [*for_test, *carried], [answer], _numbers(self.test, s.constant))
        done = _Places(arena, [*for_body, *carried], computed, _numbers(self.body, s.constant))
        test = _region(self.test, asked, self.copy, s.at)
        body = _region(self.body, done, self.copy, s.at) + _handed_on(s.outputs, done, self.copy, s.at)
        begin = _begun(self.copy, carried, s.inputs[a + b :], s.at)
        return [*begin, While(tuple(test), answer, tuple(body), s.at)]


@dataclass(frozen=True)
class _Cond(Nested):
    branches: tuple[Program, ...]
    copy: Kernel

    @property
    def temporaries(self) -> tuple[int, ...]:
        return (max(g.packing.peak for g in self.branches),)

    def steps(self, s: Setting) -> list[Step]:
        ins, outs = ([v.place for v in vs] for vs in (s.inputs[1:], s.outputs))
        cases = [
            _region(g, _Places(s.temporaries[0], ins, outs, _numbers(g, s.constant)), self.copy, s.at)
            for g in self.branches
        ]
        return [Branch(s.inputs[0].place, tuple(map(tuple, cases)), s.at)]


# -- regions in their surroundings ---------------------------------------------------------------------------


def _begun(copy: Kernel, carried: Sequence[Place], starts: Sequence[Value], at: int) -> list[Step]:
    """Carries begin as copies of the operands."""
    return [copy_step(copy, to, v.place, size_of(v), at) for to, v in zip(carried, starts, strict=True)]


def _room(body: Program, carries: int) -> list[int]:
    """Bytes for what a body makes of each carry: none for those that it changes in place."""
    return [0 if k in body.reuses else size_of(v) for k, v in enumerate(body.outputs[:carries])]


def _computed(body: Program, carried: Sequence[Place], apart: Sequence[Place]) -> list[Place]:
    """Where a body puts what it makes of each carry."""
    return [c if k in body.reuses else t for k, (c, t) in enumerate(zip(carried, apart, strict=True))]


def _handed_on(carries: Sequence[Value], places: _Places, copy: Kernel, at: int) -> list[Step]:
    """What a body put elsewhere, to where the next round reads it."""
    made = zip(carries, places.outputs, strict=False)
    return [
        copy_step(copy, places.level(v.place), places.level(new), size_of(v), at)
        for v, new in made
        if new != v.place
    ]


def _numbers(program: Program, constant: Constant) -> Mapping[int, int]:
    return {i: constant(array) for i, array in enumerate(program.constants)}


@dataclass(frozen=True)
class _Places:
    """Where a region's places are outside. In the body of a loop every place says how it moves with it."""

    arena: Place
    inputs: Sequence[Place]
    outputs: Sequence[Place]
    constants: Mapping[int, int]
    loops: int = 0  # 1 in the body of a counted loop

    def __call__(self, place: Place) -> Place:
        if place.space == "constant":
            found = Place("constant", self.constants[place.index])
        else:
            base = {"arena": [self.arena], "input": self.inputs, "output": self.outputs}[place.space]
            found = base[place.index]
        strides = (*self.level(found).strides, *place.strides)
        return replace(found, offset=found.offset + place.offset, strides=strides)

    def level(self, place: Place) -> Place:
        """A place outside that moves with the loop as it says: not at all, unless it does."""
        return place if place.strides or not self.loops else replace(place, strides=(0,))


def _region(program: Program, places: _Places, copy: Kernel, at: int) -> list[Step]:
    """The steps of a region, results that are not computed in their own place copied there."""
    steps = [_set_in(s, places, at) for s in program.steps]
    for j, v in enumerate(program.outputs):
        if v.place != Place("output", j):
            to = places.level(places.outputs[j])
            steps.append(copy_step(copy, to, places(v.place), size_of(v), at))
    return steps


def _set_in(step: Step, places: _Places, at: int) -> Step:
    def all_of(steps: Sequence[Step]) -> tuple[Step, ...]:
        return tuple(_set_in(s, places, at) for s in steps)

    match step:
        case Call():
            args = tuple(places(a) if isinstance(a, Place) else a for a in step.args)
            return step._replace(args=args, fusion=at)
        case Loop():
            return Loop(step.count, all_of(step.steps), at)
        case While():
            return While(all_of(step.test), places(step.flag), all_of(step.body), at)
        case Branch():
            return Branch(places(step.index), tuple(map(all_of, step.cases)), at)
        case HostCall():
            ins, outs = (
                tuple(v._replace(place=places(v.place)) for v in vs) for vs in (step.inputs, step.outputs)
            )
            return replace(step, inputs=ins, outputs=outs, fusion=at)
        case Exchange():
            ins = tuple(v._replace(place=places(v.place)) for v in step.inputs)
            output = step.output._replace(place=places(step.output.place))
            return replace(step, inputs=ins, output=output, fusion=at)
        case Arrival():
            return step._replace(fusion=at)
