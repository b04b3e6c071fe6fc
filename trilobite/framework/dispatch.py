"""The short way into a compiled function: for a call like the one before, with nothing taken apart.

Enters: the arguments of a call. Leaves: its result, or `MISS` where anything differs from the call this was
made for, and the long way (`jit.Jitted`) decides. What must hold is compared by identity: arguments are plain
tensors of the same types, captured cells hold the arrays that the last call left there, gradients are the
tensors that it left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from sys import getrefcount
from typing import Any

import numpy as np

from trilobite.framework.autocast import autocast_dtype
from trilobite.framework.generation import generation
from trilobite.framework.leaves import GradLeaf
from trilobite.framework.recordings import Entry, still_holds
from trilobite.framework.signature import Call, Dynamic
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.evaluate import executable
from trilobite.ir.transforms import bind as entry

MISS = object()
_ALONE = 3  # references to a gradient that nobody else holds: its leaf's, a variable's, and the count's own


class Dispatch:
    """One entry of a jitted function, bound to the cells and arrays it meets every time."""

    __slots__ = (
        "autocast", "cells", "entry", "foreign", "generation", "grad_enabled", "grads", "known", "last",
        "leaves", "rows", "run", "single", "watched", "writes",
    )  # fmt: skip

    def __init__(self, e: Entry, call: Call, target: str) -> None:
        r = e.recording
        self.entry, self.run = e, executable(r.graph, target, e.usage)
        self.rows = [(row.type.shape, row.type.dtype) for row in call.signature.leaves]
        self.grad_enabled, self.autocast = call.signature.grad_enabled, call.signature.autocast
        self.generation = generation()
        self._find_cells()
        self.grads: list[tuple[GradLeaf, bool]] = list(e.grads)
        self.watched = list(dict.fromkeys([*(leaf for leaf, _ in e.grad_was), *(g for g, _ in e.grads)]))
        self.single = len(e.out_static) == 1 and e.out_static[0] is None and e.out_tree.kind is None
        self.remember()

    @staticmethod
    def of(
        e: Entry, call: Call, args: Sequence[Any], kwargs: Mapping[str, Any], target: str
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
        self.last: list[Any] | None = [c.value for c in self.cells]
        self.known: list[Any] = [leaf.grad for leaf in self.watched]

    def __call__(self, args: Sequence[Any]) -> Any:
        ctx = entry.threads.context
        if (
            ctx.recorder is not None
            or ctx.writes is not None
            or ctx.undo is not None
            or ctx.watch is not None
        ):
            return MISS
        if (ctx.ambient.level > ctx.grad_off) is not self.grad_enabled or generation() != self.generation:
            return MISS
        values = self._arguments(args)
        if values is None or autocast_dtype() is not self.autocast:
            return MISS
        captured = [c.value for c in self.cells]
        if self.last is None or not all(map(is_, captured, self.last)):
            return MISS
        if not all(map(is_, [leaf.grad for leaf in self.watched], self.known)):
            return MISS
        values += captured
        captured = self.last = self.known = None  # type: ignore[assignment]  # arrays to give away: one owner
        return self._deliver(self.run(values))

    def _arguments(self, args: Sequence[Any]) -> list[Any] | None:
        """The arrays of the arguments, or None if one is not what it was."""
        if len(args) != len(self.rows):
            return None
        values, seen = [], set()
        for t, (shape, dtype) in zip(args, self.rows, strict=True):
            if type(t) is not Tensor or t._view is not None or t._extra is not None:
                return None
            cell = t._cell
            v = cell.value
            if type(v) is not np.ndarray or cell.leaf is not None or v.shape != shape or v.dtype != dtype:
                return None
            if cell in self.foreign or cell in seen:
                return None
            seen.add(cell)
            values.append(v)
        return values

    def _deliver(self, outs: list[Any]) -> Any:
        e = self.entry
        n = sum(s is None for s in e.out_static)
        leaves = [wrap(outs[0])] if self.single else self._results(outs)
        for leaf, there in self.grads:
            if not there:
                leaf.grad = None
                continue
            _set_gradient(leaf, outs[n])
            n += 1
        if e.grad_cells:
            self._find_cells()
        for cell, value in zip(self.writes, outs[n:], strict=True):
            cell.value = value
        self.remember()
        return leaves[0] if self.single else e.out_tree.unflatten(leaves)

    def _results(self, outs: Sequence[Any]) -> list[Any]:
        it = iter(outs)
        return [wrap(next(it)) if s is None else s.value for s in self.entry.out_static]


def _undisturbed(ctx: entry.Context) -> bool:
    """Nobody watches writes or results."""
    return ctx.writes is None and ctx.undo is None and ctx.watch is None


def _set_gradient(leaf: GradLeaf, value: Any) -> None:
    """A tensor that only its leaf holds is filled anew; one that somebody kept stays what it was."""
    old = leaf.grad
    if old is not None and getrefcount(old) <= _ALONE and old._view is None and old._extra is None:
        old._cell.value = value
    else:
        leaf.grad = wrap(value)
