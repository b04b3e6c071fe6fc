"""Defaults of layers, functions, optimisers and schedules are PyTorch's.

`torch_defaults.json` has what the signatures of PyTorch 2.13.0 say, of every parameter that has a default
here, too. A default that is another number gives another network without a word.
"""

from __future__ import annotations

import inspect
import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import trilobite as tb

TABLE: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("torch_defaults.json").read_text())


@pytest.mark.parametrize("name", TABLE)
def test_defaults_are_those_that_people_know(name: str) -> None:
    parameters = inspect.signature(attrgetter(name)(tb)).parameters
    found = {parameter: parameters[parameter].default for parameter in TABLE[name]}
    wanted = TABLE[name]
    assert {p: list(v) if isinstance(v, tuple) else v for p, v in found.items()} == wanted
    assert [isinstance(v, bool) for v in found.values()] == [isinstance(v, bool) for v in wanted.values()]


def test_the_table_is_long() -> None:
    assert len(TABLE) > 200
