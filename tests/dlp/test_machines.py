"""Parts with one pool, 16-bit integers on the matrix unit, and machines drawn at random."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trilobite as tb
from tools.odd_machines import compared, written


def _network() -> tb.nn.Sequential:
    tb.manual_seed(3)
    return tb.nn.Sequential(
        tb.nn.Conv2d(3, 13, 3, padding=1), tb.nn.ReLU(), tb.nn.MaxPool2d(2), tb.nn.Flatten(),
        tb.nn.Linear(637, 5),
    ).eval()  # fmt: skip


@pytest.mark.parametrize(("machine", "scheme"), [("gemmini", "int8"), ("eyeriss", "int16")])
def test_parts_with_one_pool_run_networks_bit_for_bit(machine: str, scheme: str) -> None:
    x = tb.tensor(np.random.default_rng(0).normal(size=(1, 3, 14, 14)).astype(np.float32))
    model = tb.quantize(_network(), [x], scheme=scheme)
    with tb.no_grad():
        chip = tb.jit(model, target=f"dlp:{machine}")
        np.testing.assert_array_equal(chip(x).numpy(), tb.jit(model, target="cpu")(x).numpy())
        mapping = chip.lower(x).stages["mapping"].splitlines()
    products = [line for line in mapping if " conv" in line or " dot" in line]
    assert len(products) == 2 and all(" matrix " in line for line in products)


@pytest.mark.parametrize("seed", [4, 9])
def test_a_random_machine_runs_a_network(seed: int, tmp_path: Path) -> None:
    lines = list(compared(written(seed, tmp_path), ["char_lstm"]))
    assert lines and all(agrees for _, agrees in lines), lines


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(12))
def test_random_machines_run_networks(seed: int, tmp_path: Path) -> None:
    lines = list(compared(written(seed, tmp_path), ["mlp", "lenet", "resnet18", "bert_base"]))
    assert all(agrees for _, agrees in lines), lines
