"""What a tile's copy costs, for many mappings at once: pieces, bytes of whole granules, channels.

Enters: sizes of tiles as arrays, and where a tensor lies. Leaves: for each mapping how many pieces a copy
has, how long they are, how many bytes DRAM moves, and which part of its channels it uses. The rules are those
of `processor/sim/timing/cost.py`, with the average over where in a granule a piece may begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trilobite.processor.machine import Machine

Array = Any  # of NumPy, one entry for each mapping


@dataclass(frozen=True)
class Copy:
    """`own`: cycles of the engine alone; `moved`: bytes that DRAM carries; `spread`: the part of the channels
    that one copy reaches, and `together` that the copies of all cores reach at a time."""

    own: Array
    moved: Array
    spread: Array
    together: Array


def copy_cost(
    machine: Machine,
    axes: Sequence[tuple[Any, int]],
    item: int,
    is_write: bool,
    size: int,
    shifts: Sequence[tuple[Any, Any]] = (),
) -> Copy:
    """Axes innermost first: how many elements (arrays), and bytes from one to the next in DRAM. Axes that lie
    end to end are one piece. `size`: how many mappings. `shifts`: for each dim that is divided among cores,
    into how many parts, and bytes from one core's to the next's."""
    piece = np.full(size, item, np.int64)
    joined = np.ones(size, bool)
    pieces = np.ones(size, np.int64)
    stride = np.zeros(size, np.int64)
    for count, step in axes:
        n = np.broadcast_to(np.asarray(count, np.int64), (size,))
        ends = joined & ((piece == step) | (n == 1))
        stride = np.where(~ends & (n > 1) & (stride == 0), step, stride)
        piece = np.where(ends, piece * n, piece)
        pieces = np.where(ends, pieces, pieces * n)
        joined = ends
    engine = machine.core.io_dma
    own = pieces * -(-piece // engine.bytes_per_cycle)
    moved = pieces * _granules(machine, piece, stride, pieces, is_write)
    spread = channels_of(machine, piece, stride)
    return Copy(own, moved, spread, _together(machine, spread, shifts))


def _together(machine: Machine, spread: Array, shifts: Sequence[tuple[Any, Any]]) -> Array:
    """Cores whose tiles lie whole turns of the channels apart use the same ones."""
    dram, found = machine.dram, spread
    turn = dram.burst_bytes * dram.channels
    for parts, shift in shifts:
        reached = np.clip(np.minimum(parts, -(-parts * (shift % turn) // dram.burst_bytes)), 1, dram.channels)
        found = found * reached
    return np.minimum(found, 1.0)


def _granules(machine: Machine, piece: Array, stride: Array, pieces: Array, is_write: bool) -> Array:
    """Bytes of the granules that a piece touches, on average over its beginnings; a granule written in part
    is read first."""
    granule = machine.dram.granule_bytes
    step = np.gcd(np.gcd(piece, stride), granule)  # pieces begin at multiples of it
    single = pieces == 1
    slack = np.where(single, np.where(piece % granule == 0, 0, granule // 2), granule - step)
    touched = piece + slack
    if is_write:
        touched = touched + np.where(slack > 0, np.where(single, granule, 2 * (granule - step)), 0)
    return np.asarray(np.where(single, -(-piece // granule) * granule if not is_write else touched, touched))


def channels_of(machine: Machine, piece: Array, stride: Array) -> Array:
    """The part of the channels that pieces with this stride lie in: a stride of whole turns stays in those
    that one piece spans."""
    dram = machine.dram
    spanned = np.minimum(-(-piece // dram.burst_bytes), dram.channels)
    whole = (stride > 0) & (stride % dram.burst_bytes == 0)
    turn = np.gcd(np.where(whole, stride // dram.burst_bytes, 1), dram.channels)
    reached = np.minimum(spanned * (dram.channels // turn), dram.channels)
    full = np.where(stride > 0, np.where(whole, reached, dram.channels), dram.channels)
    return np.asarray(full / dram.channels)
