"""Cells: the only place where state lives. Reads and writes go through here, so that a recording sees them
all.

A recording turns the first read of an outer cell into an input and a write into an output (`Recorder`).
Functional transforms (grad, jvp, vmap) note written cells, to take their own values out of them again when
they end. A weight that a compiled function reads in another form alone may be put away: its cell brings it
back when somebody looks. Arrays written in place in memory are stamped, so that a tape that kept such an
array for a gradient notices.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.errors import TraceError
from trilobite.base.forks import renewed_in_child
from trilobite.base.locations import UNKNOWN, user_location
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.bind import Traced
from trilobite.native.memory import Memory
from trilobite.native.ownership import EXPOSED, EXPOSED_BASE, is_alone


class Cell:
    """A value that can change. `owner` is the recording it was made in (None outside any); `leaf` is the
    tape's node for a cell whose gradient `backward()` collects; `depth` is the level of the transforms it was
    made in; `keeper` is there while the value is put away, `resting` is the node of a cell that collected
    gradients and may again.
    """

    __slots__ = ("__weakref__", "depth", "keeper", "leaf", "owner", "resting", "value")
    held: Any  # the value, or what stands in for one that is put away: shape and dtype are right
    keeper: _Keeper | None
    resting: Any

    def __init__(self, value: Value) -> None:
        ctx = entry.threads.context
        self.value = value
        self.leaf: Any = None
        self.owner, self.depth = ctx.recorder, ctx.depth


Cell.held = Cell.__dict__["value"]  # one slot by two names: who asks for `held` brings nothing back


def read(cell: Cell) -> Value:
    """The cell's value as the current recording sees it."""
    recorder = entry.threads.context.recorder
    if cell.owner is recorder:
        return cell.value
    if recorder is None:
        raise escaped(cell.held)
    return recorder.read_outer(cell)


def write(cell: Cell, value: Value) -> None:
    """Replace the cell's value as the current recording sees it."""
    ctx = entry.threads.context
    if ctx.writes is not None:
        ctx.writes.append((cell, _before(cell, ctx.recorder)))
    if cell.owner is ctx.recorder:
        cell.value = value
    elif ctx.recorder is None:
        raise escaped(cell.held)
    else:
        ctx.recorder.write_outer(cell, value)


def _before(cell: Cell, recorder: Any) -> Value | None:
    """What a write is about to replace; None if the recording has not written the cell so far."""
    if cell.owner is recorder:
        return cell.value
    return None if recorder is None else recorder.written.get(cell)


def restore(cell: Cell, before: Value | None) -> None:
    """Undo a write."""
    recorder = entry.threads.context.recorder
    if cell.owner is recorder:
        cell.value = before
    elif recorder is not None and before is None:
        recorder.written.pop(cell, None)
    elif recorder is not None:
        recorder.written[cell] = before


def rewrite(cell: Cell, change: Callable[[Value], Value]) -> None:
    """Pass the value last written to a cell through a function: a transform that ends takes its own values
    out.
    """
    recorder = entry.threads.context.recorder
    if cell.owner is recorder:
        cell.value = change(cell.value)
    elif recorder is not None and cell in recorder.written:
        recorder.written[cell] = change(recorder.written[cell])


def escaped(value: Value) -> TraceError:
    return TraceError(
        f"a tensor made while a function was being recorded is used outside of it{_made_at(value)}",
        where=user_location(),
        expected="tensors made inside jit, cond, scan or vmap leave the function as its results",
        remedy="return the tensor, or copy it into a tensor that exists outside: state.copy_(value)",
    )


def _made_at(value: Value) -> str:
    """The line that made a recorded value; nothing for an input."""
    while hasattr(value, "primal"):
        value = value.primal
    equations = getattr(getattr(value, "interpreter", None), "equations", ())
    found = (e.location for e in equations if getattr(value, "var", None) in e.outputs)
    return next((f"; it was made at {at}" for at in found if at is not UNKNOWN), "")


# -- values that are put away ----------------------------------------------------------------------------


class _Away(Cell):
    """A cell whose value lies elsewhere in another form. The first look at the value brings it back."""

    __slots__ = ()

    @property
    def value(self) -> Value:
        with _bringing:
            if type(self) is _Away:
                assert self.keeper is not None
                _settle(self, self.keeper.bring())
            return self.held

    @value.setter
    def value(self, new: Value) -> None:
        with _bringing:
            _settle(self, new)


class _Keeper(NamedTuple):
    who: object
    bring: Callable[[], np.ndarray[Any, Any]]


_bringing = renewed_in_child(threading.RLock())


def _settle(cell: Cell, value: Value) -> None:
    cell.held = value  # first: who sees a plain cell takes what it holds
    cell.__class__ = Cell
    cell.keeper = None


def put_away(
    cell: Cell,
    array: np.ndarray[Any, Any],
    who: object,
    bring: Callable[[], np.ndarray[Any, Any]],
) -> np.ndarray[Any, Any] | None:
    """Let go of a cell's array, which `who` can bring back. Returns what stands in for it; None if another
    thread has written the cell by now.
    """
    with _bringing:
        # In the cell and nowhere else: the keeper knows its cells, and a table of both would hold them for
        # ever.
        cell.keeper = _Keeper(who, bring)
        cell.__class__ = _Away  # from here on, who looks or writes waits
        if cell.held is not array:
            _settle(cell, cell.held)
            return None
        cell.held = np.broadcast_to(np.zeros((), array.dtype), array.shape)
        found: np.ndarray[Any, Any] = cell.held
        return found


def kept_by(cell: Cell) -> object | None:
    """Where the cell's value is put away, if it is."""
    if type(cell) is not _Away:
        return None
    keeper = cell.keeper
    return None if keeper is None else keeper.who


def is_kept_by(cell: Cell, who: object) -> bool:
    """Is the cell's value put away there?"""
    return type(cell) is _Away and kept_by(cell) is who


# -- in-place stamps -----------------------------------------------------------------------------------------

_clock = itertools.count(1)
_stamps: dict[int, int] = {}  # id of the array that owns the memory -> time of its last write in place
_checked: dict[int, int] = {}  # the same for writes that a tape has to know of
now = 0


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that all views of its memory refer to."""
    base = array.base
    return base if isinstance(base, np.ndarray) and type(base) is not Memory else array


def stamp(value: Value, checked: bool = True) -> None:
    """Note that `value` was overwritten at this moment; one that is not `checked` (by `x.data`) is none of
    the tape's business.
    """
    global now
    value = bottom(value)
    now = next(_clock)
    if isinstance(value, np.ndarray):
        owner = _owner(value)
        if id(owner) not in _stamps:
            weakref.finalize(owner, _forget, id(owner))
        _stamps[id(owner)] = now
        if checked:
            _checked[id(owner)] = now
    else:
        value.stamp = now


def _forget(owner: int) -> None:
    _stamps.pop(owner, None)
    _checked.pop(owner, None)


def stamped_after(value: Value, time: int, checked: bool = False) -> bool:
    """Was `value` overwritten after `time`, perhaps by a write that is checked?"""
    value = bottom(value)
    if isinstance(value, np.ndarray):
        stamps = _checked if checked else _stamps
        return bool(stamps) and stamps.get(id(_owner(value)), 0) > time
    return getattr(value, "stamp", 0) > time


# -- memory that is seen from outside ------------------------------------------------------------------------

_exposed: set[int] = set()  # ids of arrays that own memory which somebody outside may write
exposures = 0  # how often one has come to them: as long as none does, what was not exposed still is not


def expose(array: np.ndarray[Any, Any]) -> None:
    """Note that code outside holds this memory: what is derived from it cannot be kept on trust."""
    global exposures
    owner = _owner(array)
    if id(owner) not in _exposed:
        _exposed.add(id(owner))
        exposures += 1
        weakref.finalize(owner, _exposed.discard, id(owner))


_shared: set[int] = set()  # ids of arrays whose memory tensors were made on: it stays theirs


def share_memory(array: np.ndarray[Any, Any]) -> None:
    """Note that a tensor was made on the memory of somebody's array, who expects to see what is written."""
    expose(array)
    owner = _owner(array)
    if id(owner) not in _shared:
        _shared.add(id(owner))
        weakref.finalize(owner, _shared.discard, id(owner))


def replace(cell: Cell, value: Value) -> None:
    """A cell's value after a compiled call: as `write`, but into memory that is shared with an array of
    the user, who looks there.
    """
    old = cell.held
    if not (_shared and type(old) is type(value) is np.ndarray and _is_seen(old, value)):
        write(cell, value)
    elif old is not value:
        np.copyto(old, value)
        stamp(old)


def _is_seen(old: np.ndarray[Any, Any], value: np.ndarray[Any, Any]) -> bool:
    """Is the old memory shared, can it take the value, and does no transform have to undo it?"""
    ctx = entry.threads.context
    fits = (old.shape, old.dtype) == (value.shape, value.dtype)
    return fits and id(_owner(old)) in _shared and ctx.writes is None and ctx.undo is None


def is_exposed(array: np.ndarray[Any, Any], references: int) -> bool:
    """May somebody outside have written this memory since it was last asked? `references` is how many the
    caller knows of: if there are no more, whoever held the memory has let go of it, which is noted.
    """
    owner = _owner(array)
    if id(owner) not in _exposed:
        return False
    if is_alone(owner, references + EXPOSED if owner is array else EXPOSED_BASE):
        _exposed.discard(id(owner))
    return True


def bottom(value: Value) -> Value:
    """The array or recorded value underneath tapes, duals and batches."""
    while isinstance(value, Traced) and hasattr(value, "primal"):
        value = value.primal
    return value
