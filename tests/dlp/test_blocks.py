"""Images whose blocks stay in the NRAM of the cores: the interpreter's values, no race, where it pays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.dlp.blocks import blocks_of_values
from trilobite.compiler.targets.dlp.onchip import near_values
from trilobite.compiler.targets.dlp.target import Processed, Processor, dlp
from trilobite.ir import primitives  # noqa: F401, fills the table
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.processor.machine import Machine, load_machine

Array = np.ndarray[Any, Any]


def _part(clusters: int, cores: int) -> Machine:
    """A part of dlp-m whose array has few rows, so that few places fill it."""
    machine = load_machine("dlp-m")
    mfu = replace(
        machine.core.mfu, rows=16, cols=16,
        macs_per_cycle={name: rate // 16 for name, rate in machine.core.mfu.macs_per_cycle.items()},
    )  # fmt: skip
    noc = replace(machine.noc, shape=(1, clusters))
    core = replace(machine.core, mfu=mfu)
    return replace(
        machine,
        name="part",
        clusters=clusters,
        cores_per_cluster=cores,
        core=core,
        noc=noc,
        memory_core=False,
    )


MACHINES = {"2x2": _part(2, 2), "1x4": _part(1, 4), "4x4": _part(4, 4)}


def _window(kernel: int, stride: int, dtype: Any) -> dict[str, Any]:
    pad = (kernel // 2,) * 2
    return {
        "stride": (stride, stride), "low": pad, "high": pad, "x_dilation": (1, 1), "w_dilation": (1, 1),
        "groups": 1, "dtype": dtype,
    }  # fmt: skip


def _full(value: float, dtype: Any, shape: tuple[int, ...] = ()) -> Any:
    return table["full"](shape=shape, value=value, dtype=dtype)


def _codes(x: Any, w: Any, scale: Any, stride: int, short: Any = None) -> Any:
    """A convolution; what is added to it is added before it becomes codes."""
    sums = table["conv"](x, w, **_window(w.shape[2], stride, dt.int32))
    if short is None:
        codes = table["requantise"](sums, scale, _full(0, dt.int8, scale.shape), axis=1, dtype=dt.int8)
        return table["maximum"](codes, _full(0, dt.int8, codes.shape))
    y = table["dequantise"](sums, scale, _full(0, dt.int32, scale.shape), axis=1)
    y = table["add"](y, table["dequantise"](short, _full(0.05, dt.float32), _full(0, dt.int8), axis=None))
    return table["quantise"](y, _full(0.05, dt.float32), _full(0, dt.int8), axis=None, dtype=dt.int8)


def _floats(x: Any, w: Any, scale: Any, stride: int, short: Any = None) -> Any:
    y = table["conv"](x, w, **_window(w.shape[2], stride, x.dtype))
    y = table["mul"](y, table["broadcast"](scale, shape=y.shape, axes=(1,)))
    y = y if short is None else table["add"](y, short)
    return table["maximum"](y, _full(0.0, x.dtype, y.shape))


def _network(side: tuple[int, int], width: int, dtype: Any) -> tuple[Graph, list[Array]]:
    """Two bottlenecks, then one that halves rows and columns, and a convolution behind them."""
    wide = 4 * width
    layers = [
        (width, 8, 3), (wide, width, 1), (width, wide, 1), (width, width, 3), (wide, width, 1),
        (width, wide, 1), (width, width, 3), (wide, wide, 1), (wide, width, 1), (5, wide, 3),
    ]  # fmt: skip
    is_code = dtype is dt.int8
    types = [TensorType((1, 8, *side), dtype)]
    for outputs, inputs, kernel in layers:
        types += [TensorType((outputs, inputs, kernel, kernel), dtype),
                  TensorType((outputs,), dt.float32 if is_code else dtype)]  # fmt: skip
    layer = _codes if is_code else _floats

    def body(x: Any, *given: Any) -> tuple[Any]:
        w = list(zip(given[::2], given[1::2], strict=True))
        y = layer(layer(x, *w[0], 1), *w[1], 1)
        z = layer(layer(y, *w[2], 1), *w[3], 1)
        y = layer(z, *w[4], 1, y)
        z = layer(layer(y, *w[5], 1), *w[6], 2)
        return (layer(layer(z, *w[8], 1, layer(y, *w[7], 2)), *w[9], 1),)

    rng = np.random.default_rng(sum(side) + width)
    values: list[Array] = []
    for t in types:
        shape = tuple(map(int, t.shape))
        if t.dtype == dt.int8:
            values.append(rng.integers(-60, 60, shape).astype(np.int8))
        elif len(shape) == 1:
            values.append((rng.random(shape) / (300 if is_code else 1)).astype(t.dtype))
        else:
            values.append(rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape).astype(t.dtype))
    return record_graph(body, types, "bottlenecks"), values


def _on(graph: Graph, machine: Machine) -> Processed:
    target = dlp(machine)
    assert isinstance(target, Processor)
    made = target.load(target.lower(graph, Usage()))
    assert isinstance(made, Processed)
    made.checks = True
    return made


@pytest.mark.parametrize(("machine", "side", "width"), [
    ("2x2", (28, 16), 12), ("2x2", (12, 36), 20), ("1x4", (16, 16), 17), ("4x4", (32, 40), 16),
])  # fmt: skip
def test_bottlenecks(machine: str, side: tuple[int, int], width: int) -> None:
    graph, values = _network(side, width, dt.int8)
    made = _on(graph, MACHINES[machine])
    assert np.array_equal(made.run(list(values), [], 0)[0], run(graph, values)[0])
    assert "buffer @blocks " in made.stages["kernel"], "some lie in NRAM"


@pytest.mark.parametrize("dtype", [dt.float32, dt.float16], ids=str)
def test_bottlenecks_of_floats(dtype: Any) -> None:
    graph, values = _network((20, 16), 12, dtype)
    made = _on(graph, MACHINES["2x2"])
    found, want = made.run(list(values), [], 0)[0], run(graph, values)[0]
    close = 1e-5 if dtype is dt.float32 else 1e-2
    np.testing.assert_allclose(found, want, rtol=close, atol=close * float(np.abs(want).max()))
    assert "buffer @blocks " in made.stages["kernel"], "some lie in NRAM"


def _grouped(graph: Graph, machine: Machine) -> Graph:
    return _on(graph, machine)._compiled().compilation.latest


def test_groups_that_touch_a_value_cut_it_alike() -> None:
    """Also the one that reads a value with a strided window. What a window of several places reads is not
    cut: its neighbours would be another core's."""
    machine = MACHINES["2x2"]
    graph = _grouped(_network((28, 16), 12, dt.int8)[0], machine)
    found = blocks_of_values(graph, machine, machine.clusters)
    kinds = {str(v.type): home.blocks for v, home in found.items()}
    assert kinds["i8[1,48,28,16]"] == kinds["i8[1,48,14,8]"] == (2, 2)
    for e in graph.equations:
        if e.primitive.name == "fusion" and any(3 in map(int, v.type.shape[2:]) for v in e.inputs):
            assert e.inputs[0] not in found


@pytest.mark.parametrize(("side", "width"), [((27, 17), 12), ((6, 6), 12), ((8, 8), 96)],
                         ids=["uneven", "few places", "large weights"])  # fmt: skip
def test_where_it_does_not_pay(side: tuple[int, int], width: int) -> None:
    machine = MACHINES["2x2"]
    graph = _grouped(_network(side, width, dt.int8)[0], machine)
    assert not blocks_of_values(graph, machine, machine.clusters)


def test_both_memories_keep_values() -> None:
    machine = MACHINES["2x2"]
    graph, _ = _network((28, 16), 12, dt.int8)
    latest = _grouped(graph, machine)
    near = near_values(latest, machine, machine.cores)
    assert near.blocks is not None and near.homes and not set(near.homes) & set(near.blocks.homes)
    for v, home in near.blocks.homes.items():
        assert near.home(v) == home and home.space == "nram"
    first = next(e for e in latest.equations if e.outputs and e.outputs[0] in near.blocks.homes)
    less = near.machine_of(machine, first).core.nram.reserved_kib - machine.core.nram.reserved_kib
    parts = [b for b in near.parts_of(first) if b.space == "nram"]
    assert sum(b.bytes for b in parts) <= less * 1024 and parts, "groups leave alone what is there"
