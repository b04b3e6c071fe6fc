"""Eager and compiled, the same bits."""

from __future__ import annotations

import pytest

import trilobite as tb

from . import networks, plain  # noqa: F401 - they fill the table
from .harness import TARGETS, assert_same_bits, programs, run


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted(programs))
def test_compiled_equals_eager(name: str, target: str) -> None:
    p = programs[name]
    assert_same_bits(run(p, lambda f: tb.jit(f, target=target)), run(p, lambda f: f))
