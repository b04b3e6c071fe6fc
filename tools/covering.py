"""Which test executes which line? A plugin of pytest, and the map that it leaves for the campaign of mutants.

    python -m pytest -p tools.covering -n 2        # as usual, slower; leaves .mutants/lines/*.sqlite
    Covering.read().tests_of("trilobite/ir/graph.py", 12, 14)       # the quickest first

Enters: a run of the suite. Leaves: for each line of the package the tests during which it was executed, and
the seconds that each test took. A line that no test executed by itself (one that runs when its module is
imported, or only in processes which tests start) has the tests that execute anything else of its file.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import coverage

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".mutants" / "lines"
_recorder: list[coverage.Coverage] = []
_seconds: dict[str, float] = {}


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        _start()


def _start() -> None:
    import coverage

    PLACE.mkdir(parents=True, exist_ok=True)
    recorder = coverage.Coverage(
        data_file=str(PLACE / f"{os.getpid()}.sqlite"), source=[str(ROOT / "trilobite")], config_file=False
    )
    recorder.start()
    _recorder.append(recorder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    for recorder in _recorder:
        if sys.gettrace() is None:  # a test of debuggers took the tracer away
            recorder.stop()
            recorder.start()
        recorder.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        for recorder in _recorder:
            recorder.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish() -> None:
    for recorder in _recorder:
        recorder.stop()
        recorder.save()
        (PLACE / f"{os.getpid()}.json").write_text(json.dumps(_seconds), encoding="utf-8")


@dataclass(frozen=True)
class Covering:
    """What runs of the suite left behind."""

    files: tuple[Path, ...]
    seconds: dict[str, float]

    @classmethod
    def read(cls, place: Path = PLACE) -> Covering:
        seconds: dict[str, float] = {}
        for file in sorted(place.glob("*.json")):
            seconds.update(json.loads(file.read_text(encoding="utf-8")))
        return cls(tuple(sorted(place.glob("*.sqlite"))), seconds)

    def tests_of(self, path: str, first: int, last: int) -> list[str]:
        """The tests that execute a line between the two, or else any of the file; the quickest first."""
        lines, others = self._met(path, first, last)
        return sorted(lines or others, key=lambda test: (self.seconds.get(test, 0.0), test))

    def ran(self, path: str, first: int, last: int) -> bool:
        """Whether a test executed a line between the two by itself."""
        return bool(self._met(path, first, last)[0])

    def _met(self, path: str, first: int, last: int) -> tuple[set[str], set[str]]:
        """The tests that execute the lines, and those that execute others of the file."""
        lines: set[str] = set()
        others: set[str] = set()
        for file in self.files:
            for test, bits in _rows(file, str(ROOT / path)):
                (lines if any(_holds(bits, line) for line in range(first, last + 1)) else others).add(test)
        return lines, others


def _rows(file: Path, path: str) -> list[tuple[str, bytes]]:
    query = """select context, numbits from line_bits join file on file.id = file_id
               join context on context.id = context_id where path = ? and context != ''"""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return connection.execute(query, (path,)).fetchall()


def _holds(bits: bytes, line: int) -> bool:
    """Bit n of byte m is line 8 m + n, as coverage keeps them."""
    return line // 8 < len(bits) and bool(bits[line // 8] >> line % 8 & 1)
