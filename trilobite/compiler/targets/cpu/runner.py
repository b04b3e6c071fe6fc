"""A Program bound to memory: arena, constants and one step table, ready to run on arrays.

Enters: a `Program` and its kernels' machine code. Leaves: a callable, arrays in and arrays out, one native
call per run. Equations that only NumPy can do are rows of the table that come back to Python. One run at a
time: who calls meanwhile waits, or gets another runner if the program calls the user's code. The arena is the
runner's own, or one that many runners share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, PlanError
from trilobite.base.forks import is_held_here, renewed_in_child
from trilobite.base.locations import Location, told
from trilobite.compiler.program.program import (
    Call,
    Exchange,
    HostCall,
    Place,
    Program,
    Step,
    Value,
    calls,
    exchanges,
    hosts,
    round_of,
    work_of,
)
from trilobite.compiler.targets.cpu.results import Results
from trilobite.compiler.targets.cpu.rows import Rows, native_ranks
from trilobite.ir import ranks
from trilobite.ir.primitives import table as primitives
from trilobite.native import driver, watching
from trilobite.native.cache import Kernels
from trilobite.native.memory import empty
from trilobite.native.pages import settle

Array = np.ndarray[Any, Any]
# Bytes and operations below which a program is over before another thread could take the lock
_BRIEF = 20_000


class Arena:
    """Memory for intermediate values, as large as the largest of its runners needs. They run one by one."""

    def __init__(self) -> None:
        self.memory, self.lock = empty(1, np.uint8), threading.RLock()
        self.is_used = False  # by a run, which may be one that the thread which holds the lock is in
        renewed_in_child(self)

    def after_fork(self) -> None:
        """A run of another thread does not go on in a child."""
        if not is_held_here(self.lock):
            self.lock, self.is_used = threading.RLock(), False

    def reserve(self, size: int) -> None:
        if self.memory.nbytes < size:
            self.memory = empty(1, np.uint8)  # the old goes before the new comes
            self.memory = _room(size)

    def release(self) -> None:
        """Gives the memory back, until the next run."""
        with self.lock:
            self.memory = empty(1, np.uint8)


def _room(size: int) -> Array:
    try:
        return empty((size,), np.uint8)
    except MemoryError as error:
        raise PlanError(
            f"there is no memory for the {size:,} bytes of a program's intermediate values",
            expected="a program that fits this machine",
            remedy="use smaller batches, or tb.checkpoint parts of it",
        ) from error


class Runner:
    """Runs one Program."""

    def __init__(
        self,
        program: Program,
        code: Kernels,
        inputs: int,
        shared: Arena | None = None,
        replaced: Sequence[int] = (),
    ) -> None:
        self.program, self.inputs = program, inputs
        self.shared = shared
        self.own = _room(1 if shared else max(program.packing.peak, 1))
        settle(self.own)
        self._turns = shared or Arena()
        self._exchanges = any(True for _ in exchanges(program.steps))
        self._waits = not self._exchanges and not any(
            _is_of_the_user(s.equation.primitive) for s in hosts(program.steps)
        )
        self._base, self._bases = int(self.own.ctypes.data), [c.ctypes.data for c in program.constants]
        self._copies = [(k, v) for k, v in enumerate(program.outputs) if v.place != Place("output", k)]
        self.results = Results(program.outputs, program.reuses, replaced)
        self._now: tuple[Array, ...] = ()
        self._code = code
        self._inner: Runner | None = None
        self._tables: dict[ranks.Transport | None, tuple[driver.Table, list[Step]]] = {}
        self._at = native_ranks()
        self.table, self.steps = self._table(code)

    def __call__(self, values: list[Array], old: list[Array] | None = None, held: int = 0) -> list[Array]:
        """`values` is the caller's own list: arrays in it that are given away may be replaced by copies. What
        `old` and `held` are, `results` says.
        """
        if not self._turns.lock.acquire(blocking=self._waits):
            return self._another()(values)
        try:
            if self._turns.is_used:
                return self._another()(values)
            self._turns.is_used = True
            try:
                return self._run(values, old or [], held)
            finally:
                if self.table.is_left_behind:
                    self._start_anew()
                self._turns.is_used, self._now = False, ()
        finally:
            self._turns.lock.release()

    def _start_anew(self) -> None:
        """An interrupted run goes on for a while in the memory that it has."""
        self.own = _room(self.own.nbytes)
        if self.shared is not None:
            self.shared.memory = empty(1, np.uint8)
        self._base = int(self.own.ctypes.data)
        self._tables.clear()
        self.table, self.steps = self._table(self._code)

    def forget(self) -> None:
        """Lets go of results of earlier runs, unless it runs."""
        if self._turns.lock.acquire(blocking=False):
            if not self._turns.is_used:
                self.results.forget()
            self._turns.lock.release()

    def _another(self) -> Runner:
        """For a run that a callback of this one's run asks for, or that should not wait until such a callback
        is done, which may wait for anything: with memory of its own.
        """
        if self._inner is None:
            replaced = self.results.replaced
            self._inner = Runner(self.program, self._code, self.inputs, replaced=replaced)
        return self._inner

    def _run(self, values: list[Array], old: list[Array], held: int) -> list[Array]:
        if self._exchanges and native_ranks() is not self._at:
            self._go_over(native_ranks())
        outs = self.results.allocate(values, old, held)
        if self.shared is not None:
            self.shared.reserve(self.program.packing.peak)
        self._now = self._arrays(values, outs)
        if watching.current is not None:
            watching.current.begins(self.table, self._names)
        try:
            self.table.run(self._now)
        except ArgumentError:
            if all(v.flags.c_contiguous and v.flags.aligned for v in values):
                raise  # a callback's: nothing may happen twice
            values = [np.require(v, requirements=("C", "A")) for v in values]
            self._now = self._arrays(values, outs)
            self.table.run(self._now)
        for k, v in self._copies:
            np.copyto(outs[k], self.view(v))
        return outs

    def _arrays(self, values: Sequence[Array], outs: Sequence[Array]) -> tuple[Array, ...]:
        return (*values, *outs) if self.shared is None else (*values, *outs, self.shared.memory)

    def _names(self) -> list[str]:
        """Of every row of the table the kernel that it calls."""
        return [step.kernel.name if isinstance(step, Call) else "" for step in self.steps]

    @property
    def arena(self) -> Array:
        return self.own if self.shared is None else self.shared.memory

    def view(self, v: Value, word: int | None = None) -> Array:
        """A value as an array over the memory it lies in, during a run. Where a value lies that moves with
        loops, the table's `word` says.
        """
        base = self._memory(v.place).reshape(-1).view(np.uint8)
        offset = v.place.offset if word is None else int(self.table.words[word]) - base.ctypes.data
        return np.ndarray(v.shape, v.dtype, base, offset)

    def _memory(self, place: Place) -> Array:
        if place.space == "arena":
            return self.arena
        if place.space == "constant":
            return self.program.constants[place.index]
        return self._now[place.index + (self.inputs if place.space == "output" else 0)]

    # -- binding ---------------------------------------------------------------------------------------------

    def _go_over(self, at: ranks.Transport | None) -> None:
        """This thread is another rank than that of the last run, or reaches the others in another way."""
        self._tables[self._at] = self.table, self.steps
        self._at = at
        known = self._tables.get(at)
        self.table, self.steps = self._table(self._code) if known is None else known

    def _table(self, code: Kernels) -> tuple[driver.Table, list[Step]]:
        """The table, and per row of it the step that it belongs to."""
        rows = Rows(self, dict(zip(self.program.kernels, code.addresses, strict=True)))
        rows.add(self.program.steps)
        run = list(calls(self.program.steps))
        table = driver.Table(
            rows.rows,
            rows.words,
            rows.patches,
            arrays=self.inputs + len(self.program.outputs) + (self.shared is not None),
            scratch=max((s.kernel.scratch for s in run), default=0),
            alive=(code, self.own, self.program.constants, rows.posted),
            brief=len(run) == len(rows.rows) and sum(s.bytes + s.flops for s in run) < _BRIEF,
            work=work_of(self.program.steps),
            loop_work=round_of(self.program.steps),
            stays=bool(rows.posted),
        )
        return table, rows.steps

    def array_of(self, a: Place) -> int | None:
        """Which of a run's arrays a place lies in; None for memory that never moves."""
        if a.space == "arena" and self.shared is not None:
            return self.inputs + len(self.program.outputs)
        if a.space in ("input", "output"):
            return a.index + (self.inputs if a.space == "output" else 0)
        return None

    def word(self, a: Place | int) -> int:
        """An argument as far as it is known before a run."""
        if not isinstance(a, Place):
            return a
        if a.space == "arena":
            return self._base + a.offset
        return self._bases[a.index] + a.offset if a.space == "constant" else 0

    def host(self, call: HostCall, words: Mapping[Place, int]) -> Callable[[], None]:
        """An equation as a function to call between kernels; `words` are those of places that move."""
        compute = _by_rule(call.equation.primitive, call.attributes)
        if call.equation.primitive.name.startswith("cluster_"):  # ranks that disagree tell each other where
            compute = _at(call.equation.location, compute)
        return self._between(compute, call.inputs, call.outputs, words)

    def exchanged(self, call: Exchange, words: Mapping[Place, int]) -> Callable[[], None]:
        """A collective as a function that is done when it returns."""
        compute = _at(call.location, _by_rule(primitives[call.name], call.attributes))
        return self._between(compute, call.inputs, (call.output,), words)

    def _between(
        self,
        compute: Callable[[Sequence[Array]], Sequence[Array]],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        words: Mapping[Place, int],
    ) -> Callable[[], None]:
        def run() -> None:
            results = compute([self.view(v, words.get(v.place)) for v in inputs])
            for v, result in zip(outputs, results, strict=True):
                np.copyto(self.view(v, words.get(v.place)), result)

        return run


def _is_of_the_user(primitive: Any) -> bool:
    """Does it run code that may do anything?"""
    return bool(primitive.effect or primitive.name == "custom_call")


def _at(
    place: Location, compute: Callable[[Sequence[Array]], Sequence[Array]]
) -> Callable[[Sequence[Array]], Sequence[Array]]:
    def run(values: Sequence[Array]) -> Sequence[Array]:
        with told(place):
            return compute(values)

    return run


def _by_rule(primitive: Any, attributes: Mapping[str, Any]) -> Callable[[Sequence[Array]], Sequence[Array]]:
    if primitive.multiple:
        return lambda values: primitive.evaluate(*values, **attributes)
    return lambda values: (primitive.evaluate(*values, **attributes),)
