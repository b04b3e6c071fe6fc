"""The text form: what people read is what parse gives back, and what cannot be read is refused by line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from random_graphs import graphs, odd_graphs

from trilobite.base import dtypes as dt
from trilobite.base.errors import IRError
from trilobite.base.locations import Location
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.text import host_functions, parse, show
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType, dim
from trilobite.ir.verify import verify

F32 = TensorType((3,), dt.float32)
HERE = Location("/home/me/model.py", 12, "forward")


def example() -> Graph:
    n = dim("n", max=512)
    x, b = Var(TensorType((n, 3), dt.float32)), Var(F32)
    wide, out = Var(TensorType((n, 3), dt.float32)), Var(TensorType((n, 3), dt.float32))
    equations = [
        Equation(table["broadcast"], (b,), {"shape": (n, 3), "axes": (1,)}, (wide,), HERE),
        Equation(table["add"], (x, wide), {}, (out,), HERE._replace(line=13)),
    ]
    return Graph([x, b], equations, [out], "forward")


def test_a_graph_as_people_read_it() -> None:
    assert show(example()) == (
        "dims n: 1..512\n"
        "graph forward(%0: f32[n,3], %1: f32[3]) {\n"
        "  %2: f32[n,3] = broadcast %1 {shape=(n, 3), axes=(1,)}                   # model.py:12\n"
        "  %3: f32[n,3] = add %0, %2                                               # model.py:13\n"
        "  return %3\n"
        "}\n"
    )


def test_regions_stand_under_their_equation() -> None:
    def half(x: Any) -> list[Any]:
        return [table["mul"](x, np.asarray([0.5, 0.5, 0.5], np.float32))]

    branches = (record_graph(half, [F32], "half"), record_graph(lambda x: [x], [F32], "same"))
    g = record_graph(
        lambda i, x: table["cond"](i, x, branches=branches), [TensorType((), dt.int32), F32], "main"
    )
    lines = [line.split("#")[0].rstrip() for line in show(g).splitlines()]
    assert lines == [
        "graph main(%0: i32[], %1: f32[3]) {",
        "  %2: f32[3] = cond %0, %1 {branches=(^0, ^1)}",
        "    ^0 graph half(%0: f32[3]) {",
        "      %1: f32[3] = constant {value=dense(f32[3], 0.5, 0.5, 0.5)}",
        "      %2: f32[3] = mul %0, %1",
        "      return %2",
        "    }",
        "    ^1 graph same(%0: f32[3]) {",
        "      return %0",
        "    }",
        "  return %2",
        "}",
    ]
    assert parse(show(g)) == g


@given(graphs)
def test_parse_gives_back_what_was_shown(g: Graph) -> None:
    text = show(g)
    again = parse(text)
    assert again == g and hash(again) == hash(g)
    verify(again)
    assert show(again) == text  # the user's lines too


@given(odd_graphs())
def test_every_kind_of_attribute_survives(g: Graph) -> None:
    again = parse(show(g))
    assert again == g and again.name == g.name
    for old, new in zip(
        g.equations[0].attributes.values(), again.equations[0].attributes.values(), strict=True
    ):
        assert type(old) is type(new)


def test_numbers_keep_kind_sign_and_bits() -> None:
    """-0.0 is not 0.0, 1 is not 1.0 nor true, and NaN equals NaN: in the text and in the equality of
    graphs.
    """

    def one(value: Any) -> Graph:
        return Graph([], [Equation(table["full"], (), {"value": value}, ())], [])

    numbers = [
        0.0,
        -0.0,
        0,
        1,
        1.0,
        True,
        float("nan"),
        np.float32(1),
        np.float64(1),
        1 + 0j,
        complex(-0.0, 1),
    ]
    for i, a in enumerate(numbers):
        for k, b in enumerate(numbers):
            assert (one(a) == parse(show(one(b)))) == (i == k), f"{a!r} and {b!r}"


def test_large_constants_stand_at_the_end_and_uniform_ones_in_their_line() -> None:
    big = np.random.default_rng(0).normal(size=100)
    g = record_graph(lambda: [table["neg"](big), table["neg"](np.full((50, 50), 0.1, np.float32))], [])
    text = show(g)
    assert "value=@0" in text and "\n@0: f64[100] =\n" in text and "dense(f32[50,50], splat 0.1)" in text
    assert max(map(len, text.splitlines())) <= 110
    assert parse(text) == g
    short = show(g, data=False)
    assert "@0:" not in short and len(short) < 600 and str(g) == short
    with pytest.raises(
        IRError,
        match=r"the data of @0 is not in the text\n  where: line 2: .*\n  expected: text written by show",
    ):
        parse(short)


def test_a_nan_with_a_message_keeps_it() -> None:
    odd = np.array([0x7FC01234], np.uint32).view(np.float32)
    g = record_graph(lambda: [table["neg"](odd)], [])
    assert parse(show(g)) == g
    scalar = Graph([], [Equation(table["full"], (), {"value": odd[0]}, ())], [])
    assert "scalar(f32[], bits 3412c07f)" in show(scalar) and parse(show(scalar)) == scalar


def test_symbols_of_one_name_but_other_bounds_are_told_apart() -> None:
    a, b = dim("n", max=8), dim("n", max=9)
    g = record_graph(
        lambda x, y: [x, y], [TensorType((a,), dt.float32), TensorType((b, 2 * a - 1), dt.float32)]
    )
    assert show(g).startswith("dims n: 1..8, n~2: 1..9\ngraph graph(%0: f32[n], %1: f32[n~2,2*n-1]) {")
    assert parse(show(g)) == g


def test_host_functions_are_given_back_by_name() -> None:
    def f(x: Any) -> Any:
        return x

    other = f.__class__(f.__code__, f.__globals__, f.__name__)
    g = record_graph(lambda x: [table["callback"](x, fn=h, results=(F32,))[0] for h in (f, other, f)], [F32])
    names = host_functions(g)
    assert len(names) == 2 and set(names.values()) == {f, other}
    assert parse(show(g), host=names) == g
    with pytest.raises(IRError, match=r"the function '.*f' is not in the text\n  where: line 2"):
        parse(show(g))


def nested(depth: int) -> Graph:
    x = Var(F32)
    g = Graph([x], [], [x], "g0")
    for i in range(depth):
        x, y = Var(F32), Var(F32)
        g = Graph([x], [Equation(table["call"], (x,), {"graph": g, "name": "f"}, (y,))], [y], f"g{i + 1}")
    return g


def test_nothing_recurses_over_depth() -> None:
    """More regions inside each other than Python would nest calls, and a long chain of equations."""
    deep = nested(1200)
    text = show(deep)
    again = parse(text)
    verify(again)
    assert show(again) == text
    assert parse(show(nested(100))) == nested(100)
    x = v = Var(F32)
    equations = []
    for _ in range(20_000):
        out = Var(F32)
        equations.append(Equation(table["neg"], (v,), {}, (out,)))
        v = out
    chain = Graph([x], equations, [v])
    verify(chain)
    assert parse(show(chain)) == chain


def test_comments_and_blank_lines_are_free() -> None:
    text = "# a header\n\ngraph g(%0: f32[3]) {  # inputs\n\n  %7: f32[3] = neg %0 # here.py:5\n"
    text += "  return %7 # done\n}\n# end\n"
    g = parse(text)
    assert [e.location for e in g.equations] == [Location("here.py", 5, "?")] and g.equations[
        0
    ].primitive.name == "neg"


def test_an_attribute_without_a_text_form_is_named() -> None:
    g = Graph([], [Equation(table["full"], (), {"value": frozenset({1})}, ())], [])
    with pytest.raises(IRError, match=r"the attribute full value holds a frozenset, which has no text form"):
        show(g)


# -- malformed -----------------------------------------------------------------------------------------------

_HEAD = "graph g(%0: f32[3]) {\n"
_BAD: list[tuple[str, str]] = [
    ("", "the text ends before the graph does"),
    (_HEAD, "the text ends before the graph does\n  where: line 1"),
    ("add %0\n", "unexpected 'add'\n  where: line 1: add %0\n  expected: graph name"),
    (
        _HEAD + "  %1: f32[3] = frobnicate %0\n  return %1\n}",
        "there is no primitive 'frobnicate'\n  where: line 2",
    ),
    (_HEAD + "  %1: f32[3] = neg %5\n  return %1\n}", "%5 is used before it is defined\n  where: line 2"),
    (_HEAD + "  %1: f32[3] = neg %1\n  return %1\n}", "%1 is used before it is defined\n  where: line 2"),
    (_HEAD + "  %0: f32[3] = neg %0\n  return %0\n}", "%0 is defined twice\n  where: line 2"),
    (_HEAD + "  %1: f33[3] = neg %0\n  return %1\n}", "'f33' is not a dtype\n  where: line 2"),
    (
        _HEAD + "  %1: f32[k] = neg %0\n  return %1\n}",
        "'k' is not a value\n  where: line 2.*\n  expected: a number, or a symbol",
    ),
    (_HEAD + "  %1: f32[-3] = neg %0\n  return %1\n}", r"the sizes \[-3\]\n  where: line 2"),
    (_HEAD + "  %1: f32[3] neg %0\n  return %1\n}", "unexpected 'neg'\n  where: line 2.*\n  expected: ="),
    (_HEAD + "  %1: f32[3] = neg %0 {a=1, a=2}\n  return %1\n}", "the attribute a is given twice"),
    (_HEAD + "  %1: f32[3] = neg %0 {a=}\n  return %1\n}", "unexpected '}'\n  where: line 2"),
    (
        _HEAD + "  %1: f32[3] = neg %0 {a=1\n  return %1\n}",
        "the line ends too early\n  where: line 2.*\n  expected: }",
    ),
    (
        _HEAD + "  %1: f32[3] = neg %0 }\n  return %1\n}",
        "unexpected '}'\n  where: line 2.*\n  expected: the end of the line",
    ),
    (
        _HEAD + "  %1: f32[3] = neg %0 {a=^1}\n  return %1\n}",
        r"unexpected \^1\n  where: line 2.*\n  expected: \^0",
    ),
    (
        _HEAD + "  %1: f32[3] = neg %0 {a=^0}\n  return %1\n}",
        "1 regions are named and 0 follow\n  where: line 2",
    ),
    (
        _HEAD + "  %1: f32[3] = neg %0\n  ^0 graph h() {\n  return\n}\n  return %1\n}",
        r"has no region \^0 here\n  where: line 3",
    ),
    (_HEAD + '  %1: f32[3] = neg %0 {a="\\x"}\n  return %1\n}', "is not a string\n  where: line 2"),
    (_HEAD + '  %1: f32[3] = neg %0 {a="x}\n  return %1\n}', "unexpected character '\"'\n  where: line 2"),
    (
        _HEAD + "  %1: f32[3] = neg %0 {a=dense(f32[2], 1.0)}\n  return %1\n}",
        r"1 elements for f32\[2\]\n  where: line 2.*\n  expected: 2",
    ),
    (_HEAD + "  %1: f32[3] = neg %0 {a=dense(u8[1], 300)}\n  return %1\n}", "the elements do not fit"),
    (_HEAD + "  %1: f32[3] = neg %0 {a=dense(u8[1], 1.5)}\n  return %1\n}", "the elements do not fit"),
    (_HEAD + "  %1: f32[3] = neg %0 {a=dense(bool[1], yes)}\n  return %1\n}", "yes is not a truth value"),
    (_HEAD + "  %1: f32[3] = neg %0 {a=scalar(f32[], bits zz)}\n  return %1\n}", "'zz' are not the bits"),
    (
        _HEAD + "  %1: f32[3] = neg %0 {a=" + "(" * 100 + "}\n  return %1\n}",
        "tuples nested more than 64 deep",
    ),
    (_HEAD + "  %1: f32[3] = neg %0 {a=1.5*n}\n  return %1\n}", "unexpected '\\*'"),
    (_HEAD + "  return %0\n  %1: f32[3] = neg %0\n}", "an equation after return\n  where: line 3"),
    (_HEAD + "}", "graph g ends without return\n  where: line 2"),
    (_HEAD + "  return %0\n}\nmore", "text after the end of the graph\n  where: line 4"),
    ("dims n: 1..5, n: 1..6\n", "the name n means something already\n  where: line 1"),
    ("dims f32: 1..5\n", "the name f32 means something already"),
    (
        _HEAD + "  %1: f32[3] = neg %0 {a=@0}\n  return %1\n}\n@0: f32[2] =\n  AAAA",
        r"3 bytes of data for f32\[2\]\n  where: line 5.*\n  expected: 8",
    ),
    (_HEAD + "  return %0\n}\n@0: f32[1] =\n  A*AA", "is not base 64\n  where: line 4"),
    (_HEAD + "  return %0\n}\n@0: i4[1] =\n  /w==", "has bits outside of its elements"),
    (_HEAD + "  return %0\n}\n@0: u8[0] =\n@0: u8[0] =\n", "the data of @0 is given twice\n  where: line 5"),
]


@pytest.mark.parametrize("text, message", _BAD, ids=range(len(_BAD)))
def test_malformed_text_is_refused_by_line(text: str, message: str) -> None:
    with pytest.raises(IRError, match=message):
        parse(text)


@given(graphs)
def test_a_text_cut_anywhere_is_refused_or_read(g: Graph) -> None:
    """Never anything but an IRError, whatever is missing or doubled."""
    lines = show(g).splitlines()
    rng = np.random.default_rng(len(lines))
    for _ in range(5):
        i, j = sorted(int(k) for k in rng.integers(0, len(lines) + 1, 2))
        for text in ("\n".join(lines[:i] + lines[j:]), "\n".join(lines)[: int(rng.integers(0, 500))]):
            try:
                parse(text)
            except IRError as error:
                assert "line" in str(error)


def test_a_dense_constant_is_a_copy_that_nobody_can_change() -> None:
    a = np.array([1.0, 2.0])
    g = Graph(
        [], [Equation(table["constant"], (), {"value": Dense(a)}, (Var(TensorType((2,), dt.float64)),))], []
    )
    text = show(g)
    a[0] = 9
    assert show(g) == text


@pytest.mark.parametrize("name", ["f", "f.fwd", "cond.0", "a.b.1.c", "<lambda>", "", "x y", "."])
def test_any_name_of_a_graph_is_read_back(name: str) -> None:
    graph = record_graph(lambda x: [table["neg"](x)], [F32], name)
    assert parse(show(graph)).name == name and parse(show(graph)) == graph
