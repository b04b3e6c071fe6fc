"""ResNet-50 in int8 for the processor: one graph, compiled, timed without data, run.

    python -m benchmarks.chip_resnet dlp-m --batch 1 [--run] [--layers]

Convolutions have int32 sums, a bias and a requantisation per channel; at a block's end the shortcut
is added in float32 and quantised. Weights are random: they change no cycle.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.reciprocals import with_reciprocal
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.registry import find
from trilobite.ir import primitives  # noqa: F401, fills the table
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType

STEP = with_reciprocal(0.05, -128, 127)  # of the values that blocks hand on, as `tb.quantize` chooses steps


class _Writer:
    """Values of the graph, and types of the weights in the order in which layers ask for them."""

    def __init__(self, weights: list[TensorType]) -> None:
        self.types, self.given, self.next = weights, [], 0

    given: list[Any]

    def weight(self, shape: tuple[int, ...], dtype: Any) -> Any:
        self.next += 1
        if not self.given:
            self.types.append(TensorType(shape, dtype))
            return None
        return self.given[self.next - 1]


def _conv(
    w: _Writer, x: Any, inputs: int, outputs: int, kernel: int, stride: int = 1, relu: bool = True,
    drained: bool = True,
) -> Any:  # fmt: skip
    weights = w.weight((outputs, inputs, kernel, kernel), dt.int8)
    bias, scale = w.weight((outputs,), dt.int32), w.weight((outputs,), dt.float32)
    if x is None:
        return None
    pad = (kernel // 2,) * 2
    window = {"stride": (stride,) * 2, "low": pad, "high": pad, "x_dilation": (1, 1), "w_dilation": (1, 1)}
    y = table["conv"](x, weights, **window, groups=1, dtype=dt.int32)
    if not drained:
        y = table["add"](y, table["broadcast"](bias, shape=y.shape, axes=(1,)))
        zero = table["full"](shape=(y.shape[1],), value=0, dtype=dt.int32)
        return table["dequantise"](y, scale, zero, axis=1)
    return _requantised(y, bias, scale, 1, relu)


def _requantised(y: Any, bias: Any, scale: Any, axis: int, relu: bool) -> Any:
    y = table["add"](y, table["broadcast"](bias, shape=y.shape, axes=(axis,)))
    zero = table["full"](shape=(y.shape[axis],), value=0, dtype=dt.int8)
    y = table["requantise"](y, scale, zero, axis=axis, dtype=dt.int8)
    return _larger(y) if relu else y


def _larger(y: Any, least: int = 0) -> Any:
    return table["maximum"](y, table["full"](shape=y.shape, value=least, dtype=y.dtype))


def _network(w: _Writer, x: Any) -> Any:
    y = _conv(w, x, 3, 64, 7, 2)
    y = None if y is None else _pooled(y)
    inputs = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            z = _conv(w, y, inputs, width, 1)
            z = _conv(w, z, width, width, 3, stride)
            z = _conv(w, z, width, 4 * width, 1, drained=False)
            short = y if block else _conv(w, y, inputs, 4 * width, 1, stride, relu=False)
            y, inputs = _joined(z, short), 4 * width
    weights, bias = w.weight((1000, 2048), dt.int8), w.weight((1000,), dt.int32)
    if y is None:
        return None
    y = table["cast"](y, dtype=dt.int32)
    y = table["reduce_sum"](y, axes=(2, 3))
    scale = table["full"](shape=(), value=1 / 49, dtype=dt.float32)
    zero = table["full"](shape=(), value=0, dtype=dt.int8)
    y = table["requantise"](y, scale, zero, axis=None, dtype=dt.int8)
    y = table["dot"](y, weights, contract=((1,), (1,)), batch=((), ()), dtype=dt.int32)
    return table["add"](y, table["broadcast"](bias, shape=y.shape, axes=(1,)))


def _pooled(y: Any) -> Any:
    window = {"size": (3, 3), "stride": (2, 2), "low": (1, 1), "high": (1, 1), "dilation": (1, 1)}
    return table["window_reduce"](y, **window, kind="max")


def _joined(z: Any, short: Any) -> Any:
    if z is None:
        return None
    scale, zero = (table["full"](shape=(), value=v, dtype=t) for v, t in ((STEP, dt.float32), (0, dt.int8)))
    total = table["add"](z, table["dequantise"](short, scale, zero, axis=None))
    return table["quantise"](_larger(total), scale, zero, axis=None, dtype=dt.int8)


def graph_of(batch: int) -> Graph:
    types: list[TensorType] = []
    _network(_Writer(types), None)

    def body(x: Any, *weights: Any) -> tuple[Any]:
        writer = _Writer([])
        writer.given = list(weights)
        return (_network(writer, x),)

    return record_graph(body, [TensorType((batch, 3, 224, 224), dt.int8), *types], "resnet50")


def values_of(graph: Graph) -> list[Any]:
    rng = np.random.default_rng(0)
    found = []
    for t in graph.input_types:
        shape = tuple(map(int, t.shape))
        if t.dtype == dt.float32:
            found.append((rng.random(shape) * 2e-4).astype(np.float32))
        else:
            found.append(rng.integers(-20, 20, shape).astype(t.dtype))
    return found


def compiled(machine: str, batch: int) -> tuple[Any, list[Any]]:
    """The network on a machine, its program loaded; and values for it."""
    graph, target = graph_of(batch), find(f"dlp:{machine}")
    values = values_of(graph)
    made = target.load(target.lower(graph, Usage(stable=frozenset(range(1, len(values))))))
    made.prepare(values)
    return made, values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("machine")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--run", action="store_true", help="run it twice with data")
    parser.add_argument("--layers", action="store_true", help="cycles group by group")
    given = parser.parse_args()
    began = time.perf_counter()
    made, values = compiled(given.machine, given.batch)
    print(f"compiled in {time.perf_counter() - began:.2f} s")
    for name in ("first", "second", "third")[: 3 if given.run else 1]:
        began = time.perf_counter()
        made.run(values, [], 0)
        run = made.last_run
        cycles, joules = run.cycles, run.energy.total
        print(
            f"{name} launch: {time.perf_counter() - began:.2f} s, {cycles} cycles, {joules:.4f} J", flush=True
        )
    if given.layers:
        print(made.profile(lambda: made.run(values, [], 0)))


if __name__ == "__main__":
    main()
