"""Weights ahead of their group: the same bits as without, no race, and only where it is lawful."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base import dtypes as dt
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.dlp import ahead, compiled
from trilobite.compiler.targets.dlp.compiled import Compiled
from trilobite.compiler.targets.dlp.contraction import choose
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.demand import demands_behind
from trilobite.compiler.targets.dlp.groups import group
from trilobite.compiler.targets.registry import executable, find
from trilobite.ir import primitives  # noqa: F401, fills the table
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.codegen.compile import compile_module
from trilobite.processor.lang.ir import Buffer, Function, KernelModule
from trilobite.processor.lang.passes.lifetimes import layout_of_module
from trilobite.processor.lang.scratchpad import ScratchpadOverflow
from trilobite.processor.machine import Machine, load_machine

Array = np.ndarray[Any, Any]
# outputs, kernel, stride of one convolution behind the other
CHAINS = {
    "narrow": ((19, 1, 1), (7, 3, 1), (40, 1, 1), (5, 3, 2)),
    "wide": ((64, 1, 1), (130, 3, 1), (64, 1, 1), (96, 3, 2), (256, 1, 1)),
    "mixed": ((16, 1, 1), (16, 3, 1), (16, 1, 1), (16, 3, 1), (16, 1, 1)),
    "alike": ((16, 3, 1), (16, 3, 1), (16, 3, 1)),  # each loads for its like
}


def _small(clusters: int, cores: int) -> Machine:
    """A part of dlp-m with scratchpads in which not everything finds room."""
    machine = load_machine("dlp-m")
    core = replace(
        machine.core,
        nram=replace(machine.core.nram, kib=96, reserved_kib=32),
        wram=replace(machine.core.wram, kib=48),
    )
    noc = replace(machine.noc, shape=(1, clusters)) if clusters > 1 else machine.noc
    return replace(machine, name="part", clusters=clusters, cores_per_cluster=cores, core=core, noc=noc)


MACHINES = {"dlp-m": load_machine("dlp-m"), "2x2": _small(2, 2), "2x1": _small(2, 1)}


def _chain(layers: tuple[tuple[int, int, int], ...], side: int) -> tuple[Graph, list[Array]]:
    """Convolutions of codes with bias, scale and ReLU."""
    rng, inputs = np.random.default_rng(len(layers) + side), 16
    types = [TensorType((1, inputs, side, side), dt.int8)]
    for outputs, kernel, _ in layers:
        types += [
            TensorType((outputs, inputs, kernel, kernel), dt.int8),
            TensorType((outputs,), dt.int32),
            TensorType((outputs,), dt.float32),
        ]
        inputs = outputs

    def body(x: Any, *weights: Any) -> tuple[Any]:
        for number, (_, kernel, stride) in enumerate(layers):
            w, bias, scale = weights[3 * number : 3 * number + 3]
            pad = (kernel // 2,) * 2
            x = table["conv"](
                x, w, stride=(stride,) * 2, low=pad, high=pad, x_dilation=(1, 1), w_dilation=(1, 1), groups=1,
                dtype=dt.int32,
            )  # fmt: skip
            x = table["add"](x, table["broadcast"](bias, shape=x.shape, axes=(1,)))
            zero = table["full"](shape=(x.shape[1],), value=0, dtype=dt.int8)
            x = table["requantise"](x, scale, zero, axis=1, dtype=dt.int8)
        return (x,)

    values = [_values(rng, t) for t in types]
    return record_graph(body, types, "chain"), values


def _values(rng: np.random.Generator, t: TensorType) -> Array:
    shape = tuple(map(int, t.shape))
    if t.dtype == dt.float32:
        return (rng.random(shape) / 400).astype(np.float32)
    return rng.integers(-100, 100, shape).astype(t.dtype)


def _linked(made: Compiled) -> list[str]:
    """Routines that load weights for the one behind them."""
    functions = made.network.module.functions.values()
    return [f.name for f in functions if any(p.name == "weights" for p in f.params)]


@pytest.mark.parametrize(
    ("chain", "machine"),
    [
        ("alike", "2x1"), ("narrow", "2x2"),
        *((chain, "dlp-m") for chain in CHAINS),
        *((chain, "2x1") for chain in ("narrow", "wide")),
        *((chain, "2x2") for chain in ("alike", "wide")),
    ],
)  # fmt: skip
def test_weights_come_early_with_the_interpreters_bits(chain: str, machine: str) -> None:
    graph, values = _chain(CHAINS[chain], 9 if machine == "2x2" else 13)
    usage = Usage(stable=frozenset(range(1, len(values))), options=(("checks", True),))
    made: Any = executable(graph, find(MACHINES[machine]), usage)
    for _ in range(2):  # the second launch finds scratchpads full of the first one's bytes
        assert np.array_equal(made(values)[0], run(graph, values)[0])
    assert _linked(made.last.compiled)


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.long] if n > 5 else []) for n in range(40)]
)
def test_values_at_home_meet_divided_columns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that do not come out even among cores: columns are divided, and what the clusters' SRAM holds is
    shared. Whatever the search finds is lawful, and results have the interpreter's bits.
    """
    searched = choose._searched

    def lawful(nest: Any, machine: Machine, cores: int, epilogue: Any, *more: Any) -> Any:
        found = searched(nest, machine, cores, epilogue, *more)
        assert choose._is_usable(nest, found.mapping, machine, epilogue), f"{nest}: {found.mapping}"
        return found

    monkeypatch.setattr(choose, "_searched", lawful)
    monkeypatch.setattr(choose, "_KNOWN", {})
    monkeypatch.setattr(choose.kept, "get", lambda name: None)
    monkeypatch.setattr(choose.kept, "put", lambda name, found: None)
    rng = np.random.default_rng([21, seed])
    widths, side = (32, 64, 128), int(rng.choice([14, 20, 26, 28, 30]))
    layers = tuple((int(rng.choice(widths)), int(k), 1) for k in rng.choice([1, 3], rng.integers(2, 5)))
    if seed == 0:
        layers, side = ((128, 1, 1), (128, 3, 1)) * 2, 28
    graph, values = _chain(layers, side)
    usage = Usage(stable=frozenset(range(1, len(values))), options=(("checks", True),))
    made: Any = executable(graph, find(MACHINES["dlp-m"]), usage)
    assert np.array_equal(made(values)[0], run(graph, values)[0]), (layers, side)


def test_shared_weights_are_given_out_before_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """One group fills SRAM, a later one gives the cores what they share, with the interpreter's bits."""
    linked, found = ahead.Handing._try, list[bool]()

    def noted(self: ahead.Handing, times: Any, first: int, call: Any, prefetched: Any) -> bool:
        does = linked(self, times, first, call, prefetched)
        found.append(does and prefetched.is_given)
        return does

    monkeypatch.setattr(ahead.Handing, "_try", noted)
    graph, values = _chain(((128, 1, 1), (128, 3, 1)) * 3, 28)
    usage = Usage(stable=frozenset(range(1, len(values))), options=(("checks", True),))
    made: Any = executable(graph, find(MACHINES["dlp-m"]), usage)
    for _ in range(2):
        assert np.array_equal(made(values)[0], run(graph, values)[0])
    assert any(found)


def test_a_call_is_asked_for_its_time_once_for_each_that_looks_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many parts of the row are compared, or long networks would take long to compile."""
    asked, plain = list[ahead.Call](), ahead.spare

    def noted(call: ahead.Call) -> int:
        asked.append(call)
        return plain(call)

    monkeypatch.setattr(ahead, "spare", noted)
    layers = ((16, 1, 1), (16, 3, 1)) * 6
    graph, values = _chain(layers, 9)
    usage = Usage(stable=frozenset(range(1, len(values))))
    made: Any = executable(graph, find(MACHINES["dlp-m"]), usage)
    made(values)
    assert _linked(made.last.compiled)
    pairs = len(layers) * (len(layers) - 1) // 2
    assert 0 < len(asked) <= 2 * pairs, "once for its mapping, once for what is prefetched"


@pytest.mark.parametrize("side", [3, 5])
def test_weights_that_nobody_shares_wait_in_sram(side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where WRAM is full: each core's own part, with the interpreter's bits, in every launch."""
    linked, found = ahead.Handing._try, list[bool]()

    def noted(self: ahead.Handing, times: Any, first: int, call: Any, prefetched: Any) -> bool:
        does = linked(self, times, first, call, prefetched)
        found.append(does and prefetched.is_given and call.plan.sharing("right").parts == 1)
        return does

    monkeypatch.setattr(ahead.Handing, "_try", noted)
    monkeypatch.setattr(ahead, "spare", lambda call: 200)
    graph, values = _chain(((250, 1, 1), (96, 3, 1), (230, 1, 1), (250, 1, 1), (96, 3, 1), (250, 1, 1)), side)
    usage = Usage(stable=frozenset(range(1, len(values))), options=(("checks", True),))
    made: Any = executable(graph, find(MACHINES["2x2"]), usage)
    for _ in range(2):
        assert np.array_equal(made(values)[0], run(graph, values)[0])
    assert any(found)


@pytest.mark.parametrize(
    ("wide", "price"), [(4096, 6), (16, 0)]
)  # of DRAM it is the whole time, of the array most of it
def test_dram_has_a_price_where_weights_take_longer_than_products(wide: int, price: int) -> None:
    side = 1 if wide > 16 else 64
    types = [TensorType((1, wide, side, side), dt.int8), TensorType((wide, wide, 1, 1), dt.int8)]
    window = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "x_dilation": (1, 1), "w_dilation": (1, 1)}

    def body(x: Any, w: Any) -> tuple[Any]:
        return (table["conv"](x, w, **window, groups=1, dtype=dt.int32),)

    machine = MACHINES["dlp-m"]
    grouped = group(record_graph(body, types, "one"), machine)
    ((_, found),) = demands_behind(grouped, machine, machine.cores)
    assert found >= price if price else found == 0


@pytest.mark.parametrize(
    ("times", "need", "shares"),
    [((100, 100), 50, [0, 8]), ((100, 50), 100, [4, 4]), ((0, 0), 100, [0, 8]), ((50,), 100, [8]),
     ((10, 0, 25), 100, [0, 0, 8]), ((40, 0, 25), 100, [3, 0, 5])],
)  # fmt: skip
def test_calls_load_as_late_as_there_is_time(times: tuple[int, ...], need: int, shares: list[int]) -> None:
    """In eighths; the last call loads what nobody has time for."""
    assert ahead.shares_of(times, need) == shares


def test_a_routine_keeps_what_another_one_needs_later() -> None:
    """A handed buffer shares no byte with those of a routine between the one that fills it and its reader."""
    module = KernelModule("kept")
    handed = module.add_buffer(Buffer("handed", "wram", 1024, handed=True))
    own = module.add_buffer(Buffer("own", "wram", 4096))
    for name, keeps in (("fills", False), ("between", True), ("without", False)):
        builder = Builder(module, module.add_function(Function(name, routine=True)))
        builder.address(handed if name == "fills" else own)
        if keeps:
            builder.keep(handed)
        builder.ret()
    layout = layout_of_module(module, load_machine("dlp-m"), share=True)
    assert layout.offsets[handed] >= 4096 or layout.offsets[own] >= 1024


def test_no_weights_come_early_that_the_program_makes() -> None:
    """The right operand of the second product is the first one's result."""
    types = [TensorType((64, 64), dt.float32)] * 2

    def body(x: Any, y: Any) -> tuple[Any]:
        axes = {"contract": ((1,), (0,)), "batch": ((), ()), "dtype": dt.float32}
        return (table["dot"](x, table["dot"](x, y, **axes), **axes),)

    graph, rng = record_graph(body, types, "products"), np.random.default_rng(3)
    values = [rng.standard_normal((64, 64)).astype(np.float32) for _ in types]
    made: Any = executable(graph, find(MACHINES["2x2"]), Usage(options=(("checks", True),)))
    np.testing.assert_allclose(made(values)[0], run(graph, values)[0], rtol=1e-4, atol=1e-3)
    assert not _linked(made.last.compiled)


def test_weights_come_across_groups_of_vectors() -> None:
    """A classifier's come while the last convolution computes: the pooling between them leaves WRAM alone."""
    chain, values = _chain(((64, 3, 1), (128, 3, 1)), 14)
    types = [*chain.input_types, TensorType((250, 128), dt.int8)]

    def body(*given: Any) -> tuple[Any]:
        (x,) = run(chain, list(given[:-1]))
        total = table["reduce_sum"](table["cast"](x, dtype=dt.int32), axes=(2, 3))
        scale = table["full"](shape=(), value=1 / 49, dtype=dt.float32)
        zero = table["full"](shape=(), value=0, dtype=dt.int8)
        y = table["requantise"](total, scale, zero, axis=None, dtype=dt.int8)
        return (table["dot"](y, given[-1], contract=((1,), (1,)), batch=((), ()), dtype=dt.int32),)

    graph = record_graph(body, types, "classified")
    values.append(_values(np.random.default_rng(8), types[-1]))
    usage = Usage(stable=frozenset(range(1, len(values))), options=(("checks", True),))
    made: Any = executable(graph, find(MACHINES["dlp-m"]), usage)
    for _ in range(2):
        assert np.array_equal(made(values)[0], run(graph, values)[0])
    calls = [c.group for c in made.last.compiled.network.calls]
    between = [place for place, c in enumerate(calls) if c.unit == "vector"]
    assert between and calls[-1].unit == "matrix"
    assert calls[between[0] - 1].function in _linked(made.last.compiled)


def test_equal_groups_with_different_mappings_are_different_routines(monkeypatch: pytest.MonkeyPatch) -> None:
    """How much of a group's weights its neighbour hides decides its mapping: here one of two alike adds its
    sums in two parts."""
    turns, chosen = count(), ahead.plan_of

    def parted(*given: Any) -> Any:
        plan, found = chosen(*given)
        if next(turns) != 1:
            return plan, found
        tiles = (*found.mapping.tiles[:-1], 8)
        mapping = replace(found.mapping, tiles=tiles)
        return Plan(plan.nest, mapping, plan.machine, plan.epilogue), replace(found, mapping=mapping)

    monkeypatch.setattr(ahead, "plan_of", parted)
    graph, values = _chain(CHAINS["mixed"], 13)
    usage = Usage(stable=frozenset(range(1, len(values))), options=(("checks", True),))
    made: Any = executable(graph, find(MACHINES["2x2"]), usage)
    assert np.array_equal(made(values)[0], run(graph, values)[0])
    calls = [c.group for c in made.last.compiled.network.calls if c.group.unit == "matrix"]
    assert calls[1].mapping != calls[3].mapping and calls[1].function != calls[3].function


def test_buffers_that_do_not_fit_after_all_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever links calls may be wrong about the room: then nothing comes early."""

    def full(module: KernelModule, machine: Machine, **options: Any) -> Any:
        if any(buffer.handed for buffer in module.buffers.values()):
            raise ScratchpadOverflow("wram overflows", expected="less", remedy="use less")
        return compile_module(module, machine, **options)

    graph, values = _chain(CHAINS["alike"], 9)
    monkeypatch.setattr(compiled, "compile_module", full)
    made: Any = executable(graph, find(MACHINES["2x1"]), Usage(stable=frozenset(range(1, len(values)))))
    assert np.array_equal(made(values)[0], run(graph, values)[0])
    assert not _linked(made.last.compiled)


def test_weights_come_no_earlier_than_the_last_results_are_made() -> None:
    """Where a vector instruction behind the products makes the results, and DRAM takes them: the last but one
    tile may still be on its way there when weights of the next group begin, which nobody waits for."""
    machine = load_machine("dlp-s")
    nram = replace(machine.core.nram, kib=16, reserved_kib=8)
    sram = replace(machine.sram, kib=65, reserved_kib=8, banks=1, bytes_per_cycle=128, bus_bytes_per_cycle=64)
    core = replace(machine.core, nram=nram)
    machine = replace(machine, name="few", core=core, sram=sram, cores_per_cluster=4, interlock="none")
    rng = np.random.default_rng(0)
    q, k, v = (tb.tensor(rng.normal(size=(1, 3, n, w)).astype(np.float16)) for n, w in SHAPES)
    attend = tb.nn.functional.scaled_dot_product_attention
    found = tb.jit(attend, target=machine, options={"checks": True})(q, k, v).numpy()
    np.testing.assert_allclose(found, attend(q, k, v).numpy(), rtol=2e-3, atol=2e-3)


SHAPES = ((13, 37), (86, 37), (86, 26))
