"""Schedules keep the meaning of a nest; those that would not are refused, with the dependence in the way."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits, random_array
from tests.compiler.loops.regions import compiled
from trilobite.base.dtypes import DType, float32, int32
from trilobite.base.errors import IndexingError, IRError
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.loops.combine import scalar_graph
from trilobite.compiler.targets.cpu.loops.dependence import carried, dependences
from trilobite.compiler.targets.cpu.loops.emit_llvm import emit, local_offsets
from trilobite.compiler.targets.cpu.loops.index import Index, Quotient, atom_index, divided, variable
from trilobite.compiler.targets.cpu.loops.interpret import interpret
from trilobite.compiler.targets.cpu.loops.ir import Buffer, Load, Loop, Nest, Node, Statement, Target, loop
from trilobite.compiler.targets.cpu.loops.schedule import Schedule
from trilobite.compiler.targets.cpu.loops.verify import verify
from trilobite.native.host import AARCH64, SSE2, features

i, j, k = variable("i"), variable("j"), variable("k")


def binary(name: str, a: Load, b: Load, target: Target, dtype: DType = int32) -> Statement:
    return Statement((a, b), scalar_graph(name, dtype), (target,))


def copy(a: Load, target: Target, dtype: DType = int32) -> Statement:
    return Statement((a,), scalar_graph("stop_gradient", dtype, 1), (target,))


def at(buffer: str, *index: Index) -> Load:
    return Load(buffer, index)


def to(buffer: str, *index: Index, combine: str | None = None) -> Target:
    return Target(buffer, index, combine)


def buffers(dtype: DType = int32, **shapes: tuple[int, ...]) -> tuple[Buffer, ...]:
    return tuple(Buffer(n, dtype, s) for n, s in shapes.items())


def product_nest(m: int = 13, n: int = 21, d: int = 9, dtype: DType = int32) -> Nest:
    """c[i, j] += a[i, k] * b[k, j]"""
    s = binary("mul", at("a", i, k), at("b", k, j), to("c", i, j, combine="add"), dtype)
    body = loop("i", m, loop("j", n, loop("k", d, s)))
    return Nest("product", buffers(dtype, a=(m, d), b=(d, n), c=(m, n)), (body,))


def running_sum(n: int = 40) -> Nest:
    s = binary("add", at("x", i), at("y", i), to("y", i + 1))
    return Nest("running", buffers(x=(n,), y=(n + 1,)), (loop("i", n, s),))


def arrays_for(nest: Nest, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [random_array(rng, [int(d) for d in b.shape], b.dtype, wild=False) for b in nest.arguments]


def by_interpreter(nest: Nest) -> list[Any]:
    values = arrays_for(nest)
    interpret(nest, values)
    return values


def by_machine(nest: Nest) -> list[Any]:
    values = arrays_for(nest)
    words = (ctypes.c_int64 * len(values))(*(v.ctypes.data for v in values))
    size = local_offsets(nest)[1]
    scratch = np.zeros(size + 64, np.uint8)
    top = nest.body[0]
    parallel = isinstance(top, Loop) and top.kind == "parallel"
    units = int(top.extent[0].constant) if parallel and isinstance(top, Loop) else 1  # type: ignore[arg-type]
    function = compiled(NativeKernel(nest.name, emit(nest, features()), 0, size))
    function(ctypes.addressof(words), 0, units, (scratch.ctypes.data + 63) // 64 * 64)
    return values


def same_everywhere(before: Nest, after: Nest) -> None:
    expected = by_interpreter(before)
    for found in (by_interpreter(after), by_machine(after), by_machine(before)):
        for a, b in zip(found, expected, strict=True):
            assert_same_bits(a, b, str(after))


# -- legal schedules ---------------------------------------------------------------------------------------

LEGAL: dict[str, Callable[[Schedule], Schedule]] = {
    "split": lambda s: s.split("i", 4).split("j", 7).split("k", 2),
    "tile": lambda s: s.tile("i", "j", 4, 8),
    "fuse": lambda s: s.fuse("i", "j"),
    "fuse three": lambda s: s.fuse("i", "j").fuse("i_j", "k"),
    "reorder": lambda s: s.reorder("k", "i", "j"),
    "reorder back": lambda s: s.reorder("k", "j", "i").reorder("i", "j", "k"),
    "vector sum": lambda s: s.vectorise("k", 4),
    "vector row": lambda s: s.reorder("i", "k", "j").vectorise("j", 8, 2),
    "unroll": lambda s: s.unroll("k"),
    "unroll middle": lambda s: s.split("j", 3).reorder("i", "j_i", "j_o", "k").unroll("j_i"),
    "parallel": lambda s: s.fuse("i", "j").parallelise("i_j").vectorise("k", 8),
    "pack": lambda s: s.split("j", 5).reorder("j_o", "i", "j_i", "k").pack("b", "j_o"),
    "everything": lambda s: (
        s.tile("i", "j", 4, 8).reorder("i_o", "j_o", "k", "i_i", "j_i").pack("a", "j_o").parallelise("i_o")
        .vectorise("j_i", 8)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEGAL)
def test_legal_schedules_keep_every_bit(name: str) -> None:
    nest = product_nest()
    same_everywhere(nest, LEGAL[name](Schedule(nest)).nest)


def test_steps_are_told() -> None:
    s = Schedule(product_nest()).split("i", 4).vectorise("k", 8, 2)
    assert s.steps == ["split i 4", "vectorise k 8 x 2"]
    assert "for k in 9 vector 8 lanes x 2" in str(s.nest)
    assert "for i_i in min(4, -4*i_o + 13)" in str(s.nest)


def test_a_wavefront_may_be_exchanged_one_way() -> None:
    """y[i+1, j+1] from y[i, j]: both distances positive, so either order is right."""
    s = copy(at("y", i, j), to("y", i + 1, j + 1))
    nest = Nest("wave", buffers(y=(9, 8)), (loop("i", 8, loop("j", 7, s)),))
    same_everywhere(nest, Schedule(nest).reorder("j", "i").nest)


def test_compute_at_joins_a_producer() -> None:
    first = loop("i", 30, binary("add", at("x", i), at("x", i), to("t", i)))
    second = loop("j", 30, binary("mul", at("t", j), at("x", j), to("y", j)))
    nest = Nest("pair", buffers(x=(30,), t=(30,), y=(30,)), (first, second))
    joined = Schedule(nest).compute_at("i", "j")
    assert len(joined.nest.body) == 1
    same_everywhere(nest, joined.vectorise("j", 8).nest)


def test_compute_at_reading_behind_is_legal() -> None:
    """The consumer reads t[j-1], which an earlier iteration has made."""
    first = loop("i", 30, copy(at("x", i), to("t", i + 1)))
    second = loop("j", 30, binary("mul", at("t", j), at("x", j), to("y", j)))
    nest = Nest("pair", buffers(x=(30,), t=(31,), y=(30,)), (first, second))
    same_everywhere(nest, Schedule(nest).compute_at("i", "j").nest)


@pytest.mark.parametrize("side", [8, 16])
@pytest.mark.parametrize("dtype", [np.dtype(n) for n in ("float32", "int64", "int8", "uint16")], ids=str)
def test_tensorise_a_transpose(dtype: DType, side: int) -> None:
    s = copy(at("x", j, i), to("y", i, j), dtype)
    nest = Nest("turned", buffers(dtype, x=(19, 35), y=(35, 19)), (loop("i", 35, loop("j", 19, s)),))
    tiled = Schedule(nest).tile("i", "j", side, side).tensorise("i_i", "transpose").nest
    assert "micro-kernel transpose, meaning:" in str(tiled)
    same_everywhere(nest, tiled)


# -- illegal ones ------------------------------------------------------------------------------------------


def refusal(change: Callable[[], object]) -> str:
    with pytest.raises(IRError) as caught:
        change()
    text = str(caught.value)
    assert all(word in text for word in ("where: nest", "expected:", "remedy:"))
    return text


def test_a_consumer_that_reads_ahead_cannot_be_fused() -> None:
    first = loop("i", 30, copy(at("x", i), to("t", i)))
    second = loop("j", 29, copy(at("t", j + 1), to("y", j)))
    nest = Nest("ahead", buffers(x=(30,), t=(30,), y=(29,)), (first, second))
    assert "cannot join the loops `for i in 30` and `for j in 29`" in refusal(
        lambda: Schedule(nest).compute_at("i", "j")
    )
    nest = Nest("ahead", buffers(x=(29,), t=(30,), y=(29,)),
                (loop("i", 29, copy(at("x", i), to("t", i))), second))  # fmt: skip
    text = refusal(lambda: Schedule(nest).compute_at("i", "j"))
    assert "cannot compute i inside j: it would reorder a write of t[j] before read of t[j + 1]" in text
    assert "let the producer run ahead" in text


def test_a_loop_that_carries_a_dependence_has_no_vectors() -> None:
    text = refusal(lambda: Schedule(running_sum()).vectorise("i", 8))
    assert (
        "the loop i cannot run in vectors: it would reorder a write of y[i + 1] before read of y[i]" in text
    )
    assert "(i: 1)" in text


def test_a_loop_that_carries_a_dependence_is_not_parallel() -> None:
    assert "cannot be parallel" in refusal(lambda: Schedule(running_sum()).parallelise("i"))
    flat = Nest("sum", buffers(x=(9,), y=(1,)),
                (loop("i", 9, copy(at("x", i), to("y", Index(0), combine="add"))),))  # fmt: skip
    assert "combine into partial results" in refusal(lambda: Schedule(flat).parallelise("i"))
    same_everywhere(flat, Schedule(flat).vectorise("i", 4).nest)


def test_loops_whose_exchange_turns_a_dependence_over() -> None:
    """y[i+1, j] from y[i, j+1]: distance (1, -1)."""
    s = copy(at("y", i, j + 1), to("y", i + 1, j))
    nest = Nest("skew", buffers(y=(9, 9)), (loop("i", 8, loop("j", 8, s)),))
    text = refusal(lambda: Schedule(nest).reorder("j", "i"))
    assert (
        "cannot exchange i and j: it would reorder a write of y[i + 1, j] before read of y[i, j + 1]" in text
    )


def test_flat_accesses_are_told_apart() -> None:
    """The same skew in one axis of 9*i + j: found without help from the shape."""
    s = copy(at("y", i * 9 + j + 1), to("y", i * 9 + j + 9))
    nest = Nest("skew", buffers(y=(81,)), (loop("i", 8, loop("j", 8, s)),))
    assert "cannot exchange" in refusal(lambda: Schedule(nest).reorder("j", "i"))
    even = copy(at("y", i * 2), to("y", i * 2 + 1))
    assert dependences(Nest("even", buffers(y=(40,)), (loop("i", 20, even),))) == []


def test_other_refusals() -> None:
    s = Schedule(product_nest())
    assert "there is no loop 'q'" in refusal(lambda: s.split("q", 2))
    assert "blocks of 0" in refusal(lambda: s.split("i", 0))
    assert "there are loops in it" in refusal(lambda: s.vectorise("i", 8))
    assert "it is not the outermost and only one" in refusal(lambda: s.parallelise("k"))
    assert "k is not the only thing inside i" in refusal(lambda: s.fuse("i", "k"))
    assert "c cannot be packed inside i: it is written there" in refusal(lambda: s.pack("c", "i"))
    assert "there is no micro-kernel 'gemm'" in refusal(lambda: s.tensorise("i", "gemm"))
    assert "does not compute the loop j" in refusal(lambda: s.tensorise("j", "transpose"))
    s.split("i", 4)
    assert "the extent of i_i depends on i_o" in refusal(lambda: s.reorder("i_i", "i_o"))
    big = Schedule(product_nest(d=1000))
    assert "the loop k has 1000 iterations" in refusal(lambda: big.unroll("k"))


# -- verifier, interpreter, indices ------------------------------------------------------------------------


def broken(change: Callable[[Nest], Nest], nest: Nest | None = None) -> str:
    with pytest.raises(IRError) as caught:
        verify(change(nest or product_nest()))
    return str(caught.value)


def test_the_verifier_does_not_accuse_an_index_whose_bounds_are_wider_than_itself() -> None:
    """i - 3 (i div 3) is below 3, although i and its quotient alone reach further."""
    wrapped = i - atom_index(Quotient(i, 3)) * 3
    s = binary("mul", at("a", wrapped, k), at("b", k, j), to("c", wrapped, j, combine="add"))
    verify(Nest("ok", product_nest(3, 2, 2).buffers, (loop("i", 99, loop("j", 2, loop("k", 2, s))),)))


def test_the_verifier_names_what_is_wrong() -> None:
    def with_body(*body: Node) -> Callable[[Nest], Nest]:
        return lambda n: Nest("bad", n.buffers, body)

    s = binary("mul", at("a", i, k), at("b", k, j), to("c", i, j, combine="add"))
    assert "the variable 'j' belongs to no loop around" in broken(with_body(loop("i", 2, loop("k", 2, s))))
    twice = loop("i", 2, loop("i", 2, loop("j", 2, loop("k", 2, s))))
    assert "two loops inside each other are named 'i'" in broken(with_body(twice))
    far = loop("i", 99, loop("j", 2, loop("k", 2, s)))
    assert "the index i of a is in 0..98" in broken(with_body(far))
    odd = binary("mul", at("a", i, k), at("b", k, j), to("c", i, j, combine="sub"))
    assert "results combine by 'sub'" in broken(with_body(loop("i", 2, loop("j", 2, loop("k", 2, odd)))))
    lost = binary("mul", at("a", i, k), at("q", k, j), to("c", i, j))
    assert "there is no buffer 'q'" in broken(with_body(loop("i", 2, loop("j", 2, loop("k", 2, lost)))))
    inner = loop("i", 2, Loop("j", (Index(2),), (loop("k", 2, s),), kind="parallel"))
    assert "the parallel loop 'j' is not outermost" in broken(with_body(inner))


def test_the_interpreter_checks_bounds() -> None:
    twice = loop("i", 4, copy(at("x", i + i), to("y", i)))
    nest = Nest("out", buffers(x=(4,), y=(4,)), (twice,))
    with pytest.raises(IndexingError) as caught:
        interpret(nest, [np.zeros(4, np.int32), np.zeros(4, np.int32)])
    assert "element 4 of x, which has 4" in str(caught.value)


def test_quotients_disappear_where_ranges_allow() -> None:
    ranges = {"i": 5, "j": 8}
    assert divided(i * 8 + j, 8, ranges) == (i, j)
    assert divided(i * 16 + j + 8, 8, ranges) == (i * 2 + 1, j)
    backwards, _ = divided(Index(48) - j, 2, ranges)
    assert str(backwards) == "(-1*j + 48) div 2"  # not 24 + (-1*j) div 2: machines divide towards 0
    quotient, rest = divided(i * 3 + j, 8, ranges)
    assert str(quotient) == "(3*i + j) div 8" and str(rest) == "(3*i + j) mod 8"


def test_carried_dependences_of_a_sum_are_reordable() -> None:
    nest = product_nest()
    assert not carried(nest, "i") and not carried(nest, "j")
    assert carried(nest, "k") and all(d.reordable for d in carried(nest, "k"))


@pytest.mark.parametrize("host", [SSE2, AARCH64], ids=["sse2", "aarch64"])
def test_text_compiles_for_plain_machines(host: Any) -> None:
    from trilobite.native import objects

    nest = LEGAL["everything"](Schedule(product_nest(dtype=float32))).nest
    assert len(objects.compile_object(emit(nest, host), 0, host)) > 100
