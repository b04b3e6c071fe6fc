"""Constants as what they repeat: one number, a vector along one axis, or nothing that helps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite.compiler.graph.passes.integers.forms import Constants
from trilobite.compiler.tools import level_text
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import type_of

V = np.asarray([1.0, 2.0, 5.0])
EACH: dict[str, tuple[Any, Any, Any]] = {  # the constant, what it repeats, along which axis
    "a number": (np.full((2, 3, 4), 7.0), 7.0, None),
    "one element": (np.full((1, 1), 7.0), 7.0, None),
    "along the last": (np.broadcast_to(V, (2, 4, 3)).copy(), V, 2),
    "along the middle": (np.broadcast_to(V[:, None], (2, 3, 4)).copy(), V, 1),
    "along the first": (np.broadcast_to(V[:, None], (3, 4)).copy(), V, 0),
    "a vector": (V, V, 0),
    "of two axes": (np.arange(6.0).reshape(2, 3), None, None),
    "of three axes": (np.arange(24.0).reshape(2, 3, 4), None, None),
    "of two of three": (np.broadcast_to(np.arange(6.0).reshape(2, 1, 3), (2, 4, 3)).copy(), None, None),
    "nothing": (np.zeros((0, 3)), None, None),
}


@pytest.mark.parametrize("name", EACH)
def test_what_a_constant_repeats(name: str) -> None:
    array, values, axis = EACH[name]
    graph = record_graph(lambda x: [table["add"](x, array)], [type_of(array)], "f")
    (made,) = (e for e in graph.equations if e.primitive.name == "constant")
    found = Constants(graph).repeated(made.outputs[0])
    if values is None:
        assert found is None
        return
    assert found is not None
    np.testing.assert_array_equal(found[0], values)
    assert found[1] == axis
    assert Constants(graph).repeated(graph.inputs[0]) is None


@pytest.mark.parametrize(("shape", "rows"), [((60_000,), False), ((40, 3_000), True)])
def test_points_that_may_meet_are_written_in_order(shape: tuple[int, ...], rows: bool) -> None:
    """Elements at places that a run decides are no strips to write side by side; parts of rows are."""
    x = np.zeros((50, *shape[1:]))
    at, updates = np.zeros((shape[0], 1), np.int64), np.ones(shape)

    def body(*values: Any) -> Any:
        return [table["scatter"](*values, axes=(0,), kind="add")]

    graph = record_graph(body, [type_of(v) for v in (x, at, updates)], "scattered")
    loops = level_text(graph, emit="loops")
    written = loops[loops.rindex("scatter") :] if "scatter" in loops else loops
    assert ("parallel" in written) == rows
