"""Wrong operands and settings of sums with products, and of the base class of optimisers: errors of ours."""

from __future__ import annotations

from typing import Any

import pytest

import trilobite as tb


def parameter() -> Any:
    return tb.nn.Parameter(tb.ones(3, 3))


@pytest.mark.parametrize("wrong", [{}, object(), None, "q"])
@pytest.mark.parametrize("name", ["addmm", "addmv", "addr", "addcmul", "addcdiv", "baddbmm", "addbmm"])
def test_operands_that_are_none(name: str, wrong: Any) -> None:
    x = tb.ones(3, 3)
    for place in range(3):
        operands = [x, x, x]
        operands[place] = wrong
        for _ in range(20):  # with and without a plan
            with pytest.raises(tb.errors.TrilobiteError):
                getattr(tb, name)(*operands)


@pytest.mark.parametrize("wrong", [{}, None, "q", object()])
def test_factors_that_are_no_numbers(wrong: Any) -> None:
    x = tb.ones(3, 3)
    for name, word in (("addmm", "alpha"), ("addmm", "beta"), ("addcmul", "value"), ("addcdiv", "value")):
        with pytest.raises(tb.errors.TrilobiteError):
            getattr(tb, name)(x, x, x, **{word: wrong})


@pytest.mark.parametrize("wrong", [None, 3, "q", [1], {1: 2}])
def test_defaults_of_an_optimiser_are_settings(wrong: Any) -> None:
    with pytest.raises(tb.errors.ArgumentError, match="dict of settings"):
        tb.optim.Optimizer([parameter()], wrong)
    with pytest.raises(TypeError):
        tb.optim.Optimizer([parameter()], wrong)
