"""Compiled sums of two processes beside MPI's own: `trilobite launch -n 2 benchmarks/cluster_collectives.py`.

A compiled function makes several sums one after another, each of what the last gave, so that none hides
behind another; MPI's Allreduce does as many. Both in turns; the minimum over rounds of the slowest rank.
Large arrays take three seconds: where the system gives small pages first, it has joined them by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import trilobite as tb
from trilobite import cluster

ROUNDS = 15
STEADY = 3.0  # seconds
SIZES = {"1 KB": 1 << 10, "64 KB": 1 << 16, "1 MB": 1 << 20, "16 MB": 1 << 24, "64 MB": 1 << 26}


def chained(count: int) -> Any:
    @tb.jit
    def sums(x: Any) -> Any:
        for _ in range(count):
            x = cluster.all_reduce(x)
        return x

    return sums


def seconds(run: Callable[[], Any], count: int) -> float:
    cluster.barrier()
    begun = time.perf_counter()
    run()
    own = (time.perf_counter() - begun) / count
    return float(cluster.all_reduce(np.float64(own), "max").item())


def main() -> None:
    from mpi4py import MPI

    for name, size in SIZES.items():
        count = max(4, min(400, (1 << 22) // size))
        x = np.zeros(size // 4, np.float32)
        given, sums, out = tb.tensor(x), chained(count), np.empty_like(x)

        def raw(x: Any = x, out: Any = out, count: int = count) -> None:
            for _ in range(count):
                MPI.COMM_WORLD.Allreduce([x, MPI.FLOAT], [out, MPI.FLOAT])

        def own(sums: Any = sums, given: Any = given) -> None:
            sums(given).numpy()

        own()
        raw()
        pairs = [(seconds(own, count), seconds(raw, count)) for _ in range(ROUNDS)]
        while size >= 1 << 24 and sum(map(sum, pairs)) * count < STEADY:
            pairs.append((seconds(own, count), seconds(raw, count)))
        ours, theirs = (min(column) for column in zip(*pairs, strict=True))
        if cluster.rank() == 0:
            print(
                f"{name:>6}: {ours * 1e6:10.1f} us, MPI {theirs * 1e6:10.1f} us, ratio {ours / theirs:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
