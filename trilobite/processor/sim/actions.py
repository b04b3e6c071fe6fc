"""What a launch did, counted: equal executions once, with their number.

Enters: traces of cores. Leaves: tensor records with how often they were met, and counts of scalar work.
Records of one group differ at most in where their operands lie within a memory; in DRAM they begin at the
same place of a granule. Logs of translated code are counted without making their records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from trilobite.processor.isa.formats import Array
from trilobite.processor.sim.log import Log
from trilobite.processor.sim.record import CoreTrace, Record, ScalarRecord, TensorRecord
from trilobite.processor.sim.sites import Site
from trilobite.processor.sim.tensor_step import COUNTS, SPANS, VALUES
from trilobite.processor.sim.timing.log_rows import (
    by_form,
    by_kind,
    distinct,
    form_addresses,
    places_of,
    vector_operands,
)

Counted = tuple[TensorRecord, int]


def tensor_actions(cores: Sequence[CoreTrace], period: int) -> Iterator[Counted]:
    """Tensor records and how often each was met; addresses in DRAM matter modulo `period`."""
    logs, records = _parts(cores)
    for log in Log.joined(logs):
        yield from _logged(log, period)
    yield from _listed(records)


def scalar_actions(cores: Sequence[CoreTrace]) -> int:
    """Scalar instructions, as energy counts them."""
    logs, records = _parts(cores)
    counted = sum(int(log.rows[:, COUNTS:SPANS].sum()) for log in logs)
    return counted + sum(sum(record.counts) for record in records if isinstance(record, ScalarRecord))


def _parts(cores: Sequence[CoreTrace]) -> tuple[list[Log], list[Record]]:
    """Logs, and the records of all other parts."""
    parts = [part for core in cores for part in core.parts]
    others = (
        part if isinstance(part, list) else part.records() for part in parts if not isinstance(part, Log)
    )
    return [part for part in parts if isinstance(part, Log)], list(chain.from_iterable(others))


def _listed(records: list[Record]) -> Iterator[Counted]:
    tensors = {id(record): record for record in records if isinstance(record, TensorRecord)}
    counts = Counter(id(record) for record in records)
    return ((record, counts[key]) for key, record in tensors.items())


def _logged(log: Log, period: int) -> Iterator[Counted]:
    for number, chosen in by_kind(log):
        site = log.sites[number]
        if site.queues:
            continue
        values = log.rows[chosen][:, VALUES : VALUES + site.noted]
        if not site.is_formed:
            sizes, addresses = vector_operands(site, values)
            yield from _grouped(site, values, np.hstack([sizes, *places_of(period, addresses)]))
            continue
        for form, same in by_form(log, values):
            addresses = form_addresses(site, site.forms[form], values[same])
            yield from _grouped(site, values[same], np.hstack(places_of(period, addresses)))


def _grouped(site: Site, values: Array, keys: Array) -> Iterator[Counted]:
    firsts, which = distinct(keys)
    counts = np.bincount(which, minlength=len(firsts))
    for row, count in zip(values[firsts].tolist(), counts.tolist(), strict=True):
        yield site.record(tuple(row)), count
