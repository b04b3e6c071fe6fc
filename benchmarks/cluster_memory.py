"""Resident memory of ZeRO beside its formula: `trilobite launch -n 2 benchmarks/cluster_memory.py STAGE`.

A model of 16 layers of 1,792 × 1,792 (206 MB in float32) with Adam, trained three steps on a small batch,
measured after a step. Of P bytes of parameters on n ranks, a rank keeps: without ZeRO 4P (parameters,
gradients, two moments); in stages 1 and 2 P + 3P/n (its part of gradients and moments); in stage 3 4P/n.
Beside it the most that there was: whole gradients at the end of an eager backward pass.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np

import trilobite as tb
from trilobite import cluster, nn, optim

WIDTH, LAYERS = 1792, 16


def resident(row: str = "VmRSS") -> float:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    rows = dict(
        line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line
    )
    return float(rows[row].split()[0]) * 1024


def model() -> nn.Module:
    tb.manual_seed(0)
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])


def warm() -> None:
    """What the package itself takes is there before anything is counted."""
    small = nn.Linear(8, 8)
    small(tb.ones((2, 8))).sum().backward()
    cluster.barrier()


def main() -> None:
    stage = int(sys.argv[1])
    warm()
    before = resident()
    n, whole = cluster.size(), 4.0 * WIDTH * WIDTH * LAYERS
    x = tb.tensor(np.random.default_rng(cluster.rank()).normal(size=(4, WIDTH)).astype("f4"))
    if stage == 0:
        net: Any = cluster.DataParallel(model())
        opt: Any = optim.Adam(net.parameters(), lr=1e-4)
    else:
        net = opt = cluster.Zero(model(), lambda ps: optim.Adam(ps, lr=1e-4), stage)
    for _ in range(3):
        opt.zero_grad()
        (net(x) ** 2).mean().backward()
        net.reduce_gradients()
        opt.step()
    grown = resident() - before
    split = whole + 3 * whole / n
    formula = {0: 4 * whole, 1: split, 2: split, 3: 4 * whole / n}[stage]
    most, peak = cluster.all_reduce(np.array([grown, resident("VmHWM") - before]), "max").tolist()
    if cluster.rank() == 0:
        print(
            f"stage {stage}: {most / 1e6:.0f} MB a rank, formula {formula / 1e6:.0f} MB, "
            f"{most / formula:.2f}; at most {peak / 1e6:.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main()
