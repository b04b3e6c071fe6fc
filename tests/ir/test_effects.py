"""Prints and callbacks happen once per run, in order, and survive transforms; routines are known by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivative_checks import batched, pull, push

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, GradientError, IRError, ShapeError
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.primitives.effects import Routine, register_routine, routines
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.transforms.regions import prune
from trilobite.ir.types import TensorType

VECTOR = TensorType((2,), dt.float64)


def printing(x: Any) -> list[Any]:
    table["print"](x, fmt="first {}")
    y = table["mul"](x, x)
    table["print"](y, x, fmt="then {1} gives {0}")
    return [y]


def test_prints_happen_in_order_eager_and_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([1.0, 3.0])
    printing(x)
    eager = capsys.readouterr().out
    assert eager == "first [1. 3.]\nthen [1. 3.] gives [1. 9.]\n"
    graph = record_graph(printing, [VECTOR])
    assert capsys.readouterr().out == ""  # recording prints nothing
    for _ in range(2):
        run(graph, [x])
        assert capsys.readouterr().out == eager


def test_prints_survive_pruning_and_derivatives(capsys: pytest.CaptureFixture[str]) -> None:
    graph = record_graph(printing, [VECTOR])
    assert graph.has_effects
    kept = prune(type(graph)(graph.inputs, graph.equations, graph.inputs))
    assert [e.primitive.name for e in kept.equations] == ["print", "mul", "print"]
    x = np.array([1.0, 3.0])
    _, (t,) = push(printing, [x], [np.ones(2)])
    assert t.tolist() == [2, 6] and capsys.readouterr().out.count("first") == 1
    _, back = pull(printing, [x])
    assert back([np.ones(2)])[0].tolist() == [2, 6] and capsys.readouterr().out.count("first") == 1


def test_a_batch_prints_one_line_per_element(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(6.0).reshape(3, 2)
    batched(lambda v: table["print"](v, np.array(7), fmt="{} {}"), [x], [True], 3)
    assert capsys.readouterr().out == "[0. 1.] 7\n[2. 3.] 7\n[4. 5.] 7\n"


def test_callbacks_run_python_and_keep_their_promise() -> None:
    seen: list[Any] = []

    def fn(x: Any) -> Any:
        seen.append(x.copy())
        return x + 1

    graph = record_graph(lambda x: [table["callback"](x, fn=fn, results=(VECTOR,))[0]], [VECTOR])
    assert not seen
    x = np.array([1.0, 2.0])
    assert run(graph, [x])[0].tolist() == [2, 3] and len(seen) == 1
    both = batched(
        lambda v: table["callback"](v, fn=fn, results=(VECTOR,)), [np.stack([x, x * 2])], [True], 2
    )
    assert both[0].tolist() == [[2, 3], [3, 5]] and len(seen) == 3


@pytest.mark.parametrize(
    "returned, error, message",
    [
        (
            np.zeros(3),
            ShapeError,
            r"result 0 of .*<lambda> is float64\[3\]\n  where: .*\n  expected: f64\[2\]",
        ),
        (
            np.zeros(2, np.float32),
            ShapeError,
            r"result 0 of .* is float32\[2\]\n  where: .*\n  expected: f64\[2\]",
        ),
        (
            (np.zeros(2), np.zeros(2)),
            ArgumentError,
            r"returned 2 values\n  where: .*\n  expected: 1: \[f64\[2\]\]",
        ),
        (None, ArgumentError, r"returned 0 values"),
    ],
)
def test_a_callback_that_breaks_its_promise_is_named(returned: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        table["callback"](np.zeros(2), fn=lambda x: returned, results=(VECTOR,))


def test_callbacks_have_no_derivative() -> None:
    _, back = pull(lambda v: table["callback"](v, fn=lambda x: x, results=(VECTOR,)), [np.zeros(2)])
    with pytest.raises(
        GradientError, match=r"callback has no derivative: Python code outside .* wrap it with custom_vjp"
    ):
        back([np.ones(2)])


def test_routines_are_registered_once_and_asked_for_by_name() -> None:
    name = "test.only_forward"
    if name not in routines:
        register_routine(Routine(name, type=lambda x, config: [x], evaluate=lambda x, config: [x * 2]))
    assert table["custom_call"](np.ones(2), name=name)[0].tolist() == [2, 2]
    with pytest.raises(ArgumentError, match=r"there are two routines named 'test\.only_forward'"):
        register_routine(routines[name])
    with pytest.raises(
        IRError,
        match=r"custom_call of 'nobody', which is not registered\n  where: .*\n  expected: .*\n  remedy: "
        r"import the module",
    ):
        table["custom_call"](np.ones(2), name="nobody")
    with pytest.raises(
        IRError,
        match=r"the routine 'test.only_forward' states no jvp rule\n  where: .*\n  remedy: give Routine\(",
    ):
        push(lambda v: table["custom_call"](v, name=name), [np.ones(2)], [np.ones(2)])
