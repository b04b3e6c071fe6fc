"""The gates of the validation page that take no minute; and the page in docs names every gate."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def validate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("validate", ROOT / "examples" / "processor" / "validate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["validate"] = module
    spec.loader.exec_module(module)
    return module


def test_resnet50_is_the_published_form(validate) -> None:
    layers = validate.resnet50()
    assert len(layers) == 54
    assert sum(layer.macs for layer in layers) == pytest.approx(3.86e9, rel=0.01)
    weights = sum(layer.outputs * layer.inputs * layer.kernel**2 for layer in layers)
    assert weights == pytest.approx(25.5e6, rel=0.01)


def test_quick_gates(validate) -> None:
    assert validate.unit_latencies(tiles=20).passed
    assert validate.array_size().passed
    assert all(gate.passed is not False for gate in validate.tpu())
    frames = [gate for gate in validate.nvdla() if gate.name.endswith("ResNet-50")]
    assert [gate.passed for gate in frames] == [True, True, True, None]


def test_ladder_is_calibrated_and_pipelining_pays(validate) -> None:
    assert validate.ladder_step(3).seconds * 1e3 == pytest.approx(0.071, rel=0.02)
    rows = 32 * 1024
    plain, pipelined = (validate.ladder_step(step, rows).cycles for step in (4, 5))
    assert plain > 1.15 * pipelined


def test_the_page_names_every_gate(validate) -> None:
    page = (ROOT / "docs" / "validation.md").read_text()
    assert page.startswith(validate.HEAD)
    for name in (
        "TPU v1 MLP0",
        "TPU v1 MLP1",
        "MLU370-X4 matmul step 6",
        "NVDLA 2048",
        "four 128 x 128",
        "T1 = T2",
    ):
        assert name in page
