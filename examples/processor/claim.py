"""The course's claim as a number: a deep-learning processor beside one core of a CPU, in speed and energy.

    python examples/processor/claim.py --machine dlp-m --watts 4

VGG19 and ResNet-50 with pictures of 224 x 224, one at a time. The CPU's side is measured here, on one
thread, by this package's own kernels, the best of several calls. The processor's side is simulated: the
network is compiled for it and timed by T1; joules are counted actions and idle power. Assumptions: weights
are on the device in both cases; a core takes `--watts` while it works, its part of a server's published
power (a 96-core EPYC 9654 is rated 360 W: 3.75 W a core with its part of caches and memory controllers);
DRAM's energy is in the processor's joules and not in the core's, which favours the CPU. The claim: a
hundred times as fast at a tenth of the energy.

A core of today is made three nodes later than dlp-m is described (16 nm). The second table sets a core of
its node beside it, without measuring: an EPYC 7601 (14 nm, 32 cores, 180 W, 2.7 GHz on all cores) fuses 16
multiplications and additions of float32 a cycle, and no program is faster than that; bytes are counted four
times as fast, which its instructions do not reach. It is what the core could do at best.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from compiled import _time

import trilobite as tb
from trilobite.compiler.graph.passes.inline import inline, specialise
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.registry import executable
from trilobite.ir.primitives.call import graph_flops
from trilobite.processor import Run


@dataclass(frozen=True)
class Core:
    """A core by its published figures."""

    name: str
    gflops: float
    watts: float

    def seconds(self, flops: float, dtype: str) -> float:
        return flops / (self.gflops * 1e9) / (4 if dtype == "int8" else 1)


SAME_NODE = Core("EPYC 7601", gflops=16 * 2.7, watts=180 / 32)


def flops_of(model: Any, x: Any) -> float:
    """Of one picture, multiplications and additions counted apart."""
    from trilobite.framework.quantization.prepare import prepare

    graph = prepare(model, [x]).graph
    return graph_flops(specialise(inline(graph), dict.fromkeys(graph.symbols, 1)))


def row(name: str, dtype: str, cpu: float, watts: float, run: Run) -> str:
    """A core's seconds beside the processor's, in speed and energy."""
    joules = cpu * watts
    speed, thrift = cpu / run.seconds, joules / run.energy.total
    cells = f"{cpu * 1e3:.1f} ms | {run.seconds * 1e3:.3f} ms | x {speed:.1f}"
    more = f"{joules * 1e3:.1f} mJ | {run.energy.total * 1e3:.2f} mJ | 1 / {thrift:.1f}"
    return f"| {name} | {dtype} | {cells} | {more} |"


def on_core(model: Any, x: Any, repeats: int) -> float:
    """Seconds of the best call on one thread."""
    tb.set_num_threads(1)
    with tb.no_grad():
        fast = tb.jit(model, target="cpu")
        fast(x)
        found = []
        for _ in range(repeats):
            began = time.perf_counter()
            fast(x)
            found.append(time.perf_counter() - began)
    return min(found)


def on_chip(model: Any, x: Any, machine: str) -> Run:
    """One call in float32, without its data."""
    from trilobite.framework.quantization.prepare import prepare

    p = prepare(model, [x])
    values = [x.numpy(), *(p.weights[v] for v in p.graph.inputs[1:])]
    made: Any = executable(p.graph, f"dlp:{machine}", Usage(stable=frozenset(range(1, len(values)))))
    run: Run = made.time(values)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--machine", default="dlp-m")
    parser.add_argument("--watts", type=float, default=3.75, help="of one core while it works")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--networks", default="resnet50,vgg19")
    given = parser.parse_args()
    x = tb.tensor(np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32))
    at_best = []
    head = f"| network | format | core | {given.machine} | speed | core | {given.machine} | energy |"
    print(head, "|---|---|---|---|---|---|---|---|", sep="\n")
    for name in given.networks.split(","):
        tb.manual_seed(0)
        model = tb.zoo.create(name).eval()
        small, flops = tb.quantize(model, [x]), flops_of(model, x)
        for dtype, cpu, run in (
            ("float32", on_core(model, x, given.repeats), on_chip(model, x, given.machine)),
            ("int8", on_core(small, x, given.repeats), _time(small, x.numpy(), given.machine)),
        ):
            print(row(name, dtype, cpu, given.watts, run), flush=True)
            at_best.append(row(name, dtype, SAME_NODE.seconds(flops, dtype), SAME_NODE.watts, run))
    print(f"\n{SAME_NODE.name} at its peak:\n", head, "|---|---|---|---|---|---|---|---|", *at_best, sep="\n")


if __name__ == "__main__":
    main()
