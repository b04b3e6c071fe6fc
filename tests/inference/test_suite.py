"""The backend suite of the onnx package: a sample here, all of it in the long run."""

from __future__ import annotations

import pytest

from tools.onnx_conformance import reason
from tools.onnx_suite import cases, check, trilobite_engine

pytest.importorskip("onnx")
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def every_case() -> list[object]:
    return [c for c in cases() if reason(c.name) is None]


def failures(found: list[object], target: str) -> list[str]:
    prepare = trilobite_engine(target)
    outcomes = [check(c, prepare) for c in found]
    return [f"{o.name}: {o.why}" for o in outcomes if not o.passed]


@pytest.mark.parametrize(("target", "step"), [("reference", 4), ("cpu", 16)])
def test_a_sample_passes(every_case: list[object], target: str, step: int) -> None:
    small = [c for c in every_case if c.kind != "real"]
    assert len(small) > 1900
    assert failures(small[::step], target) == []


@pytest.mark.long
@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_all_pass(every_case: list[object], target: str) -> None:
    """Large networks without weights sum equal numbers in an order that NumPy's products choose."""
    found = [c for c in every_case if (c.name, target) != ("test_squeezenet", "reference")]
    assert failures(found, target) == []
