"""Costs, energies, roofs and areas are those that were kept (`kept_figures.py`)."""

from __future__ import annotations

import pytest

from tests.processor.kept_figures import figures, kept, machines, records

MACHINES = machines()
TABLES = kept()


@pytest.fixture(scope="module")
def rows() -> list:
    return records()


@pytest.mark.parametrize("name", MACHINES)
def test_figures_are_those_kept(name: str, rows: list) -> None:
    found, wanted = figures(name, MACHINES[name], rows), TABLES[name]
    moved = [what for what in found if found[what] != wanted.get(what)]
    assert not moved and len(found) == len(wanted), (
        f"{len(moved)} figures of {name} moved, {moved[:5]} among them; "
        "if it is meant: python -m tests.processor.kept_figures"
    )
