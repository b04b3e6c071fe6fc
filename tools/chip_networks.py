"""Networks of every kind on machines of every kind, beside the CPU or the interpreter.

    python -m tools.chip_networks                         # all networks on all machines
    python -m tools.chip_networks resnet18 unet --on dlp-s,tpu-v1

Full networks on pictures and sequences small enough that each finishes in seconds. Where a machine multiplies
integers alone (tpu-v1), networks are quantised first and, without transcendental functions, equal in every
bit; floats are held against the CPU within `BOUND` of the largest value. Prints one line each: error, cycles,
joules, seconds; ends with status 1 if any disagrees.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import trilobite as tb

MACHINES = ("dlp-s", "dlp-m", "mlu370-x4", "tpu-v1", "odd")
INTEGERS = frozenset({"tpu-v1"})  # machines whose networks are quantised first
BOUND = 2e-5  # of the largest value, for float32 results whose sums are taken in another order
STEP = 0.02  # of the largest value, for quantised networks with transcendental functions: about one step
ODD = """
name: odd
clock_ghz: 0.7
interlock: none
clusters: 1
cores_per_cluster: 3
memory_core: false
core:
  nram: {kib: 67, banks: 1, bytes_per_cycle: 61, reserved_kib: 13}
  wram: {kib: 29, banks: 1, bytes_per_cycle: 53}
  acc: {kib: 0}
  mfu: {geometry: systolic-ws, rows: 7, cols: 11, weight_buffers: 1,
        macs_per_cycle: {int8: 77, fp16: 38, bf16: 38, fp32: 19}}
  vfu: {bytes_per_cycle: 24, granule_bytes: 8}
  queues: {depth: 3}
  io_dma: {bytes_per_cycle: 5, outstanding: 2}
  move_dma: {bytes_per_cycle: 7}
sram: {kib: 0}
noc: {kind: none}
dram: {gb_per_s: 3.1, channels: 1, latency_ns: 130, efficiency: 0.85, granule_bytes: 64, burst_bytes: 512}
"""
"""A chip of small scratchpads and prime sizes."""


@dataclass(frozen=True)
class Row:
    """A network of the zoo, options that make it small, and what it is called with."""

    name: str
    inputs: Callable[[np.random.Generator], tuple[Any, ...]]
    options: tuple[tuple[str, Any], ...] = ()
    smooth: bool = True  # transcendental functions or float sums: bits may differ when quantised
    run: Callable[[Any], Callable[..., Any]] = lambda model: model


def _picture(side: int, channels: int = 3) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    return lambda rng: (tb.tensor(rng.normal(size=(1, channels, side, side)).astype(np.float32)),)


def _text(symbols: int, length: int) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    return lambda rng: (tb.tensor(rng.integers(0, symbols, (1, length))),)


class Decoder(tb.nn.Module):
    """A prompt into the cache, then tokens one by one from it: scores of each."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def forward(self, tokens: Any) -> Any:
        cache = self.model.cache(1, 16)
        first = self.model.prefill(tokens[:, :5], cache)
        places = range(5, tokens.shape[1])
        later = [self.model.decode(tokens[:, n : n + 1], tb.tensor([n]), cache) for n in places]
        return tb.stack([first, *later], axis=1)


_SMALL = (("vocabulary", 101), ("width", 48), ("heads", 3), ("layers", 2))
ROWS = (
    Row("mlp", lambda rng: (tb.tensor(rng.normal(size=(3, 784)).astype(np.float32)),), smooth=False),
    Row("lenet", _picture(28, 1), smooth=False),
    Row("alexnet", _picture(67), (("classes", 10),), smooth=False),
    Row("vgg19", _picture(32), (("classifier", False),), smooth=False),
    Row("googlenet", _picture(32), (("classes", 10),), smooth=False),
    Row("resnet18", _picture(32), (("classes", 10),), smooth=False),
    Row("resnet50", _picture(32), (("classes", 10),), smooth=False),
    Row("mobilenet_v2", _picture(32), (("classes", 10),), smooth=False),
    Row("char_lstm", _text(96, 7), (("width", 40),)),
    Row("bert_base", _text(101, 9), (*_SMALL, ("context", 16))),
    Row("gpt2", _text(101, 8), (*_SMALL, ("context", 16)), run=Decoder),
    Row("unet", _picture(32, 1), (("widths", (8, 16, 24, 40, 56)),), smooth=False),
    Row("tiny_yolov3", _picture(32), (("classes", 4),), smooth=False),
    Row("style_transform", _picture(20)),
)


@dataclass(frozen=True)
class Found:
    """One network on one machine."""

    name: str
    machine: str
    error: float
    bound: float
    cycles: int
    joules: float
    seconds: float

    @property
    def agrees(self) -> bool:
        return self.error <= self.bound

    def __str__(self) -> str:
        mark = "" if self.agrees else f"   DISAGREES: above {self.bound:g}"
        cells = f"{self.name:<16} {self.machine:<10} error {self.error:8.2e}  {self.cycles:>12,} cycles"
        return f"{cells}  {self.joules * 1e3:9.3f} mJ  {self.seconds:6.1f} s{mark}"


def model_of(row: Row) -> Any:
    """Random weights of the usual sizes, and batch norms that have seen something."""
    tb.manual_seed(7)
    rng = np.random.default_rng(7)
    model = tb.zoo.create(row.name, **dict(row.options)).eval()
    norms = [m for m in model.modules() if isinstance(m, tb.nn.BatchNorm2d)]
    for mean, variance in ((m.running_mean, m.running_var) for m in norms):
        assert mean is not None and variance is not None
        mean.copy_(tb.tensor(rng.normal(size=mean.shape).astype(np.float32) / 10))
        variance.copy_(tb.tensor(rng.uniform(0.5, 2, variance.shape).astype(np.float32)))
    return row.run(model)


def leaves(result: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(t.numpy()) for t in tb.tree.flatten(result, lambda x: isinstance(x, tb.Tensor))[0]]


def compare(row: Row, machine: str, odd: str, integers: bool | None = None) -> Found:
    """A network on a machine beside the CPU (quantised: the interpreter's bits are the CPU's)."""
    integers = machine in INTEGERS if integers is None else integers
    began = time.perf_counter()
    model, x = model_of(row), row.inputs(np.random.default_rng(3))
    bound = BOUND
    if integers and row.run is not Decoder:  # a cache is state, which quantize refuses
        model, bound = tb.quantize(model, [x]), STEP if row.smooth else 0.0
    with tb.no_grad():
        chip = tb.jit(model, target=f"dlp:{odd if machine == 'odd' else machine}")
        got, want = leaves(chip(*x)), leaves(tb.jit(model, target="cpu")(*x))
    error = max(float(np.abs(a - b).max() / (np.abs(b).max() or 1)) for a, b in zip(got, want, strict=True))
    run = chip.last_run
    return Found(row.name, machine, error, bound, run.cycles, run.energy.total, time.perf_counter() - began)


def found(names: list[str], machines: list[str]) -> Iterator[Found]:
    with tempfile.TemporaryDirectory() as folder:
        odd = Path(folder) / "odd.yaml"
        odd.write_text(ODD, encoding="utf-8")
        for row in ROWS:
            for machine in machines if not names or row.name in names else ():
                yield compare(row, machine, str(odd))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(row.name for row in ROWS))
    parser.add_argument("--on", default=",".join(MACHINES), help="machines, with commas between")
    given = parser.parse_args()
    wrong = 0
    for one in found(given.names, given.on.split(",")):
        print(one, flush=True)
        wrong += not one.agrees
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
