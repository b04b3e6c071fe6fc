"""The ResNet program computes what NumPy computes, in a small form with every kind of layer."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from trilobite.processor import Device

SIDE, WIDTH, BLOCKS, CLASSES = 40, 4, (2, 1), 11


@pytest.fixture(scope="module")
def resnet() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "processor" / "resnet50.py"
    spec = importlib.util.spec_from_file_location("resnet50", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["resnet50"] = module
    spec.loader.exec_module(module)
    return module


def conv(x: Any, layer: Any, bias: Any, scale: Any, filters: Any) -> Any:
    pad, k, s = layer.kernel // 2, layer.kernel, layer.stride
    framed = np.pad(x.astype(np.int64), ((pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(framed, (k, k), (0, 1))[::s, ::s]
    total = np.einsum("pqcrs,orsc->pqo", windows, filters.astype(np.int64)) + bias
    real = total.astype(np.float64) * scale.astype(np.float64)
    return np.clip(np.rint(np.maximum(real, 0) if layer.relu else real), -128, 127).astype(np.int8)


def reference(layers: list[Any], given: list[Any], picture: Any) -> Any:
    made = iter(zip(layers, given, strict=True))

    def step(x: Any) -> Any:
        layer, parts = next(made)
        return conv(x, layer, *parts)

    x = step(picture)
    framed = np.pad(x, ((1, 1), (1, 1), (0, 0)), constant_values=-128)
    x = np.lib.stride_tricks.sliding_window_view(framed, (3, 3), (0, 1))[::2, ::2].max((3, 4))
    for count in BLOCKS:
        for block in range(count):
            y = step(step(step(x)))
            other = x if block else step(x)
            x = np.clip(np.maximum(y.astype(int) + other, 0), -128, 127).astype(np.int8)
    mean = x.astype(np.int32).sum((0, 1)).astype(np.float32) / np.float32(x.shape[0] * x.shape[1])
    return step(np.clip(np.rint(mean), -128, 127).astype(np.int8).reshape(1, 1, -1)).reshape(-1)


def test_a_small_resnet_is_numpys(resnet: ModuleType) -> None:
    device = Device("tpu-v1")
    writer = resnet.network(3000, SIDE, WIDTH, BLOCKS, CLASSES)  # halves so small that filters come in tiles
    raw = resnet.parameters(writer.layers)
    picture = np.random.default_rng(3).integers(-128, 128, (SIDE, SIDE, 3), dtype=np.int8)
    module = device.load("\n".join(writer.lines))
    got, run = resnet.launch(device, module, raw, picture, CLASSES)
    want = reference(writer.layers, list(resnet.split(writer.layers, raw)), picture)
    assert len(np.unique(want)) > 3
    assert (got == want).all()
    assert run.cycles > run.roofline.cycles and run.energy.total > 0
