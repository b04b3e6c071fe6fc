"""Attention on the processor beside its roof.

    python -m benchmarks.chip_attention dlp-s dlp-m

The roof is the larger of multiply-accumulates of both products at the array's peak and compulsory bytes at
DRAM's bandwidth.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from trilobite.base.dtypes import DType, bfloat16, float16, float32
from trilobite.compiler.targets.dlp.kernels.attention import RATES, Attention, blocks_of, cycles_of_blocks
from trilobite.processor.machine import Machine, load_machine

SHAPES = ((4, 512, 64), (2, 1024, 128), (8, 128, 64))  # heads, tokens, features
OTHERS = {
    "causal": Attention(4, 1, 1024, 1024, 64, 64, 0.125, True, float16),
    "four heads share keys": Attention(8, 4, 512, 512, 64, 64, 0.125, False, float16),
    "cross, odd sizes": Attention(4, 1, 300, 700, 80, 80, 0.11, False, float16),
    "a query, 4,096 keys": Attention(16, 1, 1, 4096, 64, 64, 0.125, False, float16),
    "bfloat16": Attention(4, 1, 512, 512, 64, 64, 0.125, False, bfloat16),
}


@dataclass(frozen=True)
class Row:
    """Cycles without the launch, and the roof."""

    cycles: int
    roof: float


def roof_of(a: Attention, machine: Machine) -> float:
    scores = a.queries * a.keys
    if a.causal:
        scores = sum(min(i + 1, a.keys) for i in range(a.queries))
    peak = machine.core.mfu.macs_per_cycle[RATES[a.dtype]] * machine.cores
    array: float = a.heads * scores * (a.width + a.values) / peak
    elements = (a.heads * a.queries + a.heads // a.group * a.keys) * (a.width + a.values)
    return max(array, float(elements * a.dtype.itemsize / machine.dram_bytes_per_cycle))


def measured(machine: Machine, a: Attention) -> Row:
    cores = machine.clusters * machine.cores_per_cluster
    cycles = cycles_of_blocks(a, machine, cores, blocks_of(a, machine, cores))
    return Row(cycles - machine.cycles(machine.launch.overhead_ns), roof_of(a, machine))


def square(dtype: DType, heads: int, tokens: int, width: int) -> Attention:
    return Attention(heads, 1, tokens, tokens, width, width, width**-0.5, False, dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("machines", nargs="*", default=["dlp-s", "dlp-m"])
    print("machine  attention                                cycles   of the roof")
    rows = {f"{dtype!s:8} {' x '.join(map(str, shape))}": square(dtype, *shape)
            for dtype in (float32, float16) for shape in SHAPES} | OTHERS  # fmt: skip
    for name in parser.parse_args().machines:
        machine = load_machine(name)
        for text, a in rows.items():
            row = measured(machine, a)
            print(f"{name:8} {text:36} {row.cycles:10} {row.roof / row.cycles:12.0%}", flush=True)


if __name__ == "__main__":
    main()
