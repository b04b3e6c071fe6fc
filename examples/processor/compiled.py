"""Published figures beside networks that the compiler maps: graphs in, cycles of the simulated part out.

Enters: nothing. Leaves: gates for `validate.py`. Each network is written in plain layers, quantised to the
part's format, compiled for it by the same search as any other, and timed by T1 without data. Nothing here is
chosen by hand but the shapes; where a paper does not print them, the note says what was assumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.compiler.graph.passes.inline import specialise
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.registry import executable
from trilobite.ir.graph import Equation, Graph
from trilobite.processor import Machine, Run

nn = tb.nn


@dataclass(frozen=True)
class Figure:
    """A figure beside a published one. `aim` is in percent, or a `factor` either way; without either the
    figure is only reported."""

    name: str
    ours: float
    published: float
    unit: str
    aim: float | None
    note: str
    factor: float | None = None

    @property
    def error(self) -> float:
        return 100 * (self.ours / self.published - 1)

    @property
    def result(self) -> str:
        if self.factor is not None:
            return "pass" if 1 / self.factor <= self.ours / self.published <= self.factor else "miss"
        return "reported" if self.aim is None else "pass" if abs(self.error) <= self.aim else "miss"

    def cells(self) -> tuple[str, ...]:
        aim = "reported" if self.aim is None else f"{self.aim:g}%"
        aim = aim if self.factor is None else f"factor {self.factor:g}"
        ours, published = f"{self.ours:.2f} {self.unit}", f"{self.published:.4g} {self.unit}"
        return self.name, ours, published, f"{self.error:+.1f}%", aim, self.result, self.note


def timed(model: Any, shape: tuple[int, ...], machine: str | Machine, behind: Any = None) -> Run:
    """A quantised model on a part: cycles and energy of one call, without its data. With a layer `behind` it,
    which is not run, results are the integers that this layer would take."""
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    whole = model if behind is None else nn.Sequential(model, behind)
    return _time(tb.quantize(whole.eval(), [x]), x, machine, behind is not None)


def _time(
    q: Any, x: np.ndarray[Any, Any], machine: str | Machine, is_cut: bool = False, floats: bool = False
) -> Run:
    graph = q.quantization.graph
    graph = specialise(graph, dict.fromkeys(graph.symbols, x.shape[0]))
    weights = [np.asarray(q.get_buffer(name).numpy()) for name in q.quantization.names]
    held = dict(zip(graph.inputs[1:], weights, strict=True))
    graph = graph if floats else _on_integers(graph, is_cut)
    values = [np.zeros(x.shape, graph.inputs[0].type.dtype), *(held[v] for v in graph.inputs[1:])]
    target = f"dlp:{machine}" if isinstance(machine, str) else machine
    made: Any = executable(graph, target, Usage(stable=frozenset(range(1, len(values)))))
    run: Run = made.time(values)
    return run


def _on_integers(graph: Graph, is_cut: bool) -> Graph:
    """The graph behind its input's quantisation, which is the host's work on these parts; with `is_cut` up to
    what its last product takes."""
    first = next(e for e in graph.equations if e.primitive.name == "quantise")
    assert first.inputs[0] is graph.inputs[0]
    products = [e for e in graph.equations if e.primitive.name in ("conv", "dot")]
    outputs = (products[-1].inputs[0],) if is_cut else graph.outputs
    needed, kept = set(outputs), list[Equation]()
    for e in reversed(graph.equations):
        if e is not first and needed.intersection(e.outputs):
            needed.update(e.inputs)
            kept.append(e)
    inputs = (first.outputs[0], *(v for v in graph.inputs[1:] if v in needed))
    return Graph(inputs, kept[::-1], outputs, graph.name)


def busy(run: Run) -> float:
    """Seconds behind the launch's own."""
    return run.seconds - run.machine.launch.overhead_ns * 1e-9


# -- ResNet-50: NVDLA ----------------------------------------------------------------------------------------


def resnet50() -> Any:
    """The form whose stride stands in the first 1 x 1 of a stage: 3.86 GMAC."""
    model: Any = tb.zoo.create("resnet50")
    for stage in (model.layer2, model.layer3, model.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    return model


def quantised_resnet50() -> tuple[Any, np.ndarray[Any, Any]]:
    tb.manual_seed(0)
    x = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    return tb.quantize(resnet50().eval(), [x]), x


NVDLA = {2048: (269, 291), 512: (93, 80), 128: (20, 31), 32: (3.6, 17)}  # frames a second, average milliwatts
NVDLA_CALIBRATES = 128  # its average power gives the one constant, idle_watts: control, clocks, leakage


def networks() -> Iterator[Figure]:
    """ResNet-50, int8, batch 1: frames a second, and energy a frame of the chip without its DRAM."""
    q, x = quantised_resnet50()
    runs = {macs: _time(q, x, f"nvdla-{macs}") for macs in NVDLA}
    for macs, (frames, _) in NVDLA.items():
        run = runs[macs]
        plain = run.replay(_without_fold(run.machine))
        note = f"{run.cycles:,} cycles; {1 / busy(plain):.2f} fps without taps folded into channels"
        aim = None if macs == 32 else 20
        yield Figure(f"NVDLA {macs}, ResNet-50", 1 / busy(run), frames, "fps", aim, note)
    for macs, (frames, milliwatts) in NVDLA.items():
        joules = runs[macs].energy.joules
        chip = 1e3 * sum(j for unit, j in joules.items() if unit != "dram")
        theirs, calibrates = milliwatts / frames, macs == NVDLA_CALIBRATES
        counted = (chip - 1e3 * joules["idle"]) / theirs
        note = "calibrates idle_watts; " if calibrates else ""
        note += f"x {counted:.2f} before calibration; chip without DRAM, beside average power a frame"
        factor = None if calibrates else 2.0
        yield Figure(f"NVDLA {macs}, energy a frame", chip, theirs, "mJ", None, note, factor)


def _without_fold(machine: Machine) -> Machine:
    return replace(machine, core=replace(machine.core, mfu=replace(machine.core.mfu, first_layer_fold=False)))


# -- TPU v1 --------------------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    """LSTM0's 24 products of 1472 x 1472 (52 million weights), with 34 vector layers between them."""

    def __init__(self) -> None:
        self.products = nn.ModuleList(nn.Linear(1472, 1472) for _ in range(24))

    def forward(self, x: Any) -> Any:
        for number, product in enumerate(self.products):
            y = product(x)
            x = y.sigmoid() if number % 2 else y.tanh()
            if number % 12 < 5:
                x = x * y
        return x


def mlp(side: int, layers: int) -> Any:
    return nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(side, side), nn.ReLU())))


def cnn(channels: int = 236, layers: int = 16) -> Any:
    """8 million weights in 16 convolutions of 3 x 3 over 19 x 19: 8 x 361 operations a weight byte."""
    return nn.Sequential(
        *(m for _ in range(layers) for m in (nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()))
    )


TPU: dict[str, tuple[Any, tuple[int, ...], float, float | None, str]] = {
    "MLP0": (lambda: mlp(2000, 5), (200, 2000), 12.3, 12, "five square layers, 20 million weights"),
    "MLP1": (lambda: mlp(1118, 4), (168, 1118), 9.7, 12, "four square layers, 5 million weights"),
    "LSTM0": (
        Recurrent,
        (64, 1472),
        3.7,
        None,
        "24 products, 34 vector layers between them on our vector unit",
    ),
    "CNN0": (cnn, (8, 236, 19, 19), 86.0, None, "16 convolutions of 236 channels over 19 x 19"),
}


def tpu() -> Iterator[Figure]:
    for name, (make, shape, published, aim, note) in TPU.items():
        tb.manual_seed(0)
        model = make()
        weights = sum(p.numel() for p in model.parameters() if p.ndim > 1)
        places = int(np.prod(shape[2:])) if len(shape) > 2 else 1
        work = 2 * shape[0] * places * weights / 1e12
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        run, plain = tpu_run(name), _time(tb.quantize(model.eval(), [x]), x, "tpu-v1", floats=True)
        matrix = next(row.cycles for row in run.stalls if row.queue == "matrix")
        note += f"; the unit waits for operands in {matrix['operand'] / run.cycles:.0%} of its cycles"
        note += f"; {work / busy(plain):.2f} TOPS with floats in and out through the same DRAM"
        yield Figure(f"TPU v1 {name}", work / busy(run), published, "TOPS", aim, note)


def tpu_run(name: str) -> Run:
    tb.manual_seed(0)
    make, shape, *_ = TPU[name]
    model = make()
    behind = nn.Linear(shape[1], 1) if len(shape) == 2 else nn.Conv2d(shape[1], 1, 1)
    return timed(model, shape, "tpu-v1", behind)


# -- parts with one pool -------------------------------------------------------------------------------------


def alexnet_convolutions() -> Any:
    """The five of the paper, those in the middle in two groups, with its poolings."""
    sizes = ((3, 96, 11, 4, 0, 1), (96, 256, 5, 1, 2, 2), (256, 384, 3, 1, 1, 1), (384, 384, 3, 1, 1, 2),
             (384, 256, 3, 1, 1, 2))  # fmt: skip
    layers: list[Any] = []
    for number, (a, b, kernel, stride, pad, groups) in enumerate(sizes):
        layers += [nn.Conv2d(a, b, kernel, stride, pad, groups=groups), nn.ReLU()]
        layers += [nn.MaxPool2d(3, 2)] if number in (0, 1, 4) else []
    return nn.Sequential(*layers)


def pooled() -> Iterator[Figure]:
    """Eyeriss: AlexNet's convolutions, int16, batch 4. Gemmini: ResNet-50, int8, cycles an image."""
    tb.manual_seed(0)
    shape = (4, 3, 227, 227)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    run = _time(tb.quantize(alexnet_convolutions().eval(), [x], scheme="int16"), x, "eyeriss")
    moved = run.roofline.dram_bytes / 1e6
    note = (
        f"{run.cycles:,} cycles and {moved:.1f} MB of DRAM for 4 frames (published 15.4 MB, run-length coded)"
    )
    yield Figure("Eyeriss, AlexNet convolutions", 4 / busy(run), 34.7, "fps", None, note)
    q, x = quantised_resnet50()
    run = _time(q, x, "gemmini")
    cycles = busy(run) * run.machine.clock_ghz * 1e9
    yield Figure("Gemmini, ResNet-50", cycles / 1e6, 38.4, "M cycles", None, "one image, int8")


def with_published_times() -> dict[str, tuple[Run, float]]:
    """Runs for a table of modelling options, with the seconds that their papers' figures mean."""
    make, shape, tops, _, _ = TPU["MLP0"]
    weights = sum(p.numel() for p in make().parameters() if p.ndim > 1)
    q, x = quantised_resnet50()
    return {
        "TPU v1 MLP0, compiled": (tpu_run("MLP0"), 2 * shape[0] * weights / tops / 1e12),
        **{
            f"NVDLA {macs} ResNet-50, compiled": (_time(q, x, f"nvdla-{macs}"), 1 / NVDLA[macs][0])
            for macs in (2048, 512)
        },
    }


def figures() -> Iterator[Figure]:
    yield from tpu()
    yield from networks()
    yield from pooled()


HEAD = """
## Compiled from graphs

The same parts, with networks that the compiler maps instead of programs and formulas written for the
gate: layers in Python, quantised, mapped by the search, timed by T1 without data, launch excluded
(`examples/processor/compiled.py`). They show the compiler as much as the model of the part: the gates
above say what the part's units and bandwidths allow, the distance to them is what code generation leaves.
All of these parts take integers from their host and give integers back, so what is timed begins behind the
input's quantisation and ends before the result's; what floats would cost through the part's one DRAM stands
beside. TPU v1: DRAM carries weights without a pause from the first layer to the last; what is missing is its
efficiency of 0.85, and inputs and results, which the part exchanges with its host by another way. Tiles have
a quarter of the array's columns and all inputs, so that whole sums leave the unit finished; the part has wide
tiles and waits for weights instead. Its CNN0: weights of a layer exceed the weight memory, and either sums
come in parts, which our vector unit has to finish, or tiles are narrow. NVDLA: at the end of a residual block
the vector unit passes a tile ten times where the part's own unit behind the sums takes one pass. Eyeriss:
64-bit sums leave room for small tiles in a pool of 108 KiB, so DRAM carries six times the published bytes.
Gemmini's published figure is of the whole system with its host core.

| network | ours | published | error | aim | result | note |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    found = list(figures())
    lines = ["| " + " | ".join(f.cells()) + " |" for f in found]
    energy = [f for f in found if f.name.endswith("energy a frame")]
    ours, theirs = (sorted(energy, key=key) for key in (lambda f: f.ours, lambda f: f.published))
    texts = [" < ".join(f.name.split()[1].rstrip(",") for f in order) for order in (ours, theirs)]
    result = "pass" if texts[0] == texts[1] else "miss"
    lines.append("| " + " | ".join(("NVDLA, order of energy", *texts, "-", "kept", result, "")) + " |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page())
