"""simplify: the rules over shapes, casts and reductions, before and after; and the pass as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.arrays import assert_same_bits, random_array
from tests.compiler.passes.texts import becomes, graph_of, stays
from trilobite.base import dtypes as dt
from trilobite.compiler.graph.passes.rules import arithmetic, casts, choice
from trilobite.compiler.graph.passes.simplify import TABLE, simplify
from trilobite.compiler.graph.rewrite import Counters
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.primitives.cast import by_value
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType

# (rule, exact), inputs, lines before, lines after. The last value is the result.
PAIRS: list[tuple[str, bool, str, str, str]] = [
    ("constant -> constant", True, "", "%1: f32[2] = constant {value=dense(f32[2], 2.5, 2.5)}",
     "%1: f32[2] = full {shape=(2,), dtype=f32, value=2.5}"),
    ("* -> nothing", True, "%0: f32[0,3]", "%1: f32[0,3] = exp %0",
     "%1: f32[0,3] = full {shape=(0, 3), dtype=f32, value=0}"),
    ("* -> number", False, "", "%1: f32[2] = full {shape=(2,), dtype=f32, value=3.0}\n%2: f32[2] = neg %1",
     "%1: f32[2] = full {shape=(2,), dtype=f32, value=-3.0}"),
    ("broadcast(c) -> filled", True, "",
     "%1: i32[] = constant {value=dense(i32[], 7)}\n%2: i32[4] = broadcast %1 {shape=(4,), axes=()}",
     "%1: i32[4] = full {shape=(4,), dtype=i32, value=7}"),
    ("reshape(c) -> filled", True, "",
     "%1: bool[2] = full {shape=(2,), dtype=bool, value=true}\n%2: bool[1,2] = reshape %1 {shape=(1, 2)}",
     "%1: bool[1,2] = full {shape=(1, 2), dtype=bool, value=true}"),
    ("transpose(c) -> filled", True, "",
     "%1: f32[2,3] = full {shape=(2, 3), dtype=f32, value=-0.0}\n%2: f32[3,2] = transpose %1 {axes=(1, 0)}",
     "%1: f32[3,2] = full {shape=(3, 2), dtype=f32, value=-0.0}"),
    ("slice(c) -> filled", True, "",
     "%1: f32[5] = full {shape=(5,), dtype=f32, value=1.0}\n"
     "%2: f32[2] = slice %1 {start=(1,), stop=(3,), step=(1,)}",
     "%1: f32[2] = full {shape=(2,), dtype=f32, value=1.0}"),
    ("reverse(c) -> filled", True, "",
     "%1: f32[5] = full {shape=(5,), dtype=f32, value=1.0}\n%2: f32[5] = reverse %1 {axes=(0,)}",
     "%1: f32[5] = full {shape=(5,), dtype=f32, value=1.0}"),
    ("stop_gradient(x) -> x", True, "%0: f32[3]", "%1: f32[3] = stop_gradient %0\n%2: f32[3] = exp %1",
     "%1: f32[3] = exp %0"),
    ("cluster_share(x) -> x", True, "%0: f32[3]",
     "%1: f32[3] = cluster_share %0 {groups=((0, 1),)}\n%2: f32[3] = exp %1", "%1: f32[3] = exp %0"),
    ("broadcast(x) -> broadcast", True, "%0: f32[1,3,1]",
     "%1: f32[2,3,4] = broadcast %0 {shape=(2, 3, 4), axes=(0, 1, 2)}",
     "%1: f32[3] = reshape %0 {shape=(3,)}\n%2: f32[2,3,4] = broadcast %1 {shape=(2, 3, 4), axes=(1,)}"),
    ("broadcast(x) -> broadcast", True, "%0: f32[3]", "%1: f32[1,3] = broadcast %0 {shape=(1, 3), axes=(1,)}",
     "%1: f32[1,3] = reshape %0 {shape=(1, 3)}"),
    ("reshape(reshape(x)) -> reshape_twice", True, "%0: f32[4]",
     "%1: f32[1,4,1,1] = reshape %0 {shape=(1, 4, 1, 1)}\n"
     "%2: f32[2,4,6,6] = broadcast %1 {shape=(2, 4, 6, 6), axes=(0, 1, 2, 3)}",
     "%1: f32[2,4,6,6] = broadcast %0 {shape=(2, 4, 6, 6), axes=(1,)}"),
    ("broadcast(broadcast(x)) -> broadcast_twice", True, "%0: f32[3]",
     "%1: f32[2,3] = broadcast %0 {shape=(2, 3), axes=(1,)}\n"
     "%2: f32[5,2,3,4] = broadcast %1 {shape=(5, 2, 3, 4), axes=(1, 2)}",
     "%1: f32[5,2,3,4] = broadcast %0 {shape=(5, 2, 3, 4), axes=(2,)}"),
    ("reshape(x) -> same_shape", True, "%0: f32[3,2]", "%1: f32[3,2] = reshape %0 {shape=(3, 2)}\n"
     "%2: f32[3,2] = exp %1", "%1: f32[3,2] = exp %0"),
    ("transpose(x) -> transpose", True, "%0: f32[3,1,2]", "%1: f32[1,3,2] = transpose %0 {axes=(1, 0, 2)}",
     "%1: f32[1,3,2] = reshape %0 {shape=(1, 3, 2)}"),
    ("transpose(transpose(x)) -> transpose_twice", True, "%0: f32[2,3,4]",
     "%1: f32[3,4,2] = transpose %0 {axes=(1, 2, 0)}\n%2: f32[4,2,3] = transpose %1 {axes=(1, 2, 0)}",
     "%1: f32[4,2,3] = transpose %0 {axes=(2, 0, 1)}"),
    ("slice(x) -> same_shape", True, "%0: f32[3]",
     "%1: f32[3] = slice %0 {start=(0,), stop=(3,), step=(1,)}\n%2: f32[3] = exp %1", "%1: f32[3] = exp %0"),
    ("slice(slice(x)) -> slice_twice", True, "%0: f32[20]",
     "%1: f32[6] = slice %0 {start=(2,), stop=(19,), step=(3,)}\n"
     "%2: f32[3] = slice %1 {start=(1,), stop=(6,), step=(2,)}",
     "%1: f32[3] = slice %0 {start=(5,), stop=(18,), step=(6,)}"),
    ("slice(broadcast(x)) -> slice_of_repeated", True, "%0: f32[5]",
     "%1: f32[4,5] = broadcast %0 {shape=(4, 5), axes=(1,)}\n"
     "%2: f32[2,2] = slice %1 {start=(1, 2), stop=(3, 4), step=(1, 1)}",
     "%1: f32[2] = slice %0 {start=(2,), stop=(4,), step=(1,)}\n"
     "%2: f32[2,2] = broadcast %1 {shape=(2, 2), axes=(1,)}"),
    ("slice(x) -> slice_of_parts", True, "%0: f32[2,3], %1: f32[2,4]",
     "%2: f32[2,7] = concatenate %0, %1 {axis=1}\n"
     "%3: f32[2,2] = slice %2 {start=(0, 4), stop=(2, 6), step=(1, 1)}",
     "%2: f32[2,2] = slice %1 {start=(0, 1), stop=(2, 3), step=(1, 1)}"),
    ("pad(x) -> pad_nothing", True, "%0: f32[3]",
     "%1: f32[3] = pad %0 {low=(0,), high=(0,), between=(0,), value=0.0}\n%2: f32[3] = exp %1",
     "%1: f32[3] = exp %0"),
    ("concatenate -> one_part", True, "%0: f32[3], %1: f32[0]",
     "%2: f32[3] = concatenate %1, %0 {axis=0}\n%3: f32[3] = exp %2", "%2: f32[3] = exp %0"),
    ("concatenate -> one_part", True, "%0: f32[2,9], %1: f32[2,1]",
     "%2: f32[2,3] = slice %0 {start=(0, 1), stop=(2, 4), step=(1, 1)}\n"
     "%3: f32[2,2] = slice %0 {start=(0, 4), stop=(2, 6), step=(1, 1)}\n"
     "%4: f32[2,6] = concatenate %2, %3, %1 {axis=1}",
     "%2: f32[2,5] = slice %0 {start=(0, 1), stop=(2, 6), step=(1, 1)}\n"
     "%3: f32[2,6] = concatenate %2, %1 {axis=1}"),
    ("add(pad(x), pad(y)) -> side_by_side", True, "%0: i32[2,3], %1: i32[2,4], %2: i32[2,1]",
     "%3: i32[2,8] = pad %1 {low=(0, 3), high=(0, 1), between=(0, 0), value=0}\n"
     "%4: i32[2,8] = pad %0 {low=(0, 0), high=(0, 5), between=(0, 0), value=0}\n%5: i32[2,8] = add %3, %4\n"
     "%6: i32[2,8] = pad %2 {low=(0, 7), high=(0, 0), between=(0, 0), value=0}\n%7: i32[2,8] = add %5, %6",
     "%3: i32[2,8] = concatenate %0, %1, %2 {axis=1}"),
    ("add(pad(x), pad(y)) -> side_by_side", False, "%0: f32[3], %1: f32[2]",
     "%2: f32[7] = pad %0 {low=(1,), high=(3,), between=(0,), value=0.0}\n"
     "%3: f32[7] = pad %1 {low=(4,), high=(1,), between=(0,), value=0.0}\n%4: f32[7] = add %2, %3",
     "%2: f32[5] = concatenate %0, %1 {axis=0}\n"
     "%3: f32[7] = pad %2 {low=(1,), high=(1,), between=(0,), value=0}"),
    ("reverse(x) -> reverse", True, "%0: f32[3,1]", "%1: f32[3,1] = reverse %0 {axes=(0, 1)}",
     "%1: f32[3,1] = reverse %0 {axes=(0,)}"),
    ("reverse(reverse(x)) -> reverse_twice", True, "%0: f32[3,2]",
     "%1: f32[3,2] = reverse %0 {axes=(0, 1)}\n%2: f32[3,2] = reverse %1 {axes=(1,)}",
     "%1: f32[3,2] = reverse %0 {axes=(0,)}"),
    ("update_slice(x, y) -> update_all", True, "%0: f32[3], %1: f32[3]",
     "%2: f32[3] = update_slice %0, %1 {start=(0,), stop=(3,), step=(1,)}\n%3: f32[3] = exp %2",
     "%2: f32[3] = exp %1"),
    ("update_slice(x, y) -> update_all", True, "%0: f32[3], %1: f32[0]",
     "%2: f32[3] = update_slice %0, %1 {start=(2,), stop=(2,), step=(1,)}\n%3: f32[3] = exp %2",
     "%2: f32[3] = exp %0"),
    ("cast(x) -> of_same", True, "%0: f32[3]", "%1: f32[3] = cast %0 {dtype=f32}\n%2: f32[3] = exp %1",
     "%1: f32[3] = exp %0"),
    ("cast(cast(x)) -> by_one", True, "%0: bf16[9]", "%1: f32[9] = cast %0 {dtype=f32}\n"
     "%2: f64[9] = cast %1 {dtype=f64}", "%1: f64[9] = cast %0 {dtype=f64}"),
    ("cast(cast(x)) -> by_one", True, "%0: i64[9]", "%1: i32[9] = cast %0 {dtype=i32}\n"
     "%2: i8[9] = cast %1 {dtype=i8}", "%1: i8[9] = cast %0 {dtype=i8}"),
    ("bitcast(x) -> of_same", True, "%0: f32[3]", "%1: f32[3] = bitcast %0 {dtype=f32}\n%2: f32[3] = exp %1",
     "%1: f32[3] = exp %0"),
    ("bitcast(bitcast(x)) -> bits_by_one", True, "%0: f32[3]", "%1: i32[3] = bitcast %0 {dtype=i32}\n"
     "%2: u32[3] = bitcast %1 {dtype=u32}", "%1: u32[3] = bitcast %0 {dtype=u32}"),
    ("reduce_sum(x) -> unit_axes", True, "%0: f32[3,1]", "%1: f32[3] = reduce_sum %0 {axes=(1,)}",
     "%1: f32[3] = reshape %0 {shape=(3,)}\n%2: f32[3] = full {shape=(3,), dtype=f32, value=0.0}\n"
     "%3: f32[3] = add %1, %2"),
    ("reduce_sum(x) -> unit_axes", True, "%0: f32[4,1,3,2]", "%1: f32[3] = reduce_sum %0 {axes=(0, 1, 3)}",
     "%1: f32[4,3,2] = reshape %0 {shape=(4, 3, 2)}\n%2: f32[3] = reduce_sum %1 {axes=(0, 2)}"),
    ("reduce_prod(x) -> unit_axes", True, "%0: f32[3,1]", "%1: f32[3] = reduce_prod %0 {axes=(1,)}",
     "%1: f32[3] = reshape %0 {shape=(3,)}"),
    ("reduce_max(x) -> unit_axes", True, "%0: f32[3,1]", "%1: f32[3] = reduce_max %0 {axes=(1,)}",
     "%1: f32[3] = reshape %0 {shape=(3,)}"),
    ("reduce_min(x) -> unit_axes", True, "%0: i8[3]", "%1: i8[3] = reduce_min %0 {axes=()}\n"
     "%2: i8[3] = not %1", "%1: i8[3] = not %0"),
    ("reduce_and(x) -> unit_axes", True, "%0: bool[1,3]", "%1: bool[3] = reduce_and %0 {axes=(0,)}",
     "%1: bool[3] = reshape %0 {shape=(3,)}"),
    ("reduce_or(x) -> unit_axes", True, "%0: u8[1,3]", "%1: u8[3] = reduce_or %0 {axes=(0,)}",
     "%1: u8[3] = reshape %0 {shape=(3,)}"),
    ("reduce_max(broadcast(x)) -> repeated", True, "%0: f32[3]",
     "%1: f32[5,3] = broadcast %0 {shape=(5, 3), axes=(1,)}\n%2: f32[] = reduce_max %1 {axes=(0, 1)}",
     "%1: f32[] = reduce_max %0 {axes=(0,)}"),
    ("reduce_min(broadcast(x)) -> repeated", True, "%0: f32[3]",
     "%1: f32[5,3,2] = broadcast %0 {shape=(5, 3, 2), axes=(1,)}\n%2: f32[3,2] = reduce_min %1 {axes=(0,)}",
     "%1: f32[3,2] = broadcast %0 {shape=(3, 2), axes=(0,)}"),
    ("reduce_and(broadcast(x)) -> repeated", True, "%0: i32[3]",
     "%1: i32[5,3] = broadcast %0 {shape=(5, 3), axes=(1,)}\n%2: i32[3] = reduce_and %1 {axes=(0,)}\n"
     "%3: i32[3] = not %2", "%1: i32[3] = not %0"),
    ("reduce_or(broadcast(x)) -> repeated", True, "%0: i32[3]",
     "%1: i32[5,3] = broadcast %0 {shape=(5, 3), axes=(1,)}\n%2: i32[3] = reduce_or %1 {axes=(0,)}\n"
     "%3: i32[3] = not %2", "%1: i32[3] = not %0"),
    ("reduce_sum(broadcast(x)) -> repeated", True, "%0: i32[3]",
     "%1: i32[5,3] = broadcast %0 {shape=(5, 3), axes=(1,)}\n%2: i32[3] = reduce_sum %1 {axes=(0,)}",
     "%1: i32[3] = full {shape=(3,), dtype=i32, value=5}\n%2: i32[3] = mul %0, %1"),
    ("reduce_sum(broadcast(x)) -> repeated", False, "%0: f32[3]",
     "%1: f32[5,3] = broadcast %0 {shape=(5, 3), axes=(1,)}\n%2: f32[3] = reduce_sum %1 {axes=(0,)}",
     "%1: f32[3] = full {shape=(3,), dtype=f32, value=5.0}\n%2: f32[3] = mul %0, %1\n"
     "%3: f32[3] = full {shape=(3,), dtype=f32, value=0.0}\n%4: f32[3] = add %2, %3"),
    *((f"{name}({name}(x)) -> twice", True, "%0: i16[2,3,4]",
       f"%1: i16[2,4] = {name} %0 {{axes=(1,)}}\n%2: i16[2] = {name} %1 {{axes=(1,)}}",
       f"%1: i16[2] = {name} %0 {{axes=(1, 2)}}")
      for name in ("reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_sum", "reduce_prod")),
]  # fmt: skip


def text(inputs: str, lines: str) -> str:
    result = lines.splitlines()[-1].split(":")[0]
    return f"graph main({inputs}) {{\n{lines}\nreturn {result}\n}}"


@pytest.mark.parametrize(("rule", "exact", "inputs", "before", "after"), PAIRS, ids=[p[0] for p in PAIRS])
def test_before_and_after(rule: str, exact: bool, inputs: str, before: str, after: str) -> None:
    counters = Counters()
    becomes(lambda g: simplify(g, counters), text(inputs, before), text(inputs, after), exact)
    assert counters[rule] >= 1


def test_every_rule_over_shapes_casts_and_reductions_has_a_pair() -> None:
    algebra = {*arithmetic.RULES, *choice.RULES}
    shown = {p[0] for p in PAIRS}
    assert {r.name for r in TABLE if r not in algebra} <= shown


KEPT = [
    # slices that overlap, leave a hole, or lie on other axes
    *(
        f"%0: i32[3], %1: i32[2]\n%2: i32[7] = pad %0 {{low=(1,), high=(3,), between=(0,), value=0}}\n"
        f"%3: i32[7] = pad %1 {{low=({low},), high=({5 - low},), between=(0,), value={value}}}\n"
        "%4: i32[7] = add %2, %3"
        for low, value in ((3, 0), (5, 0), (4, 1))
    ),
    "%0: f32[3]\n%1: f32[3] = full {shape=(3,), dtype=f32, value=0.0}\n%2: f32[3] = add %0, %1",
    "%0: f32[3]\n%1: f32[3] = full {shape=(3,), dtype=f32, value=0.0}\n%2: f32[3] = mul %0, %1",
    "%0: f32[3]\n%1: f32[3] = sub %0, %0",
    "%0: f32[3]\n%1: f32[3] = exp %0\n%2: f32[3] = log %1",
    "%0: f32[3]\n%1: f32[3] = log %0\n%2: f32[3] = exp %1",
    "%0: f32[3]\n%1: bool[3] = eq %0, %0",
    "%0: f32[3]\n%1: f32[3] = full {shape=(3,), dtype=f32, value=3.0}\n%2: f32[3] = div %0, %1",
    "%0: f32[3]\n%1: bf16[3] = cast %0 {dtype=bf16}\n%2: f32[3] = cast %1 {dtype=f32}",
    "%0: f32[3]\n%1: i32[3] = cast %0 {dtype=i32}\n%2: f32[3] = cast %1 {dtype=f32}",
    "%0: c64[3]\n%1: c64[3] = full {shape=(3,), dtype=c64, value=complex(1.0, 0.0)}\n%2: c64[3] = mul %0, %1",
    "%0: f32[3], %1: f32[3]\n%2: bool[3] = lt %0, %1\n%3: bool[3] = not %2",
    "%0: f32[3,3], %1: f32[3,3]\n"
    "%2: f32[3,3] = dot %0, %1 {contract=((1,), (0,)), batch=((), ()), dtype=f32}",
    "%0: f32[2,3]\n%1: f32[3] = reduce_sum %0 {axes=(0,)}\n%2: f32[] = reduce_sum %1 {axes=(0,)}",
]


@pytest.mark.parametrize("lines", KEPT)
def test_what_floats_do_not_allow_stays(lines: str) -> None:
    inputs, rest = lines.split("\n", 1)
    stays(simplify, text(inputs, rest))


def test_regions_are_simplified_too() -> None:
    def branch(x: Any) -> list[Any]:
        return [table["neg"](table["neg"](table["exp"](x)))]

    inner = record_graph(branch, [TensorType((2,), tb.float32)])
    graph = record_graph(
        lambda i, x: table["cond"](i, x, branches=(inner, inner)),
        [TensorType((), tb.int32), TensorType((2,), tb.float32)],
    )
    (e,) = simplify(graph).equations
    first, second = e.attributes["branches"]
    assert first.outputs == first.equations[0].outputs and first is second


def test_symbolic_sizes_stay_symbolic() -> None:
    before = """
        dims n: 1..9
        graph main(%0: f32[n,1], %1: f32[n]) {
          %2: f32[n] = reshape %0 {shape=(n,)}
          %3: f32[n,1] = reshape %2 {shape=(n, 1)}
          %4: f32[n,4] = broadcast %3 {shape=(n, 4), axes=(0, 1)}
          %5: f32[] = constant {value=dense(f32[], 1.0)}
          %6: f32[n,4] = broadcast %5 {shape=(n, 4), axes=()}
          %7: f32[n,4] = mul %6, %4
          return %7
        }
    """
    after = """
        dims n: 1..9
        graph main(%0: f32[n,1], %1: f32[n]) {
          %2: f32[n] = reshape %0 {shape=(n,)}
          %3: f32[n,4] = broadcast %2 {shape=(n, 4), axes=(0,)}
          return %3
        }
    """
    becomes(simplify, before, after)


def test_a_kind_of_nan_that_no_number_spells_keeps_its_bits() -> None:
    payload = np.uint32([0x7FC00123]).view(np.float32)

    def body(x: Any) -> list[Any]:
        return [table["broadcast"](table["reshape"](payload, shape=()), shape=(3,), axes=())]

    graph = record_graph(body, [TensorType((3,), tb.float32)])
    (found,) = run(simplify(graph), [np.zeros(3, np.float32)])
    assert (found.view(np.uint32) == 0x7FC00123).all()


def test_the_line_of_what_is_replaced_is_kept() -> None:
    def fn(x: tb.Tensor) -> tb.Tensor:
        y = tb.exp(x)
        return y**2

    graph = simplify(tb.jit(fn, target="reference").lower(tb.tensor([1.0])).graph)
    lines = {e.primitive.name: e.location.line for e in graph.equations}
    assert lines["mul"] == fn.__code__.co_firstlineno + 2


def test_every_equation_causes_few_firings() -> None:
    """A chain of constants that all fold: firings grow with the graph, not faster."""

    def chain(n: int) -> int:
        lines = ["%1: i32[3] = full {shape=(3,), dtype=i32, value=3}"]
        for k in range(n):
            op = ("add", "mul")[k % 2]
            lines.append(f"%{k + 2}: i32[3] = {op} %{k + 1 if k else 0}, %1")
        counters = Counters()
        simplify(graph_of(text("%0: i32[3]", "\n".join(lines))), counters)
        return sum(counters.values())

    assert chain(400) <= 4 * chain(100) + 8


@pytest.mark.parametrize("narrow", sorted(dt.ALL, key=str), ids=str)
def test_what_a_dtype_holds_survives_the_way_there_and_back(narrow: dt.DType) -> None:
    rng = np.random.default_rng(0)
    x = random_array(rng, (500,), narrow)
    for wide in dt.ALL:
        if casts.holds(wide, narrow):
            with np.errstate(all="ignore"):
                assert_same_bits(np.asarray(by_value(by_value(x, wide), narrow)), x, f"{narrow} in {wide}")
