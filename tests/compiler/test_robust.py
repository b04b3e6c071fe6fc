"""What goes wrong around compiled functions, seen from `tb.jit`: cache, other processes, dtypes, memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import PlanError, ShapeError

# One function with a product and loops; prints how many kernels LLVM compiled and a digest of the result.
PROGRAM = """
import hashlib, warnings
import numpy as np
import trilobite as tb
from trilobite.native import cache

made, compile_all = [], cache.compile_all
def counted(texts):
    made.extend(texts)
    return compile_all(texts)
cache.compile_all = counted
x = tb.tensor(np.random.default_rng(0).standard_normal((37, 53)).astype("float32"))
w = tb.tensor(np.random.default_rng(1).standard_normal((53, 29)).astype("float32"))
out = tb.jit(lambda x: tb.softmax(tb.tanh(x @ w), -1))(x).numpy()
print(len(made), hashlib.sha256(out.tobytes()).hexdigest())
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(root: Path, tmp_path: Path) -> Start:
    def popen(text: str = PROGRAM, **environment: str) -> subprocess.Popen[str]:
        place = {"PYTHONPATH": str(root), "TRILOBITE_CACHE": str(tmp_path / "cache"), **environment}
        return subprocess.Popen(
            [sys.executable, "-c", text], env={**os.environ, **place}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return popen


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Kernels compiled, the result's digest, and what was said on the way."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    count, digest = out.split()
    return int(count), digest, err


def kept(place: Path) -> list[Path]:
    """What is on disk: objects, programs, what is known of the machine."""
    return sorted(p for p in (place / "cache").rglob("*") if p.is_file())


def test_a_second_process_compiles_nothing(start: Start) -> None:
    cold, first, _ = ended(start())
    assert cold > 1
    assert ended(start()) == (0, first, "")


def damaged(whole: bytes, how: int) -> bytes:
    """Cut off, a bit flipped, emptied, or something else altogether."""
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    return (whole[:middle], flipped, b"", b"#!/bin/sh\n" + whole)[how % 4]


def test_a_damaged_cache_costs_time_and_is_mended(start: Start, tmp_path: Path) -> None:
    cold, want, _ = ended(start())
    entries = kept(tmp_path)
    assert len(entries) >= max(cold, 4)
    for how, path in enumerate(entries):
        path.write_bytes(damaged(path.read_bytes(), how))
    assert ended(start()) == (cold, want, "")
    assert ended(start()) == (0, want, "")


FULL = """
import errno, os
def replace(*args):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
os.replace = replace
"""


def test_a_full_disk_costs_one_warning(start: Start, tmp_path: Path) -> None:
    want = ended(start(TRILOBITE_CACHE=str(tmp_path / "elsewhere")))[1]
    count, found, said = ended(start(FULL + PROGRAM))
    assert count > 1 and found == want
    assert said.count("RuntimeWarning") == 1
    assert "No space left on device" in said and "set TRILOBITE_CACHE to a directory" in said
    assert kept(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_directory_that_is_read_only(start: Start, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o500)
    assert "compiled kernels cannot be kept" in ended(start())[2]


def test_processes_that_compile_the_same_at_once(start: Start, tmp_path: Path) -> None:
    results = [ended(p) for p in [start() for _ in range(3)]]
    assert {digest for _, digest, _ in results} == {results[0][1]}
    assert all(said == "" for *_, said in results)
    assert ended(start()) == (0, results[0][1], "")
    assert not [p for p in kept(tmp_path) if p.name.startswith(".new-")]


# -- dtypes --------------------------------------------------------------------------------------------------


def test_complex_numbers_run_in_numpy_and_explain_says_so() -> None:
    rng = np.random.default_rng(5)
    z = (rng.standard_normal((9, 7)) + 1j * rng.standard_normal((9, 7))).astype(np.complex64)

    def f(z: Any, x: Any) -> Any:
        return tb.real(z @ tb.conj(z.T)).sum(0), tb.exp(x) * 2

    x = tb.tensor(rng.standard_normal(100).astype(np.float32))
    jitted = tb.jit(f)
    got, native = jitted(tb.tensor(z), x)
    want, _ = f(tb.tensor(z), x)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5)
    lines = jitted.explain(tb.tensor(z), x).splitlines()
    assert any("host dot: runs in NumPy, because" in line and "c64" in line for line in lines)
    assert any(line.startswith("  loops kernel") and "exp" in line for line in lines)
    np.testing.assert_allclose(native.numpy(), np.exp(x.numpy()) * 2, rtol=1e-6)


@pytest.mark.parametrize(
    "dtype", [tb.float16, tb.bfloat16, tb.float8_e4m3fn, tb.float8_e5m2, tb.int4, tb.uint4]
)
def test_small_dtypes_are_not_left_to_numpy(dtype: Any) -> None:
    x = tb.astype(tb.tensor(np.linspace(-3, 3, 77, dtype=np.float32)), dtype)
    jitted = tb.jit(lambda x: tb.astype(tb.astype(x, tb.float32) * 1.5, dtype))
    np.testing.assert_array_equal(
        jitted(x).numpy().view(np.uint8), tb.jit(jitted.fn, target="reference")(x).numpy().view(np.uint8)
    )
    assert "NumPy" not in jitted.explain(x)


# -- memory --------------------------------------------------------------------------------------------------


def test_more_memory_than_any_machine_has_is_refused_in_planning() -> None:
    f = tb.jit(lambda x: tb.tanh(x @ x.T) @ x)
    x = tb.broadcast_to(tb.ones((1, 1)), (20_000_000, 1))
    with pytest.raises(PlanError) as caught:
        f(x)
    assert str(caught.value) == (
        "<lambda> would need 1,600,000,000,000,000 bytes for its intermediate values\n"
        "  expected: at most 70,368,744,177,664\n"
        "  remedy: use smaller batches, or tb.checkpoint parts of it"
    )
    assert isinstance(caught.value, MemoryError)


def test_more_memory_than_this_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from trilobite.compiler.targets.cpu import runner

    def refuse(shape: Any, dtype: Any) -> Any:
        raise MemoryError

    f, x = tb.jit(lambda x: tb.tanh(x @ x.T) @ x), tb.ones((150, 3))
    want = f.fn(x).numpy()
    with monkeypatch.context() as patch:
        patch.setattr(runner, "empty", refuse)
        with pytest.raises(PlanError, match=r"no memory for the 90,\d\d\d bytes of a program's intermediate"):
            f(x)
    np.testing.assert_allclose(f(x).numpy(), want, rtol=1e-5)  # nothing is left half made


def test_a_lowered_program_looks_at_what_it_is_given() -> None:
    """Native code asks nobody how long an array is."""
    state = tb.tensor(np.zeros((3, 4), np.float32))

    @tb.jit
    def f(x: tb.Tensor) -> tb.Tensor:
        state.add_(x)
        return tb.sin(x) @ state.T

    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    run = f.lower(tb.tensor(x)).compile()
    values = [x, np.ones((3, 4), np.float32)]
    first = run(values)
    assert len(values) == 2 and np.allclose(first[0], np.sin(x) @ (x + 1.0).T, atol=1e-6)
    assert np.array_equal(values[1], np.ones((3, 4)))  # nothing was given away
    assert all(np.array_equal(a, b) for a, b in zip(run(tuple(values)), first, strict=True))
    for wrong in ([], values[:1], [*values, x], [x[:2], x], [x.astype(np.float64), x]):
        with pytest.raises(ShapeError, match=r"f takes 2 values|input 0 of f is"):
            run(wrong)
