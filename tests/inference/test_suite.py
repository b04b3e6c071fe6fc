"""The backend suite of the onnx package: all of it by the meaning, as it is and optimised; a sample compiled
here, all of it in the long run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tools.onnx_conformance import reason
from tools.onnx_suite import cases, check, trilobite_engine
from trilobite import inference

pytest.importorskip("onnx")
pytestmark = pytest.mark.timeout(900)
Engine = Callable[[Any], Callable[..., list[Any]]]


@pytest.fixture(scope="module")
def every_case() -> list[object]:
    return [c for c in cases() if reason(c.name) is None]


@pytest.fixture(scope="module")
def small(every_case: list[object]) -> list[object]:
    found = [c for c in every_case if c.kind != "real"]
    assert len(found) > 1900
    return found


def failures(found: list[object], prepare: Engine) -> list[str]:
    outcomes = [check(c, prepare) for c in found]
    return [f"{o.name}: {o.why}" for o in outcomes if not o.passed]


def test_small_ones_pass(small: list[object]) -> None:
    assert failures(small, trilobite_engine("reference")) == []


def test_small_ones_pass_optimised(small: list[object]) -> None:
    prepare = trilobite_engine("reference")
    assert failures(small, lambda model: prepare(inference.optimize(model).model)) == []


def test_a_sample_passes_compiled(small: list[object]) -> None:
    assert failures(small[::16], trilobite_engine("cpu")) == []


@pytest.mark.long
@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_all_pass(every_case: list[object], target: str) -> None:
    """Large networks without weights sum equal numbers in an order that NumPy's products choose."""
    found = [c for c in every_case if (c.name, target) != ("test_squeezenet", "reference")]
    assert failures(found, trilobite_engine(target)) == []
