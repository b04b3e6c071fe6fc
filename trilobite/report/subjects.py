"""What a page shows of one run, on any target: figures, lanes of events, tables, roofs, a graph.

A `Subject` is plain data: `as_data` makes of it what the page's script reads (JSON; long rows of numbers as
little-endian arrays in base64). It measures nothing and knows no target.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Lane:
    """One unit in time: events in order, each with a start, a length and the number of its label."""

    name: str
    kind: str  # decides the colour: control, io, move, matrix, vector, kernel
    start: Numbers
    length: Numbers
    label: Numbers

    def as_data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "start": packed(self.start, "<f8"),
            "length": packed(self.length, "<f4"),
            "label": packed(self.label, "<u4"),
        }


@dataclass(frozen=True)
class Table:
    """Rows under a heading; numbers stay numbers, so that the page can sort by them."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""

    def as_data(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "head": list(self.head),
            "rows": [list(r) for r in self.rows],
            "note": self.note,
        }


@dataclass(frozen=True)
class Roofs:
    """Peaks in operations a second, bandwidths in bytes a second, and one point a kernel or layer."""

    peaks: Sequence[tuple[str, float]]
    bandwidths: Sequence[tuple[str, float]]
    points: Sequence[tuple[str, float, float, float]]  # label, operations, bytes, seconds

    def as_data(self) -> dict[str, Any]:
        return {
            "peaks": [list(p) for p in self.peaks],
            "bandwidths": [list(b) for b in self.bandwidths],
            "points": [list(p) for p in self.points],
        }


@dataclass(frozen=True)
class Kernel:
    """One kernel of a network: where it comes from, what it took, and what it is at every level below."""

    name: str
    module: str  # dotted; empty for what belongs to the network itself
    place: str  # the user's line
    time: float  # in the subject's unit
    share: float  # of the whole
    bound: str
    notes: Sequence[tuple[str, str]] = ()  # figures for people
    equations: Sequence[tuple[str, str]] = ()  # text, place
    code: Sequence[tuple[str, str]] = ()  # the name of a level, and the kernel there
    predicted: float = 0.0  # by the model that chose its mapping; 0 where there is none
    joules: float = 0.0

    def as_data(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return found | {name: [list(pair) for pair in found[name]] for name in ("notes", "equations", "code")}


@dataclass(frozen=True)
class Subject:
    """One run of one program on one target."""

    name: str
    target: str
    sentence: str  # what ran, how long, what bounds it
    unit: str  # of the time axis: cycles, or ns
    total: float
    figures: Sequence[tuple[str, str]]
    lanes: Sequence[Lane] = ()
    labels: Sequence[tuple[str, str]] = ()  # a text, and a kind where it is not its lane's
    tables: Sequence[Table] = ()
    roofs: Roofs | None = None
    memory: Sequence[tuple[str, float, float, float]] = ()  # owner, from kernel, to kernel, bytes
    stages: Sequence[dict[str, Any]] = field(default_factory=tuple)  # of the graph, laid out; see graphs.py
    kernels: Sequence[Kernel] = ()
    sources: Mapping[str, str] = field(default_factory=dict)  # the text of the user's lines, by place
    numbers: Mapping[str, float] = field(default_factory=dict)  # what comparisons divide; less is better
    seconds: float = 0.0  # the whole, on any target

    def as_data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "target": self.target,
            "sentence": self.sentence,
            "unit": self.unit,
            "total": self.total,
            "figures": [list(pair) for pair in self.figures],
            "lanes": [lane.as_data() for lane in self.lanes],
            "labels": [list(label) for label in self.labels],
            "tables": [table.as_data() for table in self.tables],
            "roofs": self.roofs.as_data() if self.roofs else None,
            "memory": [list(row) for row in self.memory],
            "stages": list(self.stages),
            "kernels": [kernel.as_data() for kernel in self.kernels],
            "sources": dict(self.sources),
            "numbers": dict(self.numbers),
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Kept:
    """What an earlier page showed of a run, as it stands there."""

    data: dict[str, Any]

    def as_data(self) -> dict[str, Any]:
        return self.data


def packed(values: Numbers, dtype: str) -> str:
    """The numbers' bytes as text."""
    return base64.b64encode(np.ascontiguousarray(values, np.dtype(dtype)).tobytes()).decode()


class Labels:
    """Texts by number, equal ones once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, text: str, kind: str = "") -> int:
        return self._numbers.setdefault((text, kind), len(self._numbers))

    @property
    def texts(self) -> list[tuple[str, str]]:
        return list(self._numbers)
