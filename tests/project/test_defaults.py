"""Defaults of public functions and records are those that are kept, in every module of the package.

A default is a promise that no call in a test states. Functions that come or go change nothing here.
"""

from __future__ import annotations

from tools.defaults import KEPT, defaults

LEAST = 0.9  # of what there is, that is kept


def kept() -> dict[str, dict[str, str]]:
    lines = (line.partition(": ") for line in KEPT.read_text(encoding="utf-8").splitlines())
    return {place: dict(part.split("=", 1) for part in row.split("  ")) for place, _, row in lines}


def test_defaults_are_as_kept() -> None:
    now, before = defaults(), kept()
    changed = [
        f"{place}: {name}={now[place][name]} was {value}"
        for place, row in before.items()
        if place in now
        for name, value in row.items()
        if now[place].get(name, value) != value
    ]
    assert not changed, "\n".join([*changed, "if that is meant: python -m tools.defaults"])


def test_most_of_what_there_is_is_kept() -> None:
    now, before = defaults(), kept()
    assert len(now.keys() & before.keys()) >= LEAST * len(now), "run: python -m tools.defaults"
