"""Published figures beside networks that the compiler maps: graphs in, cycles of the simulated part out.

Enters: nothing. Leaves: gates for `validate.py`. Each network is written in plain layers, quantised to the
part's format, compiled for it by the same search as any other, and timed by T1 without data. Nothing here is
chosen by hand but the shapes; where a paper does not print them, the note says what was assumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.compiler.graph.passes.inline import specialise
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.registry import executable
from trilobite.processor import Machine, Run

nn = tb.nn


@dataclass(frozen=True)
class Figure:
    """A figure beside a published one; `aim` is in percent, None where it is only reported."""

    name: str
    ours: float
    published: float
    unit: str
    aim: float | None
    note: str

    @property
    def error(self) -> float:
        return 100 * (self.ours / self.published - 1)


def timed(model: Any, shape: tuple[int, ...], machine: str | Machine) -> Run:
    """A quantised model on a part: cycles and energy of one call, without its data."""
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    q = tb.quantize(model.eval(), [x])
    return _time(q, x, machine)


def _time(q: Any, x: np.ndarray[Any, Any], machine: str | Machine) -> Run:
    graph = q.quantization.graph
    graph = specialise(graph, dict.fromkeys(graph.symbols, x.shape[0]))
    values = [x, *(np.asarray(q.get_buffer(name).numpy()) for name in q.quantization.names)]
    target = f"dlp:{machine}" if isinstance(machine, str) else machine
    made: Any = executable(graph, target, Usage(stable=frozenset(range(1, len(values)))))
    run: Run = made.time(values)
    return run


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


NVDLA = {2048: 269, 512: 93, 128: 20}


def networks() -> Iterator[Figure]:
    """ResNet-50, int8, batch 1."""
    q, x = quantised_resnet50()
    for macs, frames in NVDLA.items():
        run = _time(q, x, f"nvdla-{macs}")
        note = f"{run.cycles:,} cycles; {run.energy.total * 1e3:.2f} mJ with DRAM"
        yield Figure(f"NVDLA {macs}, ResNet-50", 1 / busy(run), frames, "fps", 20, note)


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
        run = timed(model, shape, "tpu-v1")
        weights = sum(p.numel() for p in model.parameters() if p.ndim > 1)
        places = int(np.prod(shape[2:])) if len(shape) > 2 else 1
        work = 2 * shape[0] * places * weights
        yield Figure(f"TPU v1 {name}", work / busy(run) / 1e12, published, "TOPS", aim, note)


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
    tb.manual_seed(0)
    make, shape, tops, _, _ = TPU["MLP0"]
    model = make()
    weights = sum(p.numel() for p in model.parameters() if p.ndim > 1)
    q, x = quantised_resnet50()
    return {
        "TPU v1 MLP0, compiled": (timed(model, shape, "tpu-v1"), 2 * shape[0] * weights / tops / 1e12),
        "NVDLA 512 ResNet-50, compiled": (_time(q, x, "nvdla-512"), 1 / NVDLA[512]),
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
Known causes: where hardware orders the units (TPU, NVDLA) a group's weights are not fetched while the group
before it computes. TPU v1 MLP0: rows of 2000 weights begin inside DRAM's granules of 64 bytes, so that tiles
read more than they need. Eyeriss: 64-bit sums leave room for small tiles in a pool of 108 KiB, so DRAM
carries six times the published bytes. Gemmini's published figure is of the whole system with its host core.

| network | ours | published | error | aim | result | note |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    lines = []
    for f in figures():
        aim = "reported" if f.aim is None else f"{f.aim:g}%"
        result = "reported" if f.aim is None else "pass" if abs(f.error) <= f.aim else "miss"
        cells = (
            f.name,
            f"{f.ours:.2f} {f.unit}",
            f"{f.published:g} {f.unit}",
            f"{f.error:+.1f}%",
            aim,
            result,
        )
        lines.append("| " + " | ".join((*cells, f.note)) + " |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page())
