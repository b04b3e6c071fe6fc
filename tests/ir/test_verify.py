"""The verifier: good graphs pass, each way of being wrong is named with its equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from random_graphs import graphs

from trilobite.base import dtypes as dt
from trilobite.base.errors import IRError
from trilobite.base.locations import Location
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import Primitive, table
from trilobite.ir.text import walk
from trilobite.ir.types import TensorType, dim
from trilobite.ir.verify import verify

T = TensorType((3,), dt.float32)
WIDE = TensorType((4,), dt.float32)


def eq(primitive: str, inputs: list[Var], outputs: list[Var], **attributes: Any) -> Equation:
    return Equation(table[primitive], tuple(inputs), attributes, tuple(outputs), Location("model.py", 7, "f"))


@given(graphs)
def test_recorded_graphs_are_well_formed(g: Graph) -> None:
    verify(g)


@given(graphs)
def test_a_dropped_equation_is_noticed(g: Graph) -> None:
    """Unless nobody read its results."""
    for i, e in enumerate(g.equations):
        rest = [*g.equations[:i], *g.equations[i + 1 :]]
        used = {v for other in rest for v in other.inputs} | set(g.outputs)
        broken = Graph(g.inputs, rest, g.outputs, g.name)
        if used & set(e.outputs):
            with pytest.raises(IRError, match="is used before it is defined"):
                verify(broken)
        else:
            verify(broken)


def check(g: Graph, message: str) -> None:
    with pytest.raises(IRError, match=message):
        verify(g)


def test_use_before_definition() -> None:
    x, y, z = Var(T), Var(T), Var(T)
    check(
        Graph([x], [eq("neg", [z], [y]), eq("neg", [x], [z])], [y], "main"),
        r"operand 0 is used before it is defined\n  where: equation 0 \(neg\) of graph main, model.py:7 in f",
    )
    check(Graph([x], [], [y], "main"), "output 0 is used before it is defined\n  where: graph main")


def test_second_definition() -> None:
    x, y = Var(T), Var(T)
    check(
        Graph([x], [eq("neg", [x], [y]), eq("exp", [x], [y])], [y]),
        r"output 0 is defined a second time\n  where: equation 1",
    )
    check(Graph([x], [eq("neg", [x], [x])], [x]), "output 0 is defined a second time")
    check(Graph([x, x], [], [x]), "input 1 is the same variable as an earlier one")


def test_types_that_no_rule_infers() -> None:
    x, y, w = Var(T), Var(WIDE), Var(WIDE)
    check(
        Graph([x], [eq("neg", [x], [y])], [y]),
        r"the outputs are f32\[4\]\n  where: equation 0 .*\n  expected: f32\[3\]",
    )
    check(
        Graph([x, w], [eq("add", [x, w], [y])], [y]),
        "the type rule refuses it: add: operands .* differ in shape",
    )
    check(Graph([x], [eq("neg", [x], [])], []), r"the outputs are none\n  where: .*\n  expected: f32\[3\]")
    check(
        Graph([x], [eq("reshape", [x], [y])], [y]), "operands or attributes do not fit the primitive: .*shape"
    )
    check(
        Graph([x], [eq("neg", [x, x], [Var(T)])], []),
        "the type rule refuses it: neg of 2 operands\n  where: .*\n  expected: 1",
    )


def test_attributes_that_could_change() -> None:
    x, y = Var(T), Var(T)
    check(
        Graph([x], [eq("reshape", [x], [y], shape=[3])], [y]),
        r"the attribute shape is a list, which is not hashable\n  where: equation 0.*\n  expected: immutable "
        r"values: tuples",
    )
    check(Graph([], [eq("constant", [], [y], value=np.ones(3))], [y]), "the attribute value is a ndarray")


def test_regions_that_look_outside() -> None:
    x, y, inner = Var(T), Var(T), Var(T)
    region = Graph([inner], [], [x], "body")
    check(
        Graph([x], [eq("call", [x], [y], graph=region, name="f")], [y], "main"),
        r"output 0 is a variable of graph main\n  where: graph body\n  expected: a region uses its own "
        r"variables only",
    )
    later = Graph([inner], [eq("add", [inner, y], [Var(T)])], [inner], "body")
    check(
        Graph([x], [eq("call", [x], [y], graph=later, name="f")], [y], "main"),
        "operand 1 is a variable of graph main",
    )


def test_sizes_that_no_input_decides() -> None:
    n, m = dim("n", max=8), dim("m", max=8)
    x, y = Var(TensorType((n,), dt.float32)), Var(TensorType((m,), dt.float32))
    check(
        Graph([x], [eq("full", [], [y], shape=(m,), dtype=dt.float32, value=0.0)], [y], "main"),
        r"no input of graph main decides the size m\n  where: equation 0 \(full\)",
    )


def test_primitives_outside_of_the_table() -> None:
    impostor = Primitive.__new__(Primitive)
    impostor.name = "neg"
    x, y = Var(T), Var(T)
    check(Graph([x], [Equation(impostor, (x,), {}, (y,))], [y]), "'neg' is not a primitive of the table")


def test_walk_visits_every_graph_once_outer_first() -> None:
    x, inner = Var(T), Var(T)
    leaf = Graph([inner], [], [inner], "leaf")
    outs = [Var(T) for _ in range(2)]
    g = Graph(
        [x],
        [eq("call", [x], [outs[0]], graph=leaf, name="a"), eq("call", [x], [outs[1]], graph=leaf, name="b")],
        outs,
        "top",
    )
    assert [h.name for h in walk(g)] == ["top", "leaf", "leaf"]
