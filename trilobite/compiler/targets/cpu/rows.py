"""The rows of a step table, as they are made from the steps of a Program.

Enters: steps, and the runner whose memory they work on. Leaves: rows, words and patches for `native/driver`.
Collectives are rows that call MPI by address, where the ranks are processes: one begins, later ones look
after what is under way, and one waits; else they come back to Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.base.dtypes import int64
from trilobite.compiler.program.kernels import Kernel
from trilobite.compiler.program.program import (
    Arrival,
    Branch,
    Call,
    Exchange,
    HostCall,
    Loop,
    Place,
    Step,
    Value,
    While,
)
from trilobite.ir import ranks
from trilobite.ir.types import TensorType
from trilobite.native import driver

if TYPE_CHECKING:
    from trilobite.compiler.targets.cpu.runner import Runner

Array = np.ndarray[Any, Any]
_UNATTENDED = 2e6  # operations and bytes, these four times, between two looks at messages: some 20 us


def native_ranks() -> ranks.Transport | None:
    """How machine code of this thread reaches other ranks, if it can."""
    at = ranks.transport()
    return at if at.native else None


class Posted(list[ranks.Row]):
    """Collectives that a table begins: nobody does when the table is gone."""

    def __del__(self) -> None:
        for row in self:
            row.forget()


class Rows:
    """The rows of a step table, as they are made from steps."""

    def __init__(self, runner: Runner, addresses: Mapping[Kernel, int]) -> None:
        self.runner, self.addresses = runner, addresses
        self.rows: list[driver.Row] = []
        self.steps: list[Step] = []
        self.words: list[int] = []
        self.patches: list[driver.Patch] = []
        self._moving: list[tuple[int, tuple[int, ...]]] = []  # words, and how they move with the loops around
        self.posted = Posted()
        self._open: dict[tuple[int, int], tuple[Exchange, ranks.Row]] = {}  # begun, not awaited; by number
        self._scopes = count()  # of sequences of steps: numbers count in each anew
        self._scope = 0
        self._work = 0.0  # operations and bytes since machine code last looked after them

    def add(self, steps: Sequence[Step], depth: int = 0) -> None:
        around, self._scope = self._scope, next(self._scopes)
        for step in steps:
            match step:
                case Call():
                    self._call(step)
                case HostCall():
                    words = self._moved((*step.inputs, *step.outputs))
                    self._append(driver.Host(self.runner.host(step, words)), step)
                case Exchange():
                    self._exchange(step)
                case Arrival():
                    self._arrive(step)
                case Loop():
                    self._loop(step, depth)
                case While():
                    self._while(step, depth)
                case Branch():
                    self._branch(step, depth)
        self._scope = around

    def _moved(self, values: Sequence[Value]) -> dict[Place, int]:
        """Words of places that move with loops."""
        return {place: self._word(place) for place in {v.place for v in values if any(v.place.strides)}}

    # -- what ranks exchange ---------------------------------------------------------------------------------

    def _exchange(self, step: Exchange) -> None:
        at = native_ranks()
        if at is None:
            words = self._moved((*step.inputs, step.output))
            self._append(driver.Host(self.runner.exchanged(step, words)), step)
            return
        from trilobite.compiler.targets.cpu.reductions import reduction  # most programs exchange nothing

        row = at.row(_call_of(step), reduction)
        self.posted.append(row)
        self._native(row.start, (row.address, *(v.place for v in step.inputs)), step)
        if not step.inputs:
            self.words.append(0)
        self._word(step.output.place)
        if not is_local(step):
            self._open[self._scope, step.number] = step, row

    def _arrive(self, step: Arrival) -> None:
        if (self._scope, step.number) not in self._open:
            return  # Python has done it whole
        exchange, row = self._open.pop((self._scope, step.number))
        self._native(row.wait, (row.address,), exchange)
        at, state = len(self.rows), self._word(row.address)
        self._append(driver.JumpIfZero(state, 1, at + 2), exchange)
        self._append(driver.Host(row.look), exchange)

    def _look_after(self, step: Call) -> None:
        """Messages go on while machine code asks MPI for them: now and then, while some are under way."""
        self._work += step.flops + 4 * step.bytes
        if self._open and self._work > _UNATTENDED:
            self._work = 0.0
            exchange, row = next(iter(self._open.values()))
            self._native(row.poll, (row.link,), exchange)

    def _native(self, function: int, words: Sequence[Place | int], step: Step) -> None:
        self._append(driver.Call(function, len(self.words), 1, True, False), step)
        for a in words:
            self._word(a)

    def _loop(self, loop: Loop, depth: int) -> None:
        at, first = len(self.rows), len(self._moving)
        self._append(driver.Repeat(loop.count, at), loop)  # where it ends is known behind its body
        self.add(loop.steps, depth + 1)
        bumps = [(w, s[depth]) for w, s in self._moving[first:] if len(s) > depth and s[depth]]
        self.rows[at] = driver.Repeat(loop.count, len(self.rows))
        self._append(driver.Again(at, tuple(bumps)), loop)

    def _while(self, loop: While, depth: int) -> None:
        first = len(self.rows)
        self.add(loop.test, depth)
        at, flag = len(self.rows), self._word(loop.flag)
        self._append(driver.JumpIfZero(flag, 1, at), loop)
        self.add(loop.body, depth)
        self._append(driver.Jump(first), loop)
        self.rows[at] = driver.JumpIfZero(flag, 1, len(self.rows))

    def _branch(self, branch: Branch, depth: int) -> None:
        at, index = len(self.rows), self._word(branch.index)
        self._append(driver.Choose(index, ()), branch)  # where the cases begin is known behind them
        begins, ends = [], []
        for steps in branch.cases:
            begins.append(len(self.rows))
            self.add(steps, depth)
            ends.append(len(self.rows))
            self._append(driver.Jump(at), branch)
        self.rows[at] = driver.Choose(index, tuple(begins))
        for end in ends:
            self.rows[end] = driver.Jump(len(self.rows))

    def _append(self, row: driver.Row, step: Step) -> None:
        self.rows.append(row)
        self.steps.append(step)

    def _call(self, step: Call) -> None:
        address = self.addresses[step.kernel]
        given = self.runner.program.reuses
        overwrites = any(type(a) is Place and a.space == "output" and a.index in given for a in step.args)
        at = len(self.words)
        self._append(driver.Call(address, at, step.units, step.serial, step.whole, overwrites), step)
        for a in step.args:
            if type(a) is int:  # two words of three
                self.words.append(a)
            else:
                self._word(a)
        self._look_after(step)

    def _word(self, a: Place | int) -> int:
        """The number of a new word that holds this, whatever it is in each run and round."""
        at = len(self.words)
        if isinstance(a, Place):
            if a.strides:
                self._moving.append((at, a.strides))
            array = self.runner.array_of(a)
            if array is not None:
                self.patches.append(driver.Patch(at, array, a.offset))
        self.words.append(self.runner.word(a))
        return at


def is_local(step: Exchange) -> bool:
    """Does no other rank take part? Then it is done when it has begun."""
    from trilobite.compiler.graph.overlap import LOCAL

    return step.name in LOCAL


def _call_of(step: Exchange) -> ranks.Call:
    """The collective as this rank calls it."""
    from trilobite.ir.primitives.cluster import MEANINGS

    kind = TensorType(step.inputs[0].shape, step.inputs[0].dtype) if step.inputs else TensorType((), int64)
    meaning = MEANINGS.get(step.name, _own)
    return ranks.called(step.name, kind, dict(step.attributes), step.location, meaning)


def _own(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> list[Array]:
    """What no other rank takes part in."""
    return list(arrays)
