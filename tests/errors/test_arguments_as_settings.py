"""A number given to a compiled function as an axis, a size or an order: the error says how to give it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import trilobite as tb
from trilobite.base.errors import TraceError

X = tb.ones((3, 4))
USES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "sum": (lambda x, n: tb.sum(x, axis=n), 0),
    "cumsum": (lambda x, n: tb.cumsum(x, n), 0),
    "cross": (lambda x, n: tb.cross(x[:, :3], x[:, :3], n), 0),
    "irfftn": (lambda x, n: tb.fft.irfftn(x, dim=n), (1,)),
    "matrix_power": (lambda x, n: tb.linalg.matrix_power(x[:, :3], n), 2),
    "vector_norm": (lambda x, n: tb.linalg.vector_norm(x, ord=n), 2),
    "diff": (lambda x, n: tb.diff(x, n), 1),
    "an array as an axis": (lambda x, n: tb.sum(x, axis=n), tb.tensor(0)),
    "an array as a count": (lambda x, n: tb.linspace(0.0, 1.0, n), tb.tensor(3)),
}


@pytest.mark.parametrize("name", USES)
def test_the_error_names_static_arguments(name: str) -> None:
    fn, number = USES[name]
    with pytest.raises(
        TraceError, match="inside jit, cond or scan, where only a run knows its value"
    ) as error:
        tb.jit(fn)(X, number)
    assert "static_argnums" in str(error.value) and "object at" not in str(error.value)


def test_static_arguments_are_numbers() -> None:
    assert tb.jit(lambda x, n: tb.cumsum(x, n), static_argnums=1)(X, 0)[-1].tolist() == [3.0] * 4
