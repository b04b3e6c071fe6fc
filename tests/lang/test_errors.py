"""Errors of Python kernels, as text: what, the user's line and column, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite import dlp
from trilobite.base.errors import ArgumentError, KernelError, ProcessorFault
from trilobite.processor import Device


def recursive(n):
    return recursive(n - 1) if n else 0


def unknown_name(x: dlp.gm[dlp.f32], n: int):
    x[0] = n + missing  # noqa: F821


def float_and_int(x: dlp.gm[dlp.f32], n: int):
    y = n * 0.5
    x[0] = y


def true_division(x: dlp.gm[dlp.f32], n: int):
    x[n / 2] = 1.0


def wrong_space(x: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(16, dlp.f32)
    dlp.add(a, a, x[:16])


def wrong_format(x: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(16, dlp.f32)
    dlp.add(a, a, dlp.nram(16, dlp.f16))


def runtime_shape(x: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(n, dlp.f32)
    dlp.copy(x[:n], a)


def too_long_slice(x: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(16, dlp.f32)
    dlp.copy(a[:17], x[:17])


def gaps(x: dlp.gm[dlp.f32], n: int):
    a = dlp.nram((8, 8), dlp.f32)
    dlp.exp(a[:, :4], a[:, :4])


def changes_type(x: dlp.gm[dlp.f32], n: int):
    total = 0
    for i in range(n):
        total = total + x[i]
    x[0] = total


def calls_itself(x: dlp.gm[dlp.f32], n: int):
    x[0] = dlp.f32(recursive(n))


def no_statement(x: dlp.gm[dlp.f32], n: int):
    with open("x"):
        pass


def uses_math(x: dlp.gm[dlp.f32], n: int):
    x[0] = float(n)


def gives_back(x: dlp.gm[dlp.f32], n: int):
    return n


def sizes_differ(x: dlp.gm[dlp.f32], n: int):
    a, b = dlp.nram(16, dlp.f32), dlp.nram(8, dlp.f32)
    dlp.exp(a, b)


def computed_address(x: dlp.gm[dlp.f32], n: int):
    for _ in dlp.pipeline(n):
        a = dlp.nram(16, dlp.f32)
        dlp.load(a, x[:16])
        dlp.exp(a, a)
        k = dlp.compress(a, a, a)
        dlp.store(x[k : k + 16], a)


def left_early(x: dlp.gm[dlp.f32], n: int):
    for _ in dlp.pipeline(n):
        break


def no_such_rows(x: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(16, dlp.f32)
    dlp.shift_left(a, a, 2)


CASES: list[tuple[Callable[..., Any], str, str, str]] = [
    (unknown_name, "missing", "'missing' is not defined here", "assign it"),
    (float_and_int, "n * 0.5", "an integer that only a run knows meets a float literal", "dlp.f32(n) * 0.5"),
    (true_division, "n / 2", "`/` of integers would give a float", "a // b"),
    (wrong_space, "dlp.add", "VAV: b lies in gdram", "copy it there first"),
    (wrong_format, "dlp.add", "add: operands of different formats: f32, f32, f16", "dlp.convert"),
    (runtime_shape, "dlp.nram", "a buffer of shape", "use meta-parameters or constants"),
    (too_long_slice, "a[:17]", "the slice ends at 17, the axis at 16", "cut it"),
    (gaps, "dlp.exp", "has gaps between its rows", "copy it into a buffer"),
    (changes_type, "total = total + x[i]", "'total' is an integer and would become a float", "total = 0.0"),
    (calls_itself, "", "recursive calls itself: recursive -> recursive", "write the recursion as a loop"),
    (no_statement, 'with open("x"):', "a kernel cannot contain `with`", "write it so"),
    (uses_math, "float(n)", "float is called with a value that only a run knows", "use dlp.f32(x)"),
    (gives_back, "return n", "a kernel returns a value", "store it through a pointer"),
    (
        sizes_differ,
        "dlp.exp",
        "exp: View(f32[16] in nram) and View(f32[8] in nram) differ in size",
        "slice one",
    ),
    (computed_address, "dlp.store", "the store part of a pipelined loop needs 'k'", "use a plain loop"),
    (left_early, "break", "a pipelined loop is left early", "use a plain loop"),
    (no_such_rows, "dlp.shift_left", "VSHLS does not exist in the formats f32", "dlp.convert"),
]


@pytest.mark.parametrize("function, at, what, remedy", CASES, ids=[case[0].__name__ for case in CASES])
def test_errors_name_the_place(function: Callable[..., Any], at: str, what: str, remedy: str) -> None:
    with pytest.raises(KernelError) as caught:
        dlp.kernel(function).program("dlp-m")
    text = str(caught.value)
    assert what in text and remedy in text
    if at:
        lines = Path(__file__).read_text(encoding="utf-8").splitlines()
        first = function.__code__.co_firstlineno
        number = next(n for n in range(first, first + 9) if at in lines[n])
        column = lines[number].index(at) + 1
        assert f"{Path(__file__)}:{number + 1}:{column}" in text


def test_overflow_says_by_how_much_and_where() -> None:
    @dlp.kernel
    def large(x: dlp.gm[dlp.f32]):
        a = dlp.nram(100000, dlp.f32)
        b = dlp.nram(50000, dlp.f32)
        dlp.fill(a, 1.0)
        dlp.fill(b, 1.0)
        dlp.copy(x[:50000], b)
        dlp.copy(x[:100000], a)

    with pytest.raises(KernelError) as caught:
        large.program("dlp-m")
    text = str(caught.value)
    assert "nram overflows by 206784 bytes: the kernel needs 600000, dlp-m has 393216" in text
    assert "test_errors.py:" in text and "a 400000 bytes" in text


def test_arguments_are_looked_at() -> None:
    @dlp.kernel
    def scale(x: dlp.gm[dlp.f32], n: int, s: dlp.f16):
        x[0] = dlp.f32(s) * dlp.f32(n)

    dev = Device("dlp-s")
    x = dev.array(np.zeros(4, np.float32))
    with pytest.raises(ArgumentError, match="scale takes 3 arguments, 2 were given"):
        dev.launch(scale, [x, 1])
    with pytest.raises(ArgumentError, match="the argument 'x' is DeviceArray"):
        dev.launch(scale, [dev.array(np.zeros(4)), 1, 1.0])
    with pytest.raises(ArgumentError, match=r"the argument 'n' is 1\.5"):
        dev.launch(scale, [x, 1.5, 1.0])
    with pytest.raises(ArgumentError, match="scale has no meta-parameter 'tile'"):
        scale.meta(tile=3)
    dev.launch(scale, [x, 3, 0.1])
    assert x.numpy()[0] == np.float32(np.float16(0.1)) * 3


def test_an_annotation_that_says_nothing_is_refused() -> None:
    with pytest.raises(KernelError, match="the parameter 'y' is annotated with nothing"):

        @dlp.kernel
        def bad(x: dlp.gm[dlp.f32], y):
            pass


def test_operations_outside_a_kernel_are_refused() -> None:
    with pytest.raises(KernelError, match="an operation of a kernel was called outside of one"):
        dlp.sync()


def test_a_failed_assertion_is_a_fault_with_the_line() -> None:
    @dlp.kernel
    def checked(n: int):
        assert n < 4, "n is too large"

    dev = Device("dlp-s")
    dev.launch(checked, [3])
    for level in (0, 2):
        with pytest.raises(ProcessorFault, match=r"code 1: n is too large[\s\S]*test_errors\.py"):
            dev.launch(checked.at_level(level), [4])
    with pytest.raises(AssertionError, match="n is too large"):
        checked.interpret(dev, [4])


def test_faults_of_the_interpreter_name_the_users_line() -> None:
    @dlp.kernel
    def beyond(x: dlp.gm[dlp.f32], n: int):
        a = dlp.nram(16, dlp.f32)
        dlp.copy(a, x[n : n + 16])

    dev = Device("dlp-s")
    x = dev.array(np.zeros(20, np.float32))
    line = beyond.function.__code__.co_firstlineno + 3
    for launch in (beyond.interpret, lambda d, a: d.launch(beyond, a)):
        with pytest.raises(ProcessorFault, match=rf"in no allocated block[\s\S]*test_errors\.py:{line}"):
            launch(dev, [x, 10])
