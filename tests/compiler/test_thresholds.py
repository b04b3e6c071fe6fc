"""Sizes on both sides of every threshold in the code, compiled, eager and differentiated, beside the meaning.

The thresholds are read from where they stand (`thresholds.py`). The meaning is the interpreter's, in double
precision; a lane that is dropped or counted twice is far outside what rounding of single precision explains.
"""

from __future__ import annotations

import ast
import random
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.thresholds import FOLDERS, PROGRAMS, Case, cases, sizes_in, thresholds

CASES = cases()
DOUBLES = random.Random(20).sample([case for case in CASES if case.program.gradient], 120)
BLOCK = 24  # cases of one test: most share their kernels
BOUNDS: dict[Any, float] = {np.float32: 3e-5, np.float64: 1e-12}  # of the largest number of the result


def test_thresholds_are_found_where_they_stand() -> None:
    source = "LEAST = 1 << 4\n_MANY, SOME = 3, 40\nPI = 3.5\nUNUSED = 9\nlower = 8\n" + (
        "def f(n):\n    return n < LEAST or n // _MANY or min(n, SOME)\n"
    )
    assert dict(sizes_in(ast.parse(source))) == {"LEAST": 16, "_MANY": 3, "SOME": 40}


def test_every_folder_with_thresholds_has_programs() -> None:
    found = thresholds()
    assert set(PROGRAMS) == set(FOLDERS)
    assert sum(len(names) for names in found.values()) > 60
    for folder, names in found.items():
        sizes = {case.size for case in CASES if case.program in PROGRAMS[folder]}
        most = max(program.most for program in PROGRAMS[folder])
        assert all(value in sizes for value in names.values() if value <= most), folder


def differential(case: Case, dtype: Any = np.float32) -> None:
    rng = np.random.default_rng(case.size)
    program = case.program
    given = program.inputs(rng, case.size)
    floats = [x.dtype.kind == "f" for x in given]
    single = [x.astype(dtype) if floating else x for x, floating in zip(given, floats, strict=True)]
    exact = [x.astype(np.float64) if floating else x for x, floating in zip(single, floats, strict=True)]
    bound = 0.0 if program.exact else BOUNDS[dtype]
    check(program.function, single, exact, bound)
    if program.gradient:
        meant = tb.jit(program.function, target="reference")(*map(tb.asarray, exact))
        weight = rng.standard_normal(meant.shape)

        def loss(*arrays: Any) -> Any:
            result = program.function(*arrays)
            return tb.sum(result * tb.asarray(weight.astype(str(result.dtype).removeprefix("trilobite."))))

        check(tb.grad(loss, argnums=tuple(range(len(given)))), single, exact, BOUNDS[dtype])


def check(function: Any, single: list[np.ndarray], exact: list[np.ndarray], bound: float) -> None:
    meant = as_arrays(tb.jit(function, target="reference")(*map(tb.asarray, exact)))
    compiled = as_arrays(tb.jit(function)(*map(tb.asarray, single)))
    eager = as_arrays(function(*map(tb.asarray, single)))
    for way, found in (("compiled", compiled), ("eager", eager)):
        for wanted, value in zip(meant, found, strict=True):
            if bound == 0:
                np.testing.assert_array_equal(value, wanted.astype(value.dtype), err_msg=way)
            else:
                size = float(np.max(np.abs(wanted), initial=0.1))  # inputs are of size 1: less is cancelled
                np.testing.assert_allclose(value, wanted, rtol=0, atol=bound * size, err_msg=way)


def as_arrays(result: Any) -> list[np.ndarray]:
    results = result if isinstance(result, tuple | list) else [result]
    return [r.detach().numpy() for r in results]


def all_of(found: list[Case], dtype: Any = np.float32) -> None:
    for case in found:
        try:
            differential(case, dtype)
        except AssertionError as error:
            raise AssertionError(repr(case)) from error


@pytest.mark.parametrize("block", range(0, len(CASES), BLOCK))
def test_sizes_around_thresholds(block: int) -> None:
    all_of(CASES[block : block + BLOCK])


@pytest.mark.parametrize("block", range(0, len(DOUBLES), BLOCK))
def test_sizes_around_thresholds_in_doubles(block: int) -> None:
    all_of(DOUBLES[block : block + BLOCK], np.float64)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(16))
def test_further_multiples_of_all_thresholds(part: int) -> None:
    all_of(cases((3, 4, 7))[part::16])
