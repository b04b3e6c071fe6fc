"""The log of translated code as rows of T1, without making records.

Enters: tables that are being made, and a log. Leaves: a row (kind, argument, queue, footprint) for each
record that the log stands for. Executions of one instruction that cost the same are looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trilobite.processor.isa.address import CORE_SHIFT
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import QUEUES
from trilobite.processor.sim.log import Log
from trilobite.processor.sim.record import CoreTrace
from trilobite.processor.sim.tensor_step import COUNTS, SCALARS, SITE, SPANS, VALUES
from trilobite.processor.sim.timing.state import SCALAR, SYNC, TENSOR

if TYPE_CHECKING:
    from trilobite.processor.sim.timing.tables import Tables

QUEUE_NUMBER = {name: number for number, name in enumerate(QUEUES)}
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd: the golden ratio in 64 bits


def log_rows(tables: Tables, log: Log, core: CoreTrace) -> Array:
    """Each row of the log is a tensor record, with a scalar record before it where scalar work was done."""
    rows = log.rows
    is_led = rows[:, SCALARS] > 0
    places = np.arange(len(rows)) + np.cumsum(is_led)
    made = np.empty((len(rows) + int(is_led.sum()), 4), np.int64)
    made[places[is_led] - 1] = _scalars(tables, rows[is_led])
    order = np.argsort(rows[:, SITE], kind="stable")
    numbers, firsts = np.unique(rows[order, SITE], return_index=True)
    for number, chosen in zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True):
        made[places[chosen]] = _tensors(tables, log, number, rows[chosen], core)
    return made


def _scalars(tables: Tables, rows: Array) -> Array:
    made = np.zeros((len(rows), 4), np.int64)
    made[:, 0] = SCALAR
    made[:, 1] = rows[:, COUNTS:SPANS] @ np.array(tables.latencies)
    made[:, 3] = -1
    spans = rows[:, SPANS:VALUES]
    if tables.is_ranges:
        touching = np.flatnonzero(spans[:, 1] | spans[:, 3])
        for row, (read_low, read_high, write_low, write_high) in zip(
            touching.tolist(), spans[touching].tolist(), strict=True
        ):
            reads, writes = (read_low, read_high), (write_low, write_high)
            made[row, 3] = tables.span_foot(reads if read_high else None, writes if write_high else None)
    return made


def _tensors(tables: Tables, log: Log, number: int, rows: Array, core: CoreTrace) -> Array:
    site = log.sites[number]
    if site.queues:
        return np.tile([SYNC, sync_word(site.queues), 0, -1], (len(rows), 1))
    words = np.array(site.regions)
    values = rows[:, VALUES : VALUES + len(site.names)]
    addresses = values[:, words[:, 0]] + words[:, 1]
    sizes = values[:, [at for at, name in enumerate(site.names) if name in ("n", "m")]]
    firsts, which = _distinct(np.hstack([sizes, addresses >> CORE_SHIFT, addresses % tables.turn]))
    costs = []
    for row in values[firsts].tolist():
        record = site.record(tuple(row))
        costs.append((TENSOR, tables.cost(record, core), QUEUE_NUMBER[record.queue], -1))
    made: Array = np.array(costs, np.int64)[which]
    if tables.is_ranges:
        made[:, 3] = _feet(tables, addresses, _bytes(site.names, words, values) * site.element)
    return made


def sync_word(queues: Sequence[str]) -> int:
    """The queues that control waits for, in their order, three bits each."""
    return sum(QUEUE_NUMBER[queue] << 3 * place for place, queue in enumerate(queues))


def _bytes(names: list[str], words: Array, values: Array) -> Array:
    """Elements of each region: n, or m where the region is read in a cycle."""
    counts = np.repeat(values[:, [names.index("n")]], len(words), axis=1)
    for region in np.flatnonzero(words[:, 3]):
        counts[:, region] = values[:, names.index("m")]
    return counts


def _feet(tables: Tables, addresses: Array, sizes: Array) -> Array:
    """Footprints of executions without holes; the last region is the one that is written."""
    count, regions = addresses.shape
    spans = np.stack([addresses, addresses + sizes, np.ones_like(addresses)], axis=2).reshape(-1, 3)
    first = tables.spans.extend(spans) + regions * np.arange(count)
    return tables.feet.extend(np.stack([first, first + regions - 1, first + regions], axis=1)) + np.arange(
        count
    )


def _distinct(keys: Array) -> tuple[Array, Array]:
    """Where each distinct row is first met, and which one every row is. By a hash, which is then verified."""
    mixed = np.zeros(len(keys), np.uint64)
    for column in keys.T.astype(np.uint64, copy=False):
        mixed = (mixed ^ column) * MIX
        mixed ^= mixed >> np.uint64(29)
    _, firsts, which = np.unique(mixed, return_index=True, return_inverse=True)
    if (keys[firsts][which] != keys).any():
        _, firsts, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return firsts, which.reshape(-1)
