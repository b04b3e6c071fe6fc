"""Recursion, arrays of run-time length and variables in device memory, at both levels."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run

from trilobite.base.errors import ArgumentError, ProcessorFault
from trilobite.processor.device import Device
from trilobite.processor.lang.bang.kernel import BangKernel, compile_bang
from trilobite.processor.lang.bang.source import Options
from trilobite.processor.machine import load_machine

pytestmark = needs_clang
SOURCE = Path(__file__).parent / "corpus" / "recursion.mlu"
levels = pytest.mark.parametrize("level", LEVELS)


def integers(count: int) -> Any:
    return np.zeros(count, np.int32)


def even(n: int) -> int:
    return 1 if n == 0 else odd(n - 1) * 3 % 1009 + 1


def odd(n: int) -> int:
    return 0 if n == 0 else even(n - 1) + 7


@levels
def test_functions_that_call_themselves(level: int) -> None:
    out = run(SOURCE, "numbers", [integers(11), 11], level=level)[0]
    assert out.tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55]
    assert run(SOURCE, "nested", [integers(1), 2, 3], level=level)[0].tolist() == [9]
    assert run(SOURCE, "in_turns", [integers(2), 41], level=level)[0].tolist() == [even(41), odd(41)]


@levels
@pytest.mark.parametrize("n", [0, 1, 777])
def test_sorting(n: int, level: int, rng: np.random.Generator) -> None:
    x = np.append(rng.standard_normal(n), [3.0]).astype(np.float32)
    out = run(SOURCE, "sorted", [x, n], level=level)[0]
    np.testing.assert_array_equal(out, np.append(np.sort(x[:n]), np.float32(3)))


@levels
def test_activations_have_arrays_of_their_own(level: int) -> None:
    out = run(SOURCE, "permutations", [integers(24), 4], level=level)[0]
    assert out.tolist() == [int("".join(map(str, p))) for p in permutations(range(4))]
    assert run(SOURCE, "structs", [np.zeros(2, np.float32), 5], level=level)[0].tolist() == [15.75, 16]


@levels
def test_a_stack_that_overflows_stops_the_launch(level: int) -> None:
    want = 0
    for _ in range(2000):
        want = 1 + want * 2 % 17
    assert run(SOURCE, "depth", [integers(1), 2000], level=level)[0].tolist() == [want]
    with pytest.raises(ProcessorFault, match=r"(?s)code 4: the recursion is deeper.*recursion\.mlu:83"):
        run(SOURCE, "depth", [integers(1), 200000], level=level)


@levels
def test_recursion_beside_the_memory_core(level: int, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, 33).astype(np.float16)
    args = [np.zeros(4, np.float16), x, 33]
    out = run(SOURCE, "beside_the_memory_core", args, (4, 1, 1), "union1", level=level)[0]
    assert out.tolist() == [x[: 33 - i].sum() for i in range(4)]


@levels
def test_lengths_of_run_time(level: int) -> None:
    n = 37
    want = sum((i * 7 % n) ** 2 + (i // 2) ** 2 % 11 for i in range(n))
    assert run(SOURCE, "run_time_lengths", [integers(1), n, 200], level=level)[0].tolist() == [want]
    with pytest.raises(ProcessorFault, match="trapped with code 5"):
        run(SOURCE, "run_time_lengths", [integers(1), 1 << 19, 1], level=level)


@levels
def test_device_variables_keep_their_values(level: int) -> None:
    device = Device("mlu370-x4")
    out = device.array(np.zeros(2, np.float32))
    module = device.load(compile_bang(SOURCE, load_machine("mlu370-x4"), Options(level=level)))
    seen = []
    for x in (0.5, 1.5, 2.5):
        device.launch(module["device_variables"], [out, x], checks=True)
        seen.append(out.numpy().tolist())
    assert seen == [[6, 0], [7, 0], [8, 1.5]]
    device.launch(module["another_entry"], [out, 4.0], checks=True)
    assert out.numpy()[0] == 0.5 * 4 + 8
    fresh = Device("mlu370-x4")
    other = fresh.array(np.zeros(2, np.float32))
    fresh.launch(module["device_variables"], [other, 1.0])
    assert other.numpy().tolist() == [6, 0]


def test_the_hidden_parameter_is_nobodys_argument() -> None:
    device = Device("mlu370-x4")
    kernel = BangKernel(SOURCE, "device_variables")
    out = device.array(np.zeros(2, np.float32))
    device.launch(kernel, [out, 1.0])
    assert out.numpy().tolist() == [6, 0]
    with pytest.raises(ArgumentError, match="takes 2 words, 3 were given"):
        device.launch(kernel, [out, 1.0, out])
