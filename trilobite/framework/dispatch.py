"""The short way into a compiled function: for a call like the one before, with nothing taken apart.

Enters: the arguments of a call. Leaves: its result, or `MISS` where anything differs from the call this was
made for, and the long way (`jit.Jitted`) decides. What must hold is compared by identity: arguments are plain
tensors of the same types, captured cells hold the arrays that the last call left there, gradients are the
tensors that it left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from trilobite.compiler.targets.contract import Target
from trilobite.compiler.targets.registry import executable
from trilobite.framework.autocast import autocast_dtype
from trilobite.framework.change_counter import changes
from trilobite.framework.delivery import forget_gradients, is_alone, is_plain
from trilobite.framework.leaves import GradLeaf
from trilobite.framework.recordings import Entry, still_holds
from trilobite.framework.signature import Call, Dynamic
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.native.interruptible import postponed, raise_postponed
from trilobite.native.ownership import (
    GRADIENTS_CELL,
    HELD_BY_DISPATCH,
    KNOWN_GRADIENT,
    LEFT_GRADIENT,
    counter,
    same,
)

MISS = object()


class Dispatch:
    """One entry of a jitted function, bound to the cells and arrays it meets every time."""

    __slots__ = (
        "aliases", "autocast", "bare", "cells", "changes", "count", "entry", "foreign", "grad_enabled",
        "gradients", "grads", "guards", "known", "last", "results", "rooms", "rows", "run", "single",
        "watched", "writes", "written",
    )  # fmt: skip

    def __init__(self, e: Entry, call: Call, target: Target) -> None:
        r = e.recording
        made = executable(r.graph, target, e.usage)
        self.entry, self.run = e, made.run
        self.count = counter() if made.overwrites else same
        self.rows = [(row.type.shape, row.type.dtype) for row in call.signature.leaves]
        self.aliases = call.signature.aliases
        self.grad_enabled, self.autocast = call.signature.grad_enabled, call.signature.autocast
        self.changes = changes()
        self.guards = e.guards if e.guards.places or e.guards.classes else None
        self._find_cells()
        self.grads: list[tuple[GradLeaf, bool]] = list(e.grads)
        self.watched = list(dict.fromkeys([*(leaf for leaf, _ in e.grad_was), *(g for g, _ in e.grads)]))
        self.results = sum(s is None for s in e.out_static)
        apart = self.aliases == tuple(range(len(self.rows)))
        self.bare = apart and not (self.writes or self.watched) and all(s is None for s in e.out_static)
        self.single = len(e.out_static) == 1 and e.out_static[0] is None and e.out_tree.kind is None
        at = {c: i for i, c in enumerate(self.cells)}
        several = len(self.writes) > 1 and all(c in at for c in self.writes)
        self.written = itemgetter(*(at[c] for c in self.writes)) if several else None
        self.remember()

    @staticmethod
    def of(
        e: Entry, call: Call, args: Sequence[Any], kwargs: Mapping[str, Any], target: Target
    ) -> Dispatch | None:
        """The short way for calls like this one, if it is of the plain kind."""
        rows = call.signature.leaves
        plain = not kwargs and all(type(a) is Tensor for a in args) and len(rows) == len(args)
        plain = plain and all(isinstance(r, Dynamic) and not r.grad and r.weak is None for r in rows)
        plain = plain and all(type(d) is int for r in rows for d in r.type.shape)
        ctx = entry.threads.context
        outside = ctx.recorder is None and _undisturbed(ctx)
        if not plain or not outside or e.differentiable or e.arg_writes or e.recording.values:
            return None
        if e.guards.lifted:
            return None  # numbers of Python are written into its inputs
        if e.lock is not None and e.lock.comes_back:
            return None  # what it calls may write state
        if any(isinstance(where, int) for where, _ in e.grads) or still_holds(e, call):
            return None  # what the call left behind asks for another recording
        return Dispatch(e, call, target)

    def _find_cells(self) -> None:
        """Captured cells; that of a gradient may be another one than when the function was recorded."""
        r, present = self.entry.recording, self.entry.present()
        self.cells = [present.get(c, c) for c in r.cells]
        self.writes = [present.get(c, c) for c in r.writes]
        self.foreign = frozenset((*self.cells, *self.writes))

    def remember(self) -> None:
        """What the cells and gradients hold now is what the next call expects."""
        self.last: list[Any] = [c.held for c in self.cells]
        self.known: list[Any] = [leaf.grad for leaf in self.watched]
        replaced = [leaf for leaf, there in self.grads if there] if self.entry.usage.replaced else []
        gradients: list[Any] = [leaf.grad for leaf in replaced]
        self.gradients = gradients if all(g is not None and is_plain(g) for g in gradients) else []
        self.rooms = [g._cell for g in self.gradients]  # whose arrays the next gradients may take

    def __call__(self, args: Sequence[Any]) -> Any:
        values = self._arguments(args) if self._stands() else None
        if values is None:
            return MISS
        lock = self.entry.lock
        if lock is None:
            outs = self.run(values, [], 0)
            return wrap(outs[0]) if self.single else self.entry.out_tree.unflatten(self._results(outs))
        with lock.now():
            return self._with_state(values)

    def _stands(self) -> bool:
        """Is all around the call as it was?"""
        ctx = entry.threads.context
        return (
            ctx.recorder is None
            and ctx.writes is None
            and ctx.undo is None
            and ctx.watch is None
            and (ctx.ambient.level > ctx.grad_off) is self.grad_enabled
            and changes() == self.changes
            and (self.guards is None or self.guards.hold())
            and autocast_dtype() is self.autocast
        )

    def arrays(self, values: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]] | None:
        """The same for plain arrays, which are nobody's tensors, of a function that leaves nothing behind but
        its results: these as arrays, or None where the long way decides.
        """
        if not self.bare or not self._stands():
            return None
        for v, (shape, dtype) in zip(values, self.rows, strict=True):
            if v.shape != shape or v.dtype != dtype:
                return None
        lock = self.entry.lock
        if lock is None:
            return self.run(values, [], 0)
        with lock.now():
            captured = [c.held for c in self.cells]
            if self.count(captured, self.last) < 0:
                return None
            values += captured
            del captured
            outs = self.run(values, [], HELD_BY_DISPATCH)
        if postponed:
            raise_postponed()
        return outs

    def _with_state(self, values: list[Any]) -> Any:
        captured = [c.held for c in self.cells]
        if self.count(captured, self.last) < 0:
            return MISS
        if self.count([leaf.grad for leaf in self.watched], self.known) < 0:
            return MISS
        values += captured
        del captured  # arrays to give away have one owner
        old = self._old()
        try:
            outs = self.run(values, old.copy(), HELD_BY_DISPATCH)
        except BaseException:
            if old:
                forget_gradients(self.grads)
            raise
        result = self._deliver(outs, old)
        if postponed:
            raise_postponed()
        return result

    def _old(self) -> list[Any]:
        """The arrays of gradients that nobody will miss; none if somebody holds one, or a view."""
        gradients, rooms = self.gradients, self.rooms
        if self.count(gradients, gradients) > KNOWN_GRADIENT or self.count(rooms, rooms) > GRADIENTS_CELL:
            return []
        return [c.value for c in rooms]

    def _arguments(self, args: Sequence[Any]) -> list[Any] | None:
        """The arrays of the arguments, or None if one is not what it was."""
        if len(args) != len(self.rows):
            return None
        values: list[Any] = []
        seen: dict[cells.Cell, int] = {}
        for t, (shape, dtype), first in zip(args, self.rows, self.aliases, strict=True):
            if type(t) is not Tensor or t._view is not None or t._extra is not None:
                return None
            cell = t._cell
            v = cell.value
            if type(v) is not np.ndarray or cell.leaf is not None or v.shape != shape or v.dtype != dtype:
                return None
            if cell in self.foreign or seen.setdefault(cell, len(values)) != first:
                return None
            values.append(v)
        return values

    def _deliver(self, outs: list[Any], old: list[Any]) -> Any:
        e, n = self.entry, self.results
        leaves = [wrap(outs[0])] if self.single else self._results(outs)
        if (self.writes or self.grads) and not self._in_place(outs, old):
            self.known, self.gradients, self.rooms = [], [], []  # the leaves alone hold the old gradients
            for leaf, there in self.grads:
                if not there:
                    leaf.grad = None
                    continue
                _set_gradient(leaf, outs[n])
                n += 1
            if e.grad_cells:
                self._find_cells()
            for cell, value in zip(self.writes, outs[n:], strict=True):
                cells.replace(cell, value)
            self.remember()
        return leaves[0] if self.single else e.out_tree.unflatten(leaves)

    def _in_place(self, outs: list[Any], old: list[Any]) -> bool:
        """Is all that the call changes in the arrays where it was? Then nothing is left to hand over."""
        if self.written is None or len(outs) != self.results + len(old) + len(self.writes):
            return False
        return self.count(outs[self.results :], [*old, *self.written(self.last)]) >= 0

    def _results(self, outs: Sequence[Any]) -> list[Any]:
        it = iter(outs)
        return [wrap(next(it)) if s is None else s.value for s in self.entry.out_static]


def _undisturbed(ctx: entry.Context) -> bool:
    """Nobody watches writes or results."""
    return ctx.writes is None and ctx.undo is None and ctx.watch is None


def _set_gradient(leaf: GradLeaf, value: Any) -> None:
    """A tensor that only its leaf holds is filled anew; one that somebody kept stays what it was."""
    old = leaf.grad
    if old is not None and is_alone(old, LEFT_GRADIENT):
        old._cell.value = value
    else:
        leaf.grad = wrap(value)
