"""A view of a recorded value as one node on the tape, whatever steps it looks through.

Enters: a value of the ambient tape and the steps of a view. Leaves: what they show, on the tape. On the way
back a cotangent is written where the view looks: zeros elsewhere. That is what the steps' own rules give one
after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.locations import UNKNOWN
from trilobite.framework.views import Step
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.composite import subtape
from trilobite.ir.transforms.tape import Node, Tape, Taped, next_order, taped

_ndarray = np.ndarray
_ALONE = frozenset({"reshape", "transpose", "slice", "reverse"})
"""Steps through which every element of the view is one element of the tensor."""


def looked(value: Value, steps: Sequence[Step]) -> Value | None:
    """What the steps show of an array, or of a value of the ambient tape; None where each of them has to be
    applied by itself.
    """
    ctx = entry.threads.context
    if ctx.recorder is not None or ctx.watch is not None:
        return None
    if type(value) is _ndarray:
        return _shown(value, steps)
    if type(value) is not Taped:
        return None
    tape, base = value.interpreter, value.primal
    if tape is not ctx.ambient or type(base) is not _ndarray or tape.level <= ctx.grad_off or tape.paused:
        return None
    out = _shown(base, steps)
    return None if out is None else taped(tape, out, ViewNode(steps, base, (value.node, value.index)))


def _shown(x: np.ndarray[Any, Any], steps: Sequence[Step]) -> np.ndarray[Any, Any] | None:
    """By NumPy itself, without the way through `bind`."""
    for primitive, attributes in steps:
        if primitive.name not in _ALONE:
            return None
        x = primitive.evaluate.plain(x, **attributes)  # type: ignore[attr-defined]
    return x if type(x) is _ndarray else np.asarray(x)


class ViewNode(Node):
    """One view on the tape."""

    __slots__ = ("dtype", "shape", "steps")

    def __init__(self, steps: Sequence[Step], base: np.ndarray[Any, Any], edge: tuple[Node, int]) -> None:
        # as Node.__init__, without the call
        self.name, self.edges, self.order, self.time = steps[-1][0].name, (edge,), next_order(), cells.now
        self.freed, self.hooks, self.types, self.location, self.module = False, None, None, UNKNOWN, ""
        self.steps, self.shape, self.dtype = steps, base.shape, base.dtype

    def pull(self, cotangents: list[Any], tape: Tape, again: bool) -> Sequence[Any]:
        (ct,) = cotangents
        if not again and type(ct) is _ndarray and entry.threads.context.recorder is None:
            found = np.zeros(self.shape, self.dtype)
            place = _shown(found, self.steps)
            if place is found or (place is not None and place.base is found):
                np.copyto(place, ct)
                return (found,)
        blank = np.zeros(self.shape, self.dtype)  # nothing of the value itself is asked for
        _, pullback = subtape(lambda v: [self._bound(v)], [blank])
        return tuple(pullback(cotangents))

    def _bound(self, x: Value) -> Value:
        for primitive, attributes in self.steps:
            x = primitive(x, **attributes)
        return x
