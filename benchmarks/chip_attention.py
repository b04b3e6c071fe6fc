"""Attention on the processor beside its roofs: of the array and DRAM, and of the way that was chosen.

    python -m benchmarks.chip_attention dlp-s dlp-m

The first roof is the larger of multiply-accumulates at the array's peak and compulsory bytes at DRAM's
bandwidth. A score also passes the vector unit: its maximum, the difference, the exponential (eight passes),
its sum. Halves may have their exponentials from the matrix unit's drain, for which keys and queries are
multiplied twice. The second roof counts what the way that was chosen does.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from trilobite.base.dtypes import DType, float16, float32
from trilobite.compiler.targets.dlp.kernels.attention import (
    BYTES,
    BYTES_TWICE,
    RATES,
    Attention,
    blocks_of,
    cycles_of_blocks,
)
from trilobite.processor.machine import Machine, load_machine

SHAPES = ((4, 512, 64), (2, 1024, 128), (8, 128, 64))  # heads, tokens, features


@dataclass(frozen=True)
class Row:
    """Cycles without the launch, the roof, and that of the way that was chosen."""

    cycles: int
    roof: float
    own: float


def measured(machine: Machine, dtype: DType, heads: int, tokens: int, width: int) -> Row:
    cores = machine.clusters * machine.cores_per_cluster
    a = Attention(heads, 1, tokens, tokens, width, width, width**-0.5, False, dtype)
    blocks = blocks_of(a, machine, cores)
    cycles = cycles_of_blocks(a, machine, cores, blocks) - machine.cycles(machine.launch.overhead_ns)
    scores, core = heads * tokens * tokens, machine.core
    array = scores * 2 * width / core.mfu.macs_per_cycle[RATES[dtype]] / cores
    moved = 4 * heads * tokens * width * dtype.itemsize / machine.dram_bytes_per_cycle
    passed = BYTES_TWICE if blocks.twice else BYTES[dtype]
    vector = scores * passed / core.vfu.bytes_per_cycle / cores
    return Row(cycles, max(array, moved), max(array * (1.5 if blocks.twice else 1), moved, vector))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("machines", nargs="*", default=["dlp-s", "dlp-m"])
    print("machine  format   heads x tokens x features    cycles   of array, DRAM          of its own way")
    for name in parser.parse_args().machines:
        for dtype in (float32, float16):
            for shape in SHAPES:
                row, text = measured(load_machine(name), dtype, *shape), " x ".join(map(str, shape))
                first, second = row.roof / row.cycles, row.own / row.cycles
                print(f"{name:8} {dtype!s:8} {text:26} {row.cycles:9} {first:12.0%} {second:18.0%}")


if __name__ == "__main__":
    main()
