"""Caches attacked between processes, processes killed while they write, forks while others compute."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from file_attacks import ATTACKS, mended

PROGRAM = """
import hashlib, sys
import numpy as np
import trilobite as tb
r = np.random.default_rng(1)
x, w = (tb.asarray(r.standard_normal((9, 9)).astype(np.float32)) for _ in range(2))
layer = tb.nn.Linear(9, 4)
tb.manual_seed(0)
for p in layer.parameters():
    p.data.copy_(tb.asarray(r.standard_normal(tuple(p.shape)).astype(np.float32)))
functions = [
    lambda v: tb.tanh(v @ w) + v, lambda v: tb.nn.functional.softmax(v, -1).sum(0), lambda v: layer(v).exp(),
    lambda v: tb.sin(v) * 2 - v.mean(1, keepdim=True),
]
print("begin", flush=True)
for f in functions:
    print(hashlib.sha256(tb.jit(f)(x).detach().numpy().tobytes()).hexdigest(), flush=True)
"""

FORKS = """
import os, signal, sys, threading
import numpy as np
import trilobite as tb
x = tb.asarray(np.random.default_rng(2).standard_normal((120, 120)).astype(np.float32))
state = tb.zeros((120, 120))
def stateful(v):
    state.copy_(tb.tanh(v @ v))
    return state + v.sum(0)
f = tb.jit(lambda v: tb.tanh(v @ v) + v.sum(0))
s = tb.jit(stateful)
want, kept = f(x).numpy().tobytes(), s(x).numpy().tobytes()
stop = threading.Event()
def work():
    while not stop.is_set():
        f(x)
        s(x)
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
for t in threads:
    t.start()
bad = 0
for i in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        same = f(x).numpy().tobytes() == want and s(x).numpy().tobytes() == kept
        if i % 8 == 0:  # compiles something new, too
            g = tb.jit(lambda v: tb.cos(v) * (i + 2))
            same = same and np.allclose(g(x).numpy(), np.cos(x.numpy()) * (i + 2), atol=1e-4 * (i + 2))
        os._exit(0 if same else 3)
    bad += os.waitpid(child, 0)[1] != 0
stop.set()
for t in threads:
    t.join()
print("bad", bad)
"""


def run(text: str, cache: Path, *args: str, timeout: float = 300) -> list[str]:
    environment = {**os.environ, "TRILOBITE_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text, *args],
        env=environment, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_programs_after_attacks_on_their_cache(seed: int, tmp_path: Path) -> None:
    """Every file of a warm cache is attacked: the next process makes anew what it cannot trust."""
    r = np.random.default_rng(seed)
    cache = tmp_path / "cache"
    want = run(PROGRAM, cache)
    attacks = 0
    for _ in range(4):
        files = [p for p in cache.rglob("*") if p.is_file() and not p.is_symlink()]
        for path in files:
            other = files[int(r.integers(len(files)))]
            if path.is_file() and other.is_file() and other.stat().st_size and path.stat().st_size:
                ATTACKS[int(r.integers(len(ATTACKS)))](path, other, r)
                attacks += 1
        assert run(PROGRAM, cache) == want
        for path in list(cache.rglob("*")):  # what stands in the way of a file for good
            if not path.is_file() and not (path.is_dir() and any(path.iterdir())):
                mended(path)
    assert attacks > 40


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_processes_killed_while_they_compile(seed: int, tmp_path: Path) -> None:
    r = np.random.default_rng(seed)
    want = run(PROGRAM, tmp_path / "calm")
    cache = tmp_path / "cache"
    for _ in range(8):
        environment = {**os.environ, "TRILOBITE_CACHE": str(cache)}
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROGRAM],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(float(r.uniform(0, 1.2)))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert run(PROGRAM, cache) == want


@pytest.mark.parametrize("count", [6, pytest.param(200, marks=pytest.mark.long)])
def test_forks_while_threads_compute(count: int, tmp_path: Path) -> None:
    assert run(FORKS, tmp_path / "cache", str(count), timeout=600) == ["bad", "0"]
