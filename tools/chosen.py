"""A plugin of pytest that runs the tests of a list, in its order, and notes the first that fails.

Enters: `CHOSEN_TESTS`, a file of names, one a line (a file or a folder chooses all of it), and
`FIRST_FAILURE`, where to note. Names that are not there are passed over: parameters of tests come and go.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = Path(os.environ["CHOSEN_TESTS"]).read_text(encoding="utf-8").split("\n")
    places = {name: place for place, name in enumerate(names)}
    whole = tuple(name for name in names if "::" not in name)
    chosen = [item for item in items if item.nodeid in places or (whole and item.nodeid.startswith(whole))]
    kept = {id(item) for item in chosen}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = sorted(chosen, key=lambda item: places.get(item.nodeid, len(names)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _note(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _note(report.nodeid)


def _note(name: str) -> None:
    place = Path(os.environ["FIRST_FAILURE"])
    if not place.exists():
        place.write_text(name, encoding="utf-8")
