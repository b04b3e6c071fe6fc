"""The log of translated code as rows of T1, without making records.

Enters: tables that are being made, and a log. Leaves: a row (kind, argument, queue, footprint) for each
record that the log stands for. Executions of one instruction that cost the same are looked at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trilobite.processor.isa.address import CORE_SHIFT, NUMBERS, SPACE_SHIFT
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import QUEUES, Region
from trilobite.processor.sim.log import Log
from trilobite.processor.sim.record import CoreTrace
from trilobite.processor.sim.sites import Form, Site, marked_field
from trilobite.processor.sim.tensor_step import BY_CYCLE, COUNTS, SCALARS, SINGLE, SITE, SPANS, VALUES
from trilobite.processor.sim.timing.cost import DRAM_SPACES
from trilobite.processor.sim.timing.ranges import bounds, is_dense
from trilobite.processor.sim.timing.state import SCALAR, SYNC, TENSOR

if TYPE_CHECKING:
    from trilobite.processor.sim.timing.tables import Tables

QUEUE_NUMBER = {name: number for number, name in enumerate(QUEUES)}
IS_FAR = np.isin(np.arange(256), [NUMBERS[space] for space in DRAM_SPACES])  # by the number of a space
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd: the golden ratio in 64 bits


def rows_of_logs(tables: Tables, logs: Sequence[Log], core: CoreTrace) -> list[Array]:
    """Rows of T1 for each of the logs, which are looked at together; all of cores that pay what this pays."""
    made: list[Array] = [np.zeros((0, 4), np.int64)] * len(logs)
    by_table: dict[int, list[int]] = {}
    for number, log in enumerate(logs):
        by_table.setdefault(id(log.table), []).append(number)
    for numbers in by_table.values():
        whole = Log(logs[numbers[0]].table, np.concatenate([logs[n].rows for n in numbers]))
        rows, ends = log_rows(tables, whole, core)
        cuts = np.cumsum([len(logs[n].rows) for n in numbers])
        first = 0
        for number, cut in zip(numbers, cuts.tolist(), strict=True):
            last = int(ends[cut - 1]) if cut else 0
            made[number], first = rows[first:last], last
    return made


def log_rows(tables: Tables, log: Log, core: CoreTrace) -> tuple[Array, Array]:
    """Each row of the log is a tensor record, with a scalar record before it where scalar work was done.
    Gives the rows, and for each of the log where those behind it begin."""
    rows = log.rows
    is_led = rows[:, SCALARS] > 0
    is_followed = log.table.is_waited_for[rows[:, SITE]]
    places = np.arange(len(rows)) + np.cumsum(is_led) + np.cumsum(is_followed) - is_followed
    made = np.empty((len(rows) + int(is_led.sum() + is_followed.sum()), 4), np.int64)
    made[places[is_led] - 1] = _scalars(tables, rows[is_led])
    for number, chosen in by_kind(log):
        made[places[chosen]] = _tensors(tables, log, number, rows[chosen], core)
    behind = places[is_followed]
    words = made[behind, 2]  # the one queue that control waits for
    made[behind + 1] = np.stack([np.full_like(words, SYNC), words, 0 * words, 0 * words - 1], axis=1)
    return made, places + is_followed + 1


def by_kind(log: Log) -> Iterator[tuple[int, Array]]:
    """Sites of one kind are looked at together: the first of them, and the rows of all."""
    kinds = log.table.kinds[log.rows[:, SITE]].astype(
        np.min_scalar_type(len(log.sites))
    )  # sorted by counting
    order = np.argsort(kinds, kind="stable")
    ends = np.cumsum(np.bincount(kinds, minlength=len(log.sites)))
    for number in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
        yield number, order[ends[number - 1] if number else 0 : ends[number]]


def by_form(log: Log, values: Array) -> Iterator[tuple[int, Array]]:
    """Executions with the same sizes, whichever site they are of: the first form with these, and its rows."""
    forms = np.array(log.table.form_kinds)[values[:, 0]]
    for form in np.unique(forms).tolist():
        yield form, np.flatnonzero(forms == form)


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
    values = rows[:, VALUES : VALUES + site.noted]
    if not site.is_formed:
        return _vectors(tables, site, values, core)
    made = np.empty((len(rows), 4), np.int64)
    for form, chosen in by_form(log, values):
        made[chosen] = _formed(tables, site, site.forms[form], values[chosen], core)
    return made


def _vectors(tables: Tables, site: Site, values: Array, core: CoreTrace) -> Array:
    words = np.array(site.regions)
    sizes, addresses = vector_operands(site, values)
    made = _costs(tables, site, values, np.hstack([sizes, *places_of(tables.period, addresses)]), core)
    if tables.is_ranges:
        lengths = _elements(site.names, words, values) * words[:, 4]
        made[:, 3] = _feet(tables, addresses, addresses + lengths, site.reads)
    return made


def vector_operands(site: Site, values: Array) -> tuple[Array, Array]:
    """Sizes, and where every region begins."""
    words = np.array(site.regions)
    registers = np.hstack([values, np.zeros((len(values), 1), np.int64)])  # constants lie behind a zero
    addresses = registers[:, np.minimum(words[:, 0], values.shape[1])] + words[:, 1]
    return values[:, [at for at, name in enumerate(site.names) if name in ("n", "m")]], addresses


def form_addresses(site: Site, form: Form, values: Array) -> Array:
    """Where every region begins."""
    marked = [marked_field(region) for region in form.regions]
    columns = [1 + site.addresses.index(field) for field, _ in marked]
    found: Array = values[:, columns] + np.array([offset for _, offset in marked])
    return found


def _formed(tables: Tables, site: Site, form: Form, values: Array, core: CoreTrace) -> Array:
    """Executions with the same sizes differ by their addresses alone."""
    addresses = form_addresses(site, form, values)
    made = _costs(tables, site, values, np.hstack(places_of(tables.period, addresses)), core, form)
    if tables.is_ranges:
        reach = np.array([bounds(region) for region in form.regions]).T
        low, high = (addresses + (ends - [region.address for region in form.regions]) for ends in reach)
        made[:, 3] = _feet(tables, low, high, len(form.reads), form.regions, addresses)
    return made


def places_of(period: int, addresses: Array) -> tuple[Array, Array]:
    """What a cost depends on of where operands lie: their memories, and in DRAM the place within a
    period of the channels.
    """
    is_far = IS_FAR[addresses >> SPACE_SHIFT & 0xFF]
    return addresses >> CORE_SHIFT, np.where(is_far, addresses % period, 0)


def _costs(
    tables: Tables, site: Site, values: Array, keys: Array, core: CoreTrace, form: Form | None = None
) -> Array:
    firsts, which = distinct(keys)
    costs = []
    prices, who = site.prices(tables.machine), tables.who(core)
    for key, row in zip(map(tuple, keys[firsts].tolist()), values[firsts].tolist(), strict=True):
        known = prices.get((form, who, key))
        if known is None:
            record = site.record(tuple(row))
            number = tables.cost(record, core)
            known = prices[form, who, key] = (tables.costs[number], QUEUE_NUMBER[record.queue])
        costs.append((TENSOR, tables.number(known[0]), known[1], -1))
    made: Array = np.array(costs, np.int64)[which]
    return made


def sync_word(queues: Sequence[str]) -> int:
    """The queues that control waits for, in their order, three bits each."""
    return sum(QUEUE_NUMBER[queue] << 3 * place for place, queue in enumerate(queues))


def _elements(names: list[str], words: Array, values: Array) -> Array:
    """Elements of each region: n, m or one."""
    counts = np.ones((len(values), len(words)), np.int64)
    for region, counted in enumerate(words[:, 3].tolist()):
        if counted != SINGLE:
            counts[:, region] = values[:, names.index("m" if counted == BY_CYCLE else "n")]
    return counts


def _feet(
    tables: Tables,
    low: Array,
    high: Array,
    reads: int,
    regions: Sequence[Region] = (),
    at: Array | None = None,
) -> Array:
    """Footprints of executions; those regions that are written come last. Some regions may have holes."""
    count, width = low.shape
    is_solid = np.array([is_dense(region) for region in regions] or [True] * width)
    spans = np.stack([low, high, np.broadcast_to(is_solid, low.shape)], axis=2).reshape(-1, 3)
    first = tables.spans.extend(spans)
    if at is not None and not is_solid.all():
        tables.remember_holes(first, regions, at)
    firsts = first + width * np.arange(count)
    feet = np.stack([firsts, firsts + reads, firsts + width], axis=1)
    return tables.feet.extend(feet) + np.arange(count)


def distinct(keys: Array) -> tuple[Array, Array]:
    """Where each distinct row is first met, and which one every row is. By a hash, which is then verified."""
    if (keys == keys[0]).all():
        return np.zeros(1, np.int64), np.zeros(len(keys), np.int64)
    mixed = np.zeros(len(keys), np.uint64)
    for column in keys.T.astype(np.uint64, copy=False):
        mixed = (mixed ^ column) * MIX
        mixed ^= mixed >> np.uint64(29)
    _, firsts, which = np.unique(mixed, return_index=True, return_inverse=True)
    if (keys[firsts][which] != keys).any():
        _, firsts, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return firsts, which.reshape(-1)
