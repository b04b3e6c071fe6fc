"""Defaults of functions and records, and constants, are those that are kept, in every module of the package.

A default is a promise that no call in a test states. Functions that come or go change nothing here.
"""

from __future__ import annotations

import pytest

from tools.defaults import changed, defaults, kept

LEAST = 0.9  # of what there is, that is kept


@pytest.fixture(scope="module")
def now() -> dict[str, dict[str, str]]:
    return defaults()


def test_defaults_are_as_kept(now: dict[str, dict[str, str]]) -> None:
    found = changed(now, kept())
    assert not found, "\n".join([*found, "if that is meant: python -m tools.defaults"])


def test_most_of_what_there_is_is_kept(now: dict[str, dict[str, str]]) -> None:
    before = kept()
    assert len(now.keys() & before.keys()) >= LEAST * len(now), "run: python -m tools.defaults"
