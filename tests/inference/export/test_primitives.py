"""Each primitive, on all its samples: what is written passes the full checker and gives its values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.inference.export.primitive_models import cases
from tests.inference.export.running import apart, by_reference, by_runtime, by_session
from trilobite.inference.export.control import ROWS as REGIONS
from trilobite.inference.export.walk import RULES
from trilobite.ir.primitives import FAMILIES

onnx = pytest.importorskip("onnx")

# ONNX has no operators for these, or none on real numbers that mean the same
WITHOUT = {
    *"bitcast clz popcount nextafter random_bits print callback custom_call fusion".split(),
    *FAMILIES["cluster"].split(),
    *FAMILIES["cluster_messages"].split(),  # a model file is for one process
    *"complex conj real imag fft rfft irfft digamma erf_inv lgamma polygamma".split(),
    *"cholesky triangular_solve eig eigh eigvals eigvalsh svd svdvals pinv lu qr".split(),
    *"conv_weight_grad window_scatter".split(),  # of a backward pass
}
CORE = {name for names in FAMILIES.values() for name in names.split()}


def test_every_primitive_has_a_rule_or_stands_among_those_without() -> None:
    written = {*RULES, *REGIONS, "call"}
    assert written == CORE - WITHOUT, "a new primitive needs a row, or a word in WITHOUT"


def checked(name: str, run: Any, lacks: tuple[str, ...]) -> int:
    done = 0
    for case in cases(name):
        if case.model is None:
            assert "cannot be written as ONNX" in case.why, case.label
            continue
        onnx.checker.check_model(case.model, full_check=True)
        try:
            found = run(case.model, case.feeds)
        except Exception as error:
            assert any(word in str(error) for word in lacks), f"{case.label}: {error}"
            continue
        assert len(found) == len(case.wanted)
        for got, want in zip(found, case.wanted, strict=True):
            assert overflows(name, case.wanted) or apart(got, want) < 2e-5, case.label
        done += 1
    return done


def overflows(name: str, wanted: list[np.ndarray[Any, Any]]) -> bool:
    """Sums and powers of integers that wrap: runtimes saturate, or go through doubles."""
    return name in ("reduce_sum", "pow") and wanted[0].dtype.kind in "iu"


NAMES = sorted(n for n in {*RULES, *REGIONS})
# onnx's evaluator: numbers of 4 and 8 bits pass through it as other dtypes; padding of windows and negative
# padding are wrong in it
BY_EVALUATOR = ("int4", "float8", "bfloat16", "dtype", "allowed", "cast", "shape")
UNFIT = {
    *"window_reduce window_argmax conv_input_grad conv pad cast scan quantise requantise dequantise".split()
}


@pytest.mark.parametrize("name", [n for n in NAMES if n not in UNFIT])
def test_values_by_the_reference_evaluator(name: str) -> None:
    assert checked(name, by_reference, BY_EVALUATOR) > 0


@pytest.mark.parametrize("name", NAMES)
def test_values_by_our_own_reader(name: str) -> None:
    assert checked(name, by_session, ()) > 0


@pytest.mark.peer
@pytest.mark.parametrize("name", NAMES)
def test_values_by_onnx_runtime(name: str) -> None:
    pytest.importorskip("onnxruntime")
    lacks = ("NOT_IMPLEMENTED", "can't be converted to MLDataType", "No corresponding Numpy type")
    assert checked(name, by_runtime, lacks) > 0
