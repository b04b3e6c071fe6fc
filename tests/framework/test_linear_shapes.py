"""Shapes that do not fit are refused whichever operand is the odd one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ShapeError


def of(*shape: int) -> tb.Tensor:
    return tb.tensor(np.ones(shape, np.float32))


CALLS: list[tuple[str, Any, tuple[int, ...], tuple[int, ...]]] = [
    ("dot", tb.dot, (3,), (2, 3)),
    ("outer", tb.outer, (3,), (2, 3)),
    ("cdist", tb.cdist, (2, 3), (3,)),
    ("matmul", tb.matmul, (), (3,)),
    ("tensordot", lambda a, b: tb.tensordot(a, b, axes=2), (2, 3), (3,)),
    ("tensordot sizes", lambda a, b: tb.tensordot(a, b, axes=1), (2, 3), (4, 5)),
    ("tensordot of sizes", lambda a, b: tb.tensordot(a, b, axes=2), (7, 2, 3), (2, 4, 7)),
    ("tensordot listed sizes", lambda a, b: tb.tensordot(a, b, axes=([0], [0])), (2, 3), (4, 3)),
    ("cdist widths", tb.cdist, (2, 3), (2, 4)),
    ("matmul widths", tb.matmul, (2, 3), (4, 5)),
    ("vecdot", tb.vecdot, (2, 3), (2, 4)),
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("name", "call", "left", "right"), CALLS, ids=[row[0] for row in CALLS])
def test_either_operand_may_be_the_odd_one(
    name: str, call: Any, left: tuple[int, ...], right: tuple[int, ...], turned: bool
) -> None:
    x, y = (of(*right), of(*left)) if turned else (of(*left), of(*right))
    with pytest.raises(ShapeError, match=name.split()[0]) as caught:
        call(x, y)
    assert str(caught.value).startswith(f"{name.split()[0]} "), "told by the operator, in the user's words"


def test_kron_and_cross_agree_with_numpy_in_both_orders() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3)), rng.standard_normal((4, 1))
    for x, y in ((a, b), (b, a)):
        np.testing.assert_allclose(tb.kron(tb.tensor(x), tb.tensor(y)).numpy(), np.kron(x, y))
