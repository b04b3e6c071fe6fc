"""What translated code notes of tensor instructions: rows of numbers, made into records when asked for.

Enters: rows that `tensor_step` wrote. Leaves: the records that the interpreter would have made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trilobite.processor.isa.formats import Array
from trilobite.processor.sim.record import Record, ScalarRecord, SyncRecord
from trilobite.processor.sim.sites import Site
from trilobite.processor.sim.tensor_step import COUNTS, SCALAR_AT, SCALARS, SITE, SPANS, VALUES


class LoggedSites(Protocol):
    """What is asked of the table of sites. Sites of one kind are the same instruction but for its registers:
    `kinds` gives the first of each site's kind, `form_kinds` the first form of the same kind and sizes."""

    sites: list[Site]
    kinds: Array
    is_waited_for: Array  # by site: whether control waits for it
    form_kinds: list[int]


@dataclass(frozen=True, eq=False)
class Log:
    """Some rows, in the order of execution, and the sites that they name."""

    table: LoggedSites
    rows: Array

    @property
    def sites(self) -> Sequence[Site]:
        return self.table.sites

    def __len__(self) -> int:
        return len(self.rows)

    @staticmethod
    def joined(logs: Sequence[Log]) -> list[Log]:
        """One log for each table that some logs name, with the rows of all."""
        by_table: dict[int, list[Log]] = {}
        for log in logs:
            by_table.setdefault(id(log.table), []).append(log)
        return [Log(own[0].table, np.concatenate([log.rows for log in own])) for own in by_table.values()]

    def records(self) -> list[Record]:
        made: list[Record] = []
        for row in self.rows.tolist():
            if row[SCALARS]:
                reads, writes = (row[SPANS], row[SPANS + 1]), (row[SPANS + 2], row[SPANS + 3])
                counts = row[COUNTS:SPANS]
                made.append(ScalarRecord(row[SCALAR_AT], counts, reads if reads[1] else None,
                                         writes if writes[1] else None))  # fmt: skip
            site = self.sites[row[SITE]]
            if site.queues:
                made.append(SyncRecord(site.place, site.queues))
                continue
            record = site.record(tuple(row[VALUES : VALUES + site.noted]))
            made.append(record)
            if site.is_waited_for:
                made.append(SyncRecord(site.place, (record.queue,)))
        return made
