"""Memory.

How much a fresh process grows, at the highest, when a network is made and called three times: weights, packed
weights, activations and what else a system needs. Its import is not in it, nor are our compiler's and the
making of the file that ONNX Runtime reads. The bytes of the weights alone are the floor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import fresh
from benchmarks.peers import weights
from benchmarks.row import Row, Work

THREADS = 2
# row -> (its module, name in the zoo, options)
NETWORKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ResNet-18 b8": ("rows_networks", "resnet18", {}),
    "ResNet-50 b1": ("rows_networks", "resnet50", {}),
    "MobileNetV2 b8": ("rows_networks", "mobilenet_v2", {}),
    "VGG19 features b1": ("rows_networks", "vgg19", {"classifier": False}),
    "GPT-2 small, prefill 128": ("rows_networks", "gpt2", {}),
    "BERT-base, 128 tokens b1": ("rows_networks", "bert_base", {}),
    "ResNet-18 32×32 b32": ("rows_training", "resnet18_32x32", {}),
    "character transformer b16": ("rows_training", "char_transformer", {}),
}


def growth(module: str, name: str, system: str) -> Work:
    key = f"{name} / {THREADS}"
    return lambda: fresh.measured("memory", system, f"benchmarks.{module}", key, {})


def growth_from_file(module: str, name: str) -> Work:
    return lambda: fresh.from_model_file("memory", f"benchmarks.{module}", f"{name} / {THREADS}")


def weights_alone(name: str, options: dict[str, Any]) -> Work:
    def work() -> float:
        return 4.0 * sum(math.prod(shape) for shape in weights.shapes(name, **options).values())

    return work


def row(name: str) -> Row:
    module, network, options = NETWORKS[name]
    systems: dict[str, Callable[[], Work]] = {
        "trilobite": partial(growth, module, name, "trilobite"),
        "torch": partial(growth, module, name, "torch"),
    }
    if module == "rows_networks":
        systems["onnxruntime"] = partial(growth_from_file, module, name)
    systems["weights"] = partial(weights_alone, network, options)
    return Row(
        f"memory: {name}",
        systems,
        unit="MB",
        threads=THREADS,
        floor=("weights",),
        aim_ratio=1.0,
        times_itself=True,
        most_rounds=1,
    )


ROWS = tuple(map(row, NETWORKS))
