"""Two processes train together.

One thread each, on this machine; every process has half of the batch and batch norm of its own half. *Data*:
gradients are averaged; PyTorch's DistributedDataParallel on gloo beside `cluster.DataParallel` on MPI,
compiled. *ZeRO 3*: parameters, gradients and optimiser state are split as well; PyTorch's `fully_shard`
beside `cluster.Zero`. A sample is a run of both processes, of which the median step counts. Rows need mpi4py
and an MPI beside this Python.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.row import Row

SHOWN = ("ResNet-18 32×32 b32", "character transformer b16")
STRATEGIES = {"data": "data parallel", "zero": "ZeRO 3"}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def result(system: str, strategy: str, shown: str) -> dict[str, Any]:
    """What the first of two processes prints."""
    rank = [sys.executable, "-m", "benchmarks.cluster_step", system, strategy, shown]
    if system == "trilobite":
        from trilobite.cluster.launch import environment, launcher

        done = subprocess.run(
            [launcher(), "-n", "2", *rank], env=environment(2, 1, 600.0), capture_output=True, text=True
        )
        out, err, code = done.stdout, done.stderr, done.returncode
    else:
        env = {
            **os.environ,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "OMP_NUM_THREADS": "1",
        }
        runs = [
            subprocess.Popen(
                rank, env={**env, "RANK": str(k), "WORLD_SIZE": "2"},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for k in range(2)
        ]  # fmt: skip
        said = [r.communicate() for r in runs]
        out, err, code = said[0][0], said[0][1], max(r.returncode for r in runs)
    if code:
        raise RuntimeError(f"{system} with {strategy}: {err[-2000:]}")
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found


def seconds(system: str, strategy: str, shown: str) -> Callable[[], float]:
    return lambda: float(result(system, strategy, shown)["seconds"])


ROWS = tuple(
    Row(
        f"{shown}, {said}",
        {system: partial(seconds, system, strategy, shown) for system in ("trilobite", "torch")},
        unit="ms",
        aim_ratio=1.0,
        times_itself=True,
        most_rounds=3,
    )
    for shown in SHOWN
    for strategy, said in STRATEGIES.items()
)
