"""Values that stay on chip between groups: the interpreter's bits, no race, where all readers can."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.dlp import onchip
from trilobite.compiler.targets.dlp.target import Processed, Processor, dlp
from trilobite.ir import primitives  # noqa: F401, fills the table
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.processor.lang.ir import Buffer
from trilobite.processor.machine import Machine, load_machine

Array = np.ndarray[Any, Any]


def _part(clusters: int, cores: int, sram: int) -> Machine:
    """A part of dlp-m; its clusters in a row."""
    machine = load_machine("dlp-m")
    noc = replace(machine.noc, shape=(1, clusters))
    shared = replace(machine.sram, kib=sram, reserved_kib=8)
    return replace(machine, name="part", clusters=clusters, cores_per_cluster=cores, noc=noc, sram=shared)


MACHINES = {
    **{name: load_machine(name) for name in ("dlp-m", "dlp-s", "tpu-v1", "nvdla-2048")},
    "2x2": _part(2, 2, 256), "4x1": _part(4, 1, 64), "1x4": _part(1, 4, 48),
}  # fmt: skip


def _window(kernel: int, stride: int) -> dict[str, Any]:
    pad = (kernel // 2,) * 2
    return {
        "stride": (stride, stride), "low": pad, "high": pad, "x_dilation": (1, 1), "w_dilation": (1, 1),
        "groups": 1, "dtype": dt.int32,
    }  # fmt: skip


def _full(value: float, dtype: Any, shape: tuple[int, ...] = ()) -> Any:
    return table["full"](shape=shape, value=value, dtype=dtype)


def _codes(x: Any, w: Any, scale: Any, kernel: int, stride: int = 1) -> Any:
    sums = table["conv"](x, w, **_window(kernel, stride))
    codes = table["requantise"](sums, scale, _full(0, dt.int8, scale.shape), axis=1, dtype=dt.int8)
    return table["maximum"](codes, _full(0, dt.int8, codes.shape))


def _added(x: Any, w: Any, scale: Any, short: Any) -> Any:
    """A pointwise convolution whose result meets a shortcut."""
    sums = table["conv"](x, w, **_window(1, 1))
    y = table["dequantise"](sums, scale, _full(0, dt.int32, scale.shape), axis=1)
    y = table["add"](y, table["dequantise"](short, _full(0.05, dt.float32), _full(0, dt.int8), axis=None))
    return table["quantise"](y, _full(0.05, dt.float32), _full(0, dt.int8), axis=None, dtype=dt.int8)


def _block(shape: tuple[int, int, int, int], width: int, stride: int) -> tuple[Graph, list[Array]]:
    """Two residual blocks, the first with a strided shortcut, and a convolution behind them."""
    inputs = shape[1]
    weights = [(width, inputs, 1), (width, width, 3), (inputs, width, 1), (inputs, inputs, 1),
               (width, inputs, 1), (width, width, 5), (inputs, width, 1), (3, inputs, 3)]  # fmt: skip
    types = [TensorType(shape, dt.int8)]
    for outputs, channels, kernel in weights:
        types += [TensorType((outputs, channels, kernel, kernel), dt.int8),
                  TensorType((outputs,), dt.float32)]  # fmt: skip

    def body(x: Any, *w: Any) -> tuple[Any]:
        pairs = list(zip(w[::2], w[1::2], strict=True))
        y = _codes(_codes(x, *pairs[0], 1), *pairs[1], 3, stride)
        short = _codes(x, *pairs[3], 1, stride)
        y = _added(y, *pairs[2], short)
        z = _codes(_codes(y, *pairs[4], 1), *pairs[5], 5)
        return (_codes(_added(z, *pairs[6], y), *pairs[7], 3),)

    rng = np.random.default_rng(sum(shape) + width + stride)
    values = [
        (rng.random(t.shape) / 300).astype(np.float32) if t.dtype == dt.float32
        else rng.integers(-60, 60, tuple(map(int, t.shape))).astype(np.int8) for t in types
    ]  # fmt: skip
    return record_graph(body, types, "blocks"), values


def _on(graph: Graph, machine: Machine) -> Processed:
    target = dlp(machine)
    assert isinstance(target, Processor)
    return target.load(target.lower(graph, Usage()))


SHAPES = [(1, 32, 14, 14), (1, 19, 13, 9), (2, 16, 7, 5), (5, 8, 6, 6), (1, 40, 3, 31)]


CASES = [("dlp-m", SHAPES[0]), ("dlp-m", SHAPES[2]), *(("2x2", shape) for shape in SHAPES[1:]),
         ("dlp-s", SHAPES[0]), ("dlp-s", SHAPES[1]), ("tpu-v1", SHAPES[2]), ("nvdla-2048", SHAPES[3]),
         ("4x1", SHAPES[1]), ("4x1", SHAPES[3]), ("1x4", SHAPES[4])]  # fmt: skip


@pytest.mark.parametrize(("machine", "shape"), CASES)
def test_residual_blocks(machine: str, shape: tuple[int, int, int, int]) -> None:
    graph, values = _block(shape, 24, 1 + sum(shape) % 2)
    made = _on(graph, MACHINES[machine])
    made.checks = True
    assert np.array_equal(made.run(list(values), [], 0)[0], run(graph, values)[0])
    assert "buffer @near " in made.stages["kernel"], "something of it stays on chip"


def test_a_single_row_is_added() -> None:
    """A value of one place looks like one number an output where it is added: it has no home."""
    graph, values = _block((1, 40, 2, 1), 24, 2)
    made = _on(graph, MACHINES["2x2"])
    assert np.array_equal(made.run(list(values), [], 0)[0], run(graph, values)[0])


@pytest.mark.parametrize(("machine", "shape", "kernel"), [
    ("dlp-m", (512, 14, 14), 1), ("dlp-m", (515, 13, 9), 1), ("2x2", (520, 5, 6), 1), ("1x4", (512, 4, 7), 1),
    ("dlp-m", (512, 7, 8), 3),
])  # fmt: skip
def test_places_that_lie_apart_are_given_one_by_one(
    machine: str, shape: tuple[int, int, int], kernel: int
) -> None:
    """A strided window of one place: cores that share its image give each other every second place."""
    channels, height, width = shape
    outputs = 1024 if machine == "dlp-m" else 256
    types = [TensorType((1, 8, height, width), dt.int8), TensorType((channels, 8, 1, 1), dt.int8),
             TensorType((channels,), dt.float32), TensorType((outputs, channels, kernel, kernel), dt.int8),
             TensorType((outputs,), dt.float32), TensorType((8, outputs, 1, 1), dt.int8),
             TensorType((8,), dt.float32)]  # fmt: skip

    def body(x: Any, w0: Any, s0: Any, w1: Any, s1: Any, w2: Any, s2: Any) -> tuple[Any]:
        return (_codes(_codes(_codes(x, w0, s0, 1), w1, s1, kernel, 2), w2, s2, 1),)

    rng = np.random.default_rng(sum(shape))
    values = [
        (rng.random(t.shape) / 2000).astype(np.float32) if t.dtype == dt.float32
        else rng.integers(-60, 60, tuple(map(int, t.shape))).astype(np.int8) for t in types
    ]  # fmt: skip
    graph = record_graph(body, types, "strided")
    made = _on(graph, MACHINES[machine])
    made.checks = True
    assert np.array_equal(made.run(list(values), [], 0)[0], run(graph, values)[0])
    if shape == (512, 14, 14):
        assert "q7 n64 k512" in made.stages["mapping"] and "left through SRAM" in made.stages["mapping"]


def test_dram_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values between the groups cost no byte of it."""
    graph, values = _block((1, 32, 14, 14), 24, 1)
    moved = []
    for near in (True, False):
        if not near:
            monkeypatch.setattr(
                "trilobite.compiler.targets.dlp.network.near_values", lambda *_: onchip.Near()
            )
        made = _on(graph, MACHINES["dlp-m"])
        made.run(list(values), [], 0)
        assert made.last_run is not None
        moved.append(sum(made.last_run.bytes[f"gdram {way}"] for way in ("read", "write")))
    between = 14 * 14 * (6 * 32 + 4 * 24)  # written or read; the first and the last value stay outside
    assert moved[1] - moved[0] >= between


def test_only_contractions_read_on_chip() -> None:
    """A value that anything else reads, or that the caller gets, has no home."""

    def body(x: Any, w: Any, s: Any) -> tuple[Any, ...]:
        first = _codes(x, w, s, 1)
        second = _codes(first, w, s, 1)
        summed = table["reduce_sum"](table["cast"](second, dtype=dt.int32), axes=(1,))
        third = _codes(second, w, s, 1)
        return summed, _codes(third, w, s, 1), third

    types = [TensorType((1, 16, 8, 8), dt.int8), TensorType((16, 16, 1, 1), dt.int8),
             TensorType((16,), dt.float32)]  # fmt: skip
    graph = record_graph(body, types, "mixed")
    made = _on(graph, MACHINES["dlp-m"])
    rng = np.random.default_rng(0)
    values = [rng.integers(-9, 9, tuple(map(int, t.shape))).astype(np.int8) for t in types[:2]]
    values.append((rng.random(16) / 50).astype(np.float32))
    for got, want in zip(made.run(list(values), [], 0), run(graph, values), strict=True):
        assert np.array_equal(got, want)
    assert made.last is not None
    found = onchip.near_values(made.last.compiled.compilation.latest, MACHINES["dlp-m"], 16)
    assert len(found.homes) == 1  # the first


def _layers(rows: int, sizes: tuple[int, ...]) -> tuple[Graph, list[Array]]:
    """Products of codes, one behind the other; the last result is the caller's."""
    types = [TensorType((rows, sizes[0]), dt.int8)]
    for inputs, outputs in pairwise(sizes):
        types += [TensorType((outputs, inputs), dt.int8), TensorType((outputs,), dt.float32)]

    def body(x: Any, *w: Any) -> tuple[Any]:
        for weight, scale in zip(w[::2], w[1::2], strict=True):
            sums = table["dot"](x, weight, contract=((1,), (1,)), batch=((), ()), dtype=dt.int32)
            x = table["requantise"](sums, scale, _full(0, dt.int8, scale.shape), axis=1, dtype=dt.int8)
        return (x,)

    rng = np.random.default_rng(rows)
    values = [
        (rng.random(t.shape) / 900).astype(np.float32) if t.dtype == dt.float32
        else rng.integers(-60, 60, tuple(map(int, t.shape))).astype(np.int8) for t in types
    ]  # fmt: skip
    return record_graph(body, types, "layers"), values


@pytest.mark.parametrize("machine", ["tpu-v1", "dlp-s", "nvdla-2048"])
@pytest.mark.parametrize(("rows", "sizes"), [(7, (301, 277, 83)), (40, (1100, 700, 333)), (1, (90, 50, 70))])
def test_rows_that_begin_inside_granules_leave_in_one_piece(
    machine: str, rows: int, sizes: tuple[int, ...]
) -> None:
    graph, values = _layers(rows, sizes)
    made = _on(graph, MACHINES[machine])
    made.checks = True
    assert np.array_equal(made.run(list(values), [], 0)[0], run(graph, values)[0])
    assert made.last_run is not None
    granule = MACHINES[machine].dram.granule_bytes
    written = made.last_run.bytes["gdram write"]
    assert written <= -(-rows * sizes[-1] // granule) * granule, "no granule is written twice"


def test_the_unit_reads_a_value_where_it_is_at_home() -> None:
    """Whole rows of the operand are not copied to a tile first."""
    graph, values = _layers(16, (256, 256, 256))
    made = _on(graph, MACHINES["tpu-v1"])
    assert np.array_equal(made.run(list(values), [], 0)[0], run(graph, values)[0])
    buffers = [line for line in made.stages["kernel"].splitlines() if "buffer @" in line and ".left" in line]
    assert len(buffers) == 1, "the second product has no tile of its left operand"


def test_which_memory_keeps_values() -> None:
    """A core's own for one core; those of clusters for many, if they have any."""
    chip = load_machine("dlp-m")
    alone, many = onchip._memory(chip, 1), onchip._memory(chip, chip.cores)
    assert alone is not None and (alone.space, alone.clusters) == ("nram", 1)
    assert many is not None and (many.space, many.clusters) == ("sram", 4)
    of_one = onchip._memory(chip, chip.cores_per_cluster)
    assert of_one is not None and (of_one.space, of_one.clusters) == ("sram", 1)
    bare = replace(chip, memory_core=False, sram=replace(chip.sram, kib=0, reserved_kib=0))
    assert onchip._memory(bare, bare.cores) is None and onchip._memory(bare, 1) == alone


def _chain(seed: int) -> tuple[Graph, list[Array]]:
    """Convolutions of random widths, places fewer and fewer, with weights that come early."""
    rng = np.random.default_rng(seed)
    side, widths = int(rng.integers(12, 29)), [int(n) for n in rng.integers(16, 160, 8)]
    shapes = [(1, 16, side, side + 3)]
    shapes += [
        (n, k, *(1 + 2 * int(rng.integers(2)),) * 2) for n, k in zip(widths, [16, *widths], strict=False)
    ]
    strides = [int(rng.integers(1, 3)) if n % 3 == 2 else 1 for n in range(len(widths))]
    types = [TensorType(shape, dt.int8) for shape in shapes]
    types += [TensorType((n,), dt.float32) for n in widths]

    def body(x: Any, *rest: Any) -> tuple[Any]:
        for w, scale, stride in zip(rest[: len(widths)], rest[len(widths) :], strides, strict=True):
            x = _codes(x, w, scale, w.shape[2], stride)
        return (x,)

    values: list[Array] = [rng.integers(-9, 9, shape).astype(np.int8) for shape in shapes]
    values += [(rng.random(n) / 60).astype(np.float32) for n in widths]
    return record_graph(body, types, "chain"), values


@pytest.mark.parametrize("seed", range(6))
def test_what_is_prefetched_lies_where_no_value_is(seed: int) -> None:
    """Groups late in a network need less room for values than early ones: weights of others wait there."""
    graph, values = _chain(seed)
    target = dlp(MACHINES["2x2" if seed % 2 else "dlp-m"])
    assert isinstance(target, Processor)
    made = target.load(target.lower(graph, Usage(stable=frozenset(range(1, len(values))))))
    made.prepare(values)
    made.checks = True
    assert np.array_equal(made.run(list(values), [], 0)[0], run(graph, values)[0])


def test_parts_are_taken_as_long_as_values_are_there() -> None:
    graph, _ = _block((1, 64, 28, 28), 64, 1)
    near = onchip.Near(parts=onchip._in_parts(Buffer("near", "sram", 100 << 10, offset=0, handed=True)))
    assert [(b.offset, b.bytes) for b in near.parts][-1] == (96 << 10, 4 << 10)
    assert sum(b.bytes for b in near.parts) == 100 << 10
    for e in graph.equations:
        if e.outputs:
            near.taken[e.outputs[0]] = 40 << 10
            assert [b.offset for b in near.parts_of(e)] == [0, 32 << 10]
            near.taken[e.outputs[0]] = 0
            assert near.parts_of(e) == ()
            del near.taken[e.outputs[0]]
            assert near.parts_of(e) == near.parts, "of a group that nobody knows, all of it"
