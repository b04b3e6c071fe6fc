"""The gates of the validation page that take no minute; and the page in docs names every gate."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from trilobite.processor import Device

ROOT = Path(__file__).parents[2]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / "processor" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def validate() -> ModuleType:
    return example("validate")


@pytest.fixture(scope="module")
def modelling() -> ModuleType:
    return example("modelling")


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


@pytest.mark.long
def test_nvdla_compiled_from_a_graph() -> None:
    frames = [f for f in example("compiled").networks() if f.name.endswith("ResNet-50")]
    assert [f.result for f in frames] == ["pass", "pass", "pass", "reported"]


def test_ladder_is_calibrated_and_pipelining_pays(validate) -> None:
    assert validate.ladder_step(3).seconds * 1e3 == pytest.approx(0.071, rel=0.02)
    rows = 32 * 1024
    plain, pipelined = (validate.ladder_step(step, rows).cycles for step in (4, 5))
    assert plain > 1.15 * pipelined


def test_the_kernels_of_the_mlu270s_ladder_multiply(modelling) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(np.int8) for shape in ((1024, 256), (256, 256)))
    want = (a.astype(np.int32) @ b.astype(np.int32)).astype(np.float16)
    device = Device("mlu270")
    for step, kernel in ((4, modelling.blocks), (5, modelling.shared), (6, modelling.pipelined)):
        out = device.empty((1024, 256), "float16")
        args = [device.array(a), device.array(b), device.array(np.ones(256, np.float32)), out, 1024, 256, 256]
        task = "block" if step == 4 else "union4"
        device.launch(kernel, args, dim=(16, 1, 1), task=task, checks=True)
        np.testing.assert_array_equal(out.numpy(), want)
    out = device.empty((8, 256), "float16")
    for kernel in (modelling.scalar, modelling.near):
        device.launch(kernel, [device.array(a[:8]), device.array(b), out, 8, 256, 256])
        np.testing.assert_array_equal(out.numpy(), want[:8])


def test_steps_of_the_mlu270s_ladder_keep_their_order(modelling) -> None:
    one, all_cores, _, pipelined = (modelling.ladder_step(step, rows=32768).cycles for step in (3, 4, 5, 6))
    assert one > 3 * all_cores and all_cores > pipelined


def test_every_modelling_option_is_a_machine_and_changes_something(validate, modelling) -> None:
    run = validate.ladder_step(4, 32 * 1024)
    base = run.machine
    times = {name: run.replay(change(base)).cycles for name, change in modelling.OPTIONS.items()}
    assert times["DRAM without the efficiency of 0.85"] < run.cycles < times["DRAM's latency doubled"]
    assert times["one transfer of a DMA in flight"] > 1.3 * run.cycles
    joules = {name: run.replay(change(base)).energy.total for name, change in modelling.ENERGY.items()}
    assert joules["half of the activations zero, gated"] < joules["half of the activations zero, not gated"]
    table = modelling.options({"step 4": (run, run.seconds)})
    assert "| as the gates have it | +0.0% |" in table


def test_the_page_names_every_gate(validate) -> None:
    page = (ROOT / "docs" / "validation.md").read_text()
    assert page.startswith(validate.HEAD)
    for name in (
        "TPU v1 MLP0",
        "TPU v1 MLP1",
        "MLU370-X4 matmul step 6",
        "NVDLA 2048",
        "The ladder of the MLU270",
        "Options on and off",
        "four 128 x 128",
        "T1 = T2",
    ):
        assert name in page
