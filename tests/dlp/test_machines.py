"""Parts with one pool, 16-bit integers on the matrix unit, and machines drawn at random."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tools.odd_machines import WITH_OPTIONS, compared, written

F = tb.nn.functional


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


def _long_integers(i: Any) -> Any:
    return (i * 2654435761 + 12345) % 97, (i // 7) ^ (i << 3), tb.cumsum(i, -1) % 1000003


def _many_operands(x: Any) -> Any:
    """A chain that reads thirty tiles."""
    total = x[0]
    for n in range(1, 30):
        total = tb.where(x[n] > 0, total * 0.9 + x[n], total - x[n])
    return total


def _step(model: Any, x: Any) -> Any:
    loss = (F.gelu(model(x)) ** 2).mean()
    model.zero_grad()
    loss.backward()
    return loss, *(p.grad for p in model.parameters())


def test_four_kilobytes_hold_chains_of_any_kind() -> None:
    """Tiles of fewer elements than a granule, chains cut where too many tiles would lie side by side."""
    rng = np.random.default_rng(0)
    model = tb.nn.Sequential(tb.nn.Conv1d(3, 5, 3), tb.nn.LayerNorm(9), tb.nn.Flatten(), tb.nn.Linear(45, 4))
    cases = [
        (_long_integers, tb.tensor(rng.integers(0, 1 << 40, (3, 7)))),
        (_many_operands, tb.tensor(rng.normal(size=(30, 6, 50)))),
        (_many_operands, tb.tensor(rng.normal(size=(30, 4, 1, 33)).astype(np.float32))),
        (partial(_step, model), tb.tensor(rng.normal(size=(2, 3, 11)).astype(np.float32))),
    ]
    for body, x in cases:
        want, got = body(x), tb.jit(body, target="dlp:diannao", options={"checks": True})(x)
        for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", [4, 9])
def test_a_random_machine_runs_a_network(seed: int, tmp_path: Path) -> None:
    lines = list(compared(written(seed, tmp_path), ["char_lstm"]))
    assert lines and all(agrees for _, agrees in lines), lines


@pytest.mark.parametrize("seed", [WITH_OPTIONS + 1, WITH_OPTIONS + 3])
def test_chains_run_on_machines_with_options(seed: int, tmp_path: Path) -> None:
    """Also in a few kilobytes, by links of one byte a cycle, through units whose ports are shared."""
    rng = np.random.default_rng(seed)
    model = tb.nn.Sequential(tb.nn.Conv1d(3, 5, 3), tb.nn.LayerNorm(9), tb.nn.Flatten(), tb.nn.Linear(45, 4))
    target = f"dlp:{written(seed, tmp_path)}"
    for body, x in (
        (_long_integers, tb.tensor(rng.integers(0, 1 << 40, (3, 7)))),
        (partial(_step, model), tb.tensor(rng.normal(size=(2, 3, 11)).astype(np.float32))),
    ):
        want, got = body(x), tb.jit(body, target=target, options={"checks": True})(x)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_transfers_that_are_almost_over_end(tmp_path: Path) -> None:
    """Bytes of less than a millionth of a cycle were left to one of them, and time stood still."""
    lines = list(compared(written(WITH_OPTIONS, tmp_path), ["lenet"]))
    assert lines and all(agrees for _, agrees in lines), lines


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(12))
def test_random_machines_run_networks(seed: int, tmp_path: Path) -> None:
    lines = list(compared(written(seed, tmp_path), ["mlp", "lenet", "resnet18", "bert_base"]))
    assert all(agrees for _, agrees in lines), lines
