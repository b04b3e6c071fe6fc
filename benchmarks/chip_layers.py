"""How good the code for the processor is: every layer of ResNet-50 and VGG19 beside its roof.

    python -m benchmarks.chip_layers dlp-m --batch 16 --formats int8,float16 --networks resnet50

Each convolution and product, with bias and ReLU (int8: requantised, too) as a group of a graph has them, is
mapped by the search and timed by T1 without data, launch excluded. Its roof is the larger of useful
multiply-accumulates at the array's peak and compulsory bytes at DRAM's bandwidth. Layers of equal shapes are
one row. Nothing here is chosen by hand: the same functions compile networks.

A roof knows no beginning and no end. The bound beside it does: the operands of the first products must
come (DRAM's latency, and their bytes at its bandwidth) before the array begins, each product takes the
array's whole cycles (filled and drained once, places and outputs rounded up to its rows and columns), and
the results of a core's last one leave behind it. It is the least over all tilings of the search's space, for
walks over equal tiles that are multiplied whole; first tiles at an image's border are a little smaller.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.compiler.targets.dlp.compiled import cores_of
from trilobite.compiler.targets.dlp.contraction.choose import choose
from trilobite.compiler.targets.dlp.contraction.lower import nest_for
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.nest import Nest
from trilobite.compiler.targets.dlp.contraction.search import Found, shape_of
from trilobite.compiler.targets.dlp.contraction.space import Space
from trilobite.compiler.targets.dlp.expand import expand
from trilobite.compiler.targets.dlp.groups import ContractionPlan, contraction_plan, group
from trilobite.compiler.targets.dlp.interfaces import Epilogue, Problem
from trilobite.compiler.targets.dlp.layouts import Layout, result_order, row_major, wanted_orders
from trilobite.compiler.targets.dlp.lower import contraction_of
from trilobite.compiler.targets.dlp.wide_sums import widen_sums
from trilobite.ir import primitives  # noqa: F401, fills the table
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.processor.machine import Machine, load_machine

FORMATS = {"int8": dt.int8, "float16": dt.float16, "float32": dt.float32}


@dataclass(frozen=True)
class Layer:
    """A convolution of a square image, or a product where `side` is 0; `times` it occurs in its network."""

    name: str
    inputs: int
    outputs: int
    side: int = 0
    kernel: int = 1
    stride: int = 1
    times: int = 1

    @property
    def out(self) -> int:
        return (self.side + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1 if self.side else 1

    @property
    def seen(self) -> int:
        """Places of the image that the windows touch."""
        return self.side if self.kernel >= self.stride else self.out

    def moved(self, batch: int, dtype: Any) -> int:
        """Compulsory bytes."""
        places = (self.seen**2 if self.side else 1, self.out**2)
        images = batch * (places[0] * self.inputs + places[1] * self.outputs)
        return int(images + self.kernel**2 * self.inputs * self.outputs) * int(dtype.itemsize)

    def roof(self, machine: Machine, batch: int, dtype: Any) -> float:
        macs, moved = (
            batch * self.out**2 * self.kernel**2 * self.inputs * self.outputs,
            self.moved(batch, dtype),
        )
        rate = machine.core.mfu.macs_per_cycle[{"int8": "int8", "float16": "fp16"}.get(str(dtype), "fp32")]
        return float(max(macs / (rate * machine.cores), moved / machine.dram_bytes_per_cycle))


def resnet50() -> Iterator[Layer]:
    """The bottleneck's stride stands in its 3 x 3 convolution."""
    yield Layer("conv1", 3, 64, 224, 7, 2)
    inputs, side = 64, 56
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
        stride = 1 if stage == 1 else 2
        name = f"layer{stage}"
        yield Layer(f"{name}.0.conv1", inputs, width, side)
        yield Layer(f"{name}.0.conv2", width, width, side, 3, stride)
        yield Layer(f"{name}.0.downsample", inputs, 4 * width, side, 1, stride)
        side, inputs = side // stride, 4 * width
        yield Layer(f"{name}.conv3", width, inputs, side, times=blocks)
        yield Layer(f"{name}.conv1", inputs, width, side, times=blocks - 1)
        yield Layer(f"{name}.conv2", width, width, side, 3, times=blocks - 1)
    yield Layer("fc", 2048, 1000)


def vgg19() -> Iterator[Layer]:
    inputs, side = 3, 224
    for block, (width, count) in enumerate(((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)), 1):
        yield Layer(f"conv{block}_1", inputs, width, side, 3)
        yield Layer(f"conv{block}_2", width, width, side, 3, times=count - 1)
        inputs, side = width, side // 2
    for number, (a, b) in enumerate(((25088, 4096), (4096, 4096), (4096, 1000)), 6):
        yield Layer(f"fc{number}", a, b)


NETWORKS = {"resnet50": resnet50, "vgg19": vgg19}


def graph_of(layer: Layer, batch: int, dtype: Any) -> Graph:
    """The layer with its bias and ReLU."""
    is_int, ends = dtype == dt.int8, dtype
    total = dt.int32 if is_int else dtype
    if layer.side:
        x = TensorType((batch, layer.inputs, layer.side, layer.side), dtype)
        w = TensorType((layer.outputs, layer.inputs, layer.kernel, layer.kernel), dtype)
        pads = (layer.kernel // 2,) * 2
    else:
        x, w = TensorType((batch, layer.inputs), dtype), TensorType((layer.outputs, layer.inputs), dtype)
    vectors = [TensorType((layer.outputs,), total), TensorType((layer.outputs,), dt.float32)]

    def body(x: Any, w: Any, b: Any, s: Any) -> tuple[Any]:
        if layer.side:
            window = {"stride": (layer.stride,) * 2, "low": pads, "high": pads, "x_dilation": (1, 1)}
            y = table["conv"](x, w, **window, w_dilation=(1, 1), groups=1, dtype=total)
        else:
            y = table["dot"](x, w, contract=((1,), (1,)), batch=((), ()), dtype=total)
        y = table["add"](y, table["broadcast"](b, shape=y.shape, axes=(1,)))
        if is_int:
            zero = table["full"](shape=(layer.outputs,), value=0, dtype=ends)
            y = table["requantise"](y, s, zero, axis=1, dtype=ends)
        return (table["maximum"](y, table["full"](shape=y.shape, value=0, dtype=ends)),)

    return record_graph(body, [x, w, *vectors], layer.name)


def problem_of(layer: Layer, batch: int, dtype: Any, machine: Machine) -> tuple[Problem, Epilogue | None]:
    """What the contraction room is asked, images and results channels last."""
    grouped = group(widen_sums(expand(graph_of(layer, batch, dtype), machine)), machine)
    (fusion,) = [e for e in grouped.equations if e.attributes.get("kind") == "contraction"]
    region = fusion.attributes["region"]
    plan = contraction_plan(region)
    assert isinstance(plan, ContractionPlan)
    head = plan.equation
    wanted = wanted_orders(head, [row_major(len(v.type.shape)) for v in head.inputs])
    orders = dict(zip(head.inputs, wanted, strict=True))
    orders[region.outputs[0]] = result_order(head, wanted)
    return contraction_of(region, Layout(orders), machine)


def found_for(layer: Layer, batch: int, dtype: Any, machine: Machine) -> tuple[Found, float]:
    """The mapping that the search chooses, and the layer's bound."""
    problem, epilogue = problem_of(layer, batch, dtype, machine)
    nest, moved = nest_for(problem, epilogue), layer.moved(batch, dtype) / machine.dram_bytes_per_cycle
    found = choose(nest, machine, cores_of(machine)[0], epilogue)
    return found, bound_of(nest, machine, epilogue, moved)


def bound_of(nest: Nest, machine: Machine, epilogue: Epilogue | None, compulsory: float) -> float:
    """The least cycles of any tiling of the space; `compulsory` are those of DRAM."""
    space = Space(nest, machine, cores_of(machine)[0])
    figures, walking = space.figures(shape_of(nest, epilogue)), next(space.walks(1))
    mappings = [space.mapping(walking, row) for row in range(figures.size)]
    rate, latency = machine.dram_bytes_per_cycle, machine.cycles(machine.dram.latency_ns)
    first, last = 0.0, figures.elements["out"] * nest.out_dtype.itemsize
    for name in ("left", "right"):
        first = first + figures.elements[name] * nest.image.item * _all_parts(nest, mappings, nest.own[name])
    for dim in nest.own["out"]:
        tile = np.array([min(m.tile(dim), nest.extents[dim]) for m in mappings])
        covered = np.minimum(figures.count[dim] * tile, nest.extents[dim])
        last = last * (covered - (figures.count[dim] - 1) * tile) / tile
    behind = latency + last / min(rate, machine.core.io_dma.bytes_per_cycle)
    streamed = latency + np.maximum(compulsory - last / rate, 0) + behind
    return float(np.maximum(latency + first / rate + figures.unit + behind, streamed).min())


def _all_parts(nest: Nest, mappings: list[Mapping], own: tuple[str, ...]) -> Any:
    """Tiles of all cores at a time, as much as there is of them, in tiles of one."""
    found = np.ones(len(mappings))
    for dim in own:
        tile = np.array([min(m.tile(dim), nest.extents[dim]) for m in mappings])
        parts = np.array([m.parts(dim) for m in mappings])
        found = found * np.minimum(tile * parts, nest.extents[dim]) / tile
    return found


def table_of(machine: Machine, batch: int, names: list[str], formats: list[str], text: str) -> None:
    """Prints a row per layer, and sums per network."""
    for network in names:
        for name in formats:
            dtype, spent, roofs, bounds, over, beyond = FORMATS[name], 0, 0.0, 0.0, 0, 0
            limit = 1.6 if machine.cores > 1 and batch == 1 else 1.25
            began = time.perf_counter()
            for layer in NETWORKS[network]():
                if text and text not in layer.name:
                    continue
                found, bound = found_for(layer, batch, dtype, machine)
                cycles, roof = found.timed or found.predicted, layer.roof(machine, batch, dtype)
                spent, roofs = spent + layer.times * cycles, roofs + layer.times * roof
                bounds += layer.times * bound
                over, beyond = over + (cycles > limit * roof), beyond + (bound > limit * roof)
                mark = "*" if cycles > limit * roof else " "
                ratio = f"{mark} {cycles / roof:5.2f} {layer.name:<20} x{layer.times}"
                told = f"{cycles:9} of {roof:9.0f}, bound {bound:9.0f} T0 {found.predicted:9}"
                print(f"{ratio} {told} {found.mapping}")
            seconds, ratio = time.perf_counter() - began, f"{spent / max(roofs, 1):.2f} of its layers' roofs"
            ratio += f" and {spent / max(bounds, 1):.2f} of their bounds"
            what = f"{network} {name} batch {batch} on {machine.name}"
            many = f"{over} over {limit}, of {beyond} the bound, too"
            print(f"= {what}: {spent} cycles, {ratio}, {many}; {seconds:.1f} s\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("machine")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--layer", default="", help="only layers whose names contain this")
    given = parser.parse_args()
    networks, formats = given.networks.split(","), given.formats.split(",")
    table_of(load_machine(given.machine), given.batch, networks, formats, given.layer)


if __name__ == "__main__":
    main()
