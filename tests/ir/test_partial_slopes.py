"""Derivatives with some of what a rule may be given: one operand that varies, one result that is used.

Both maps are linear, so what each operand and each result gives alone adds up to what all give together; a
rule that takes an absent slope for another, or forgets a zero, does not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.ir.derivative_checks import normal, pull, push
from tests.ir.test_primitive_table import BOTH_WAYS, SMOOTH, smooth_cases
from trilobite.base.dtypes import is_inexact
from trilobite.ir.transforms.backward import backward
from trilobite.ir.transforms.bind import context, deeper
from trilobite.ir.transforms.tape import Leaf, Tape

Array = np.ndarray[Any, Any]


def close(found: Sequence[Any], wanted: Sequence[Any], of: str) -> None:
    for n, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert (a is None) == (b is None), of
        if b is not None:
            size = float(np.abs(b).max(initial=0.0)) + float(np.abs(a).max(initial=0.0))
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * size + 1e-300, err_msg=f"{of}, {n}")


def total(parts: Sequence[Sequence[Any]]) -> list[Any]:
    return [None if column[0] is None else sum(column) for column in zip(*parts, strict=True)]


def pulled_alone(
    fn: Callable[..., Any], operands: Sequence[Array], place: int, cotangents: Sequence[Any]
) -> Any:
    """The slope of one operand, where the others are constants."""
    with deeper(context()) as level:
        tape, leaf = Tape(level), Leaf()
        outs = fn(*(tape.wrap(o, leaf) if k == place else o for k, o in enumerate(operands)))
        outs = list(outs) if isinstance(outs, (tuple, list)) else [outs]
    roots = [(o, ct) for o, ct in zip(outs, cotangents, strict=True) if ct is not None and tape.tracks(o)]
    found = backward(tape, roots)
    return found.get(leaf, np.zeros(operands[place].shape, operands[place].dtype))


def halves(values: Sequence[Any]) -> list[int]:
    return [k for k, value in enumerate(values) if value is not None]


@pytest.mark.parametrize("name", SMOOTH)
def test_operands_that_vary_alone_add_up(name: str) -> None:
    rng = np.random.default_rng(3)
    for fn, operands in smooth_cases(name):
        tangents = [normal(rng, o) if is_inexact(o.dtype) else None for o in operands]
        if len(halves(tangents)) < 2:
            continue
        alone = [
            push(fn, operands, [t if k == one else None for k, t in enumerate(tangents)])[1]
            for one in halves(tangents)
        ]
        close(total(alone), push(fn, operands, tangents)[1], name)


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_results_that_are_used_alone_add_up(name: str) -> None:
    rng = np.random.default_rng(4)
    for fn, operands in smooth_cases(name):
        outs, back = pull(fn, operands)
        cotangents = [normal(rng, o) if is_inexact(o.dtype) else None for o in outs]
        if len(halves(cotangents)) < 2:
            continue
        alone = [
            back([c if k == one else None for k, c in enumerate(cotangents)]) for one in halves(cotangents)
        ]
        close(total(alone), back(cotangents), name)


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_one_operand_that_is_wanted_gets_the_same(name: str) -> None:
    rng = np.random.default_rng(5)
    for fn, operands in smooth_cases(name):
        outs, back = pull(fn, operands)
        cotangents = [normal(rng, o) if is_inexact(o.dtype) else None for o in outs]
        received = back(cotangents)
        wanted = halves(received)
        if len(wanted) < 2:
            continue
        alone = [pulled_alone(fn, operands, k, cotangents) for k in wanted]
        close(alone, [received[k] for k in wanted], name)
