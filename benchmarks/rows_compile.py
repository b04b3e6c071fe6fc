"""Compilation and dispatch.

How much longer the first call of a network in a fresh process takes than a later one, from an empty cache
(cold) and from that of an earlier process (warm); of ONNX Runtime, with the reading of its model. (A training
step alone takes longer than the aim, so it is not in it.) What a call of a compiled function costs that
does next to nothing. How the time of the first call grows with the number of operations: layers of nine
operations and a matrix product, all alike, drawn anew for every sample so that no cache knows them. How long
a BANG C kernel of 300 lines takes from its source to instructions, clang included, drawn anew as well.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import fresh, ours
from benchmarks.row import Row, Work

THREADS = 2
INFERENCE, TRAINING = "ResNet-18 b1", "ResNet-18 32×32 b32"
MODULE = {INFERENCE: "benchmarks.rows_networks", TRAINING: "benchmarks.rows_training"}
CACHES = {
    "trilobite": "TRILOBITE_CACHE",
    "torch.compile": "TORCHINDUCTOR_CACHE_DIR",
    "jax": "JAX_COMPILATION_CACHE_DIR",
}


def first_call(row: str, system: str, environment: dict[str, str]) -> float:
    if system == "onnxruntime":
        return fresh.from_model_file("first", MODULE[row], f"{row} / {THREADS}")
    return fresh.measured("first", system, MODULE[row], f"{row} / {THREADS}", environment)


def cold(row: str, system: str) -> Work:
    def work() -> float:
        with tempfile.TemporaryDirectory() as folder:
            return first_call(row, system, {CACHES[system]: folder} if system in CACHES else {})

    return work


def warm(row: str, system: str) -> Work:
    """The first process fills the cache."""
    folder = tempfile.TemporaryDirectory()  # lives as long as the work
    environment = {CACHES[system]: folder.name} if system in CACHES else {}
    if system == "jax":
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    first_call(row, system, environment)
    return lambda: first_call(row, system, environment) if Path(folder.name).is_dir() else 0.0


def first_row(
    row: str, kind: str, make: Callable[[str, str], Work], peers: tuple[str, ...], aim: float
) -> Row:
    return Row(
        f"{row}, {kind}",
        {name: partial(make, row, name) for name in ("trilobite", *peers)},
        unit="s",
        threads=THREADS,
        aim=aim,
        times_itself=True,
        most_rounds=1 if kind == "cold" else 3,
    )


# -- dispatch ------------------------------------------------------------------------------------------------


def tiny_on_trilobite() -> Work:
    import trilobite as tb

    add, x = ours.compiled(lambda x: x + 1), tb.tensor(np.arange(4, dtype=np.float32))
    return lambda: add(x)


def tiny_on_torch() -> Work:
    import torch

    from benchmarks.peers import on_torch

    return on_torch.job(on_torch.compiled(lambda x: x + 1), torch.arange(4.0)).work


def tiny_on_jax() -> Work:
    import jax
    import jax.numpy as jnp

    add, x = jax.jit(lambda x: x + 1), jnp.arange(4, dtype=jnp.float32)
    return lambda: add(x).block_until_ready()


CELLS = 200


def cells_on_trilobite() -> Work:
    import trilobite as tb

    cells = [tb.tensor(np.full(4, i, np.float32)) for i in range(CELLS)]

    def update(x: Any) -> None:
        for cell in cells:
            cell.mul_(x)

    step, x = ours.compiled(update), tb.tensor(np.float32(0.5))
    return lambda: step(x)


def cells_on_jax() -> Work:
    import jax
    import jax.numpy as jnp

    cells = [jnp.full(4, i, jnp.float32) for i in range(CELLS)]
    step = jax.jit(lambda cells, x: [c * x for c in cells], donate_argnums=(0,))
    x = jnp.float32(0.5)

    def work() -> object:
        nonlocal cells
        cells = step(cells, x)
        return cells[-1].block_until_ready()

    return work


# -- growth --------------------------------------------------------------------------------------------------


def chain(x: Any, w: Any, tanh: Callable[[Any], Any], constants: Any) -> Any:
    """One operation a constant."""
    for i, c in enumerate(constants):
        kind = i % 10
        x = x @ w if kind == 9 else tanh(x) if kind == 4 else x * c if kind % 2 else x + c
    return x


_seeds = itertools.count(int(perf_counter() * 1e6))


def constants(nodes: int) -> list[float]:
    """Ten numbers again and again: layers repeat in networks, too."""
    drawn = [float(c) for c in np.random.default_rng(next(_seeds)).uniform(0.5, 1.5, 10)]
    return list(itertools.islice(itertools.cycle(drawn), nodes))


def growth_on_trilobite(nodes: int) -> Work:
    import trilobite as tb

    x, w = (tb.tensor(np.eye(16, dtype=np.float32)) for _ in range(2))

    def work() -> float:
        drawn = constants(nodes)
        fn = ours.compiled(lambda x, w: chain(x, w, tb.tanh, drawn))
        start = perf_counter()
        fn(x, w)
        return perf_counter() - start

    return work


def growth_on_jax(nodes: int) -> Work:
    import jax
    import jax.numpy as jnp

    x, w = jnp.eye(16), jnp.eye(16)

    def work() -> float:
        drawn = constants(nodes)
        fn = jax.jit(lambda x, w: chain(x, w, jnp.tanh, drawn))
        start = perf_counter()
        fn(x, w).block_until_ready()
        return perf_counter() - start

    return work


def growth_row(nodes: int) -> Row:
    rounds = 3 if nodes < 10_000 else 1
    systems = {"trilobite": partial(growth_on_trilobite, nodes)}
    if nodes <= 100:
        systems["jax"] = partial(growth_on_jax, nodes)
    return Row(
        f"{nodes:,} operations", systems, unit="ms", threads=THREADS, times_itself=True, most_rounds=rounds
    )


# -- kernels -------------------------------------------------------------------------------------------------

LINES = 300
HEAD = """#include <bang.h>
#include <algorithm>
__nram__ float a[1024], b[1024], c[1024], d[1024];
template <typename T> __mlu_func__ T within(T x, T low, T high) { return std::min(std::max(x, low), high); }
__mlu_entry__ void dense(float *x, float *out, int n, int m, int k) {
  float s = 0, t = 1;
  int at = taskId * 64;"""
PIECES = (  # of a kernel: {v} and {w} are buffers, {f} is a number, {i} a small whole one
    """  for (int i = {i}; i < n; ++i) {{
    for (int j = 0; j < m; j += {i}) {{
      if ((i * 7 + j) % {i} == 1) s += {v}[(i * m + j) % 1024] * {f}f;
      else {w}[(i + j * k) % 1024] = within(t, -{f}f, 8.0f);
    }}
  }}""",
    """  __memcpy({v}, x + at + {i}, sizeof({v}), GDRAM2NRAM);
  __bang_mul_scalar({w}, {v}, {f}f, 1024);
  __bang_add({v}, {w}, {v}, 1024);""",
    """  if (k > {i}) {{
    __bang_active_exp({v}, {w}, 1024);
    t += {v}[k % 1024];
  }} else {{
    __bang_sub({v}, {v}, {w}, 1024);
  }}""",
    """  while (at < n * {i}) {{
    at += m + {i};
    {w}[at & 1023] += s * {f}f;
  }}
  __memcpy(out + at, {w}, 512, NRAM2GDRAM);""",
)


def dense_source() -> str:
    rng = np.random.default_rng(next(_seeds))
    text = HEAD
    while text.count("\n") < LINES - 3:
        v, w = rng.choice(list("abcd"), 2)
        number = {"f": round(float(rng.uniform(0.1, 4)), 3), "i": int(rng.integers(2, 9))}
        text += "\n" + PIECES[rng.integers(len(PIECES))].format(v=v, w=w, **number)
    return text + "\n  out[taskId] = s * t;\n}\n"


def kernel_on_trilobite() -> Work:
    from trilobite.processor.lang.bang.source import compile_file
    from trilobite.processor.machine import load_machine

    machine = load_machine("mlu370-x4")

    def work() -> float:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "dense.mlu"
            source.write_text(dense_source(), encoding="utf-8")
            start = perf_counter()
            compile_file(source, machine)
            return perf_counter() - start

    work()  # imports
    return work


ROWS = (
    first_row(INFERENCE, "cold", cold, ("torch.compile", "onnxruntime", "jax"), 3.0),
    first_row(INFERENCE, "warm", warm, ("torch.compile", "jax"), 0.4),
    first_row(TRAINING, "cold", cold, ("jax",), 8.0),
    first_row(TRAINING, "warm", warm, ("jax",), 0.4),
    Row(
        "dispatch of x + 1",
        {"trilobite": tiny_on_trilobite, "torch.compile": tiny_on_torch, "jax": tiny_on_jax},
        aim=10e-6,
        quick=True,
    ),
    Row(
        f"dispatch of a step with {CELLS} cells",
        {"trilobite": cells_on_trilobite, "jax": cells_on_jax},
        aim=60e-6,
    ),
    *map(growth_row, (10, 100, 1000, 10_000)),
    Row(
        f"BANG C kernel of {LINES} lines, cold",
        {"trilobite": kernel_on_trilobite},
        unit="s",
        threads=THREADS,
        aim=0.5,
        times_itself=True,
        most_rounds=5,
    ),
)
