"""Moves of tensors that lie with their channels last: the interpreter's values, in runs of channels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb

F = tb.nn.functional
MOVES: dict[str, Callable[[Any], Any]] = {
    "pad": lambda y: F.pad(y, (1, 2, 1, 0), value=0.5),
    "pad channels": lambda y: F.pad(y, (0, 0, 0, 0, 3, 1), value=-1.0),
    "crop": lambda y: y[:, :, 1:-1, 2:],
    "every other": lambda y: y[:, ::2, ::2, 1::3],
    "join": lambda y: tb.concat([y, y], axis=1),
    "join rows": lambda y: tb.concat([y, y], axis=2),
    "turn": lambda y: tb.flip(y, axis=(2, 3)),
    "transpose": lambda y: tb.permute_dims(y, (0, 1, 3, 2)),
}


def between_products(move: Callable[[Any], Any]) -> Callable[..., Any]:
    """The move of a convolution's result, which lies as the matrix unit left it, read by another."""

    def f(x: Any, w: Any, v: Any) -> Any:
        y = move(F.conv2d(x, w))
        return F.conv2d(y, v[:, : y.shape[1]])

    return f


def operands(channels: int, side: int) -> list[Any]:
    rng = np.random.default_rng(channels)
    shapes = [(2, channels, side, side), (channels, channels, 1, 1), (5, 2 * channels + 8, 3, 3)]
    return [tb.tensor(rng.normal(size=s).astype(np.float32)) for s in shapes]


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
@pytest.mark.parametrize("name", MOVES)
def test_values(name: str, machine: str) -> None:
    f, given = between_products(MOVES[name]), operands(7, 9)
    fast = tb.jit(f, target=f"dlp:{machine}", options={"checks": True})
    np.testing.assert_allclose(fast(*given).numpy(), f(*given).numpy(), 2e-4, 2e-4)


@pytest.mark.parametrize("name", ["pad", "crop", "join rows"])
def test_a_move_costs_about_its_bytes(name: str) -> None:
    """An element at a time would cost a burst of DRAM for each."""
    given = operands(64, 24)
    spent = []
    for move in (lambda y: y, MOVES[name]):
        fast = tb.jit(between_products(move), target="dlp:dlp-s")
        fast(*given)
        spent.append(fast.last_run.energy.joules["dram"])
    assert spent[1] < 4 * spent[0]


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("lead", "widths", "rest"), [((1031,), (1, 1), ()), ((3, 67), (1, 2, 5), (3,)), ((), (1, 1, 2), ()),
                                 ((2, 5), (7, 1), (2, 2)), ((0,), (1, 1), ()), ((19,), (3, 0, 1), ())]
)  # fmt: skip
def test_short_pieces_are_joined(
    lead: tuple[int, ...], widths: tuple[int, ...], rest: tuple[int, ...], dtype: Any, machine: str
) -> None:
    """Rows of the result are put together on chip."""
    rng = np.random.default_rng(0)
    given = [tb.tensor(rng.integers(-99, 99, (*lead, n, *rest)).astype(dtype)) for n in widths]
    fast = tb.jit(
        lambda *parts: tb.concat(parts, axis=len(lead)), target=f"dlp:{machine}", options={"checks": True}
    )
    wanted = np.concatenate([t.numpy() for t in given], len(lead))
    assert np.array_equal(fast(*given).numpy(), wanted) and fast(*given).numpy().dtype == dtype


def test_interleaving_costs_about_its_elements() -> None:
    x, y = (tb.tensor(np.random.default_rng(n).normal(size=20000).astype(np.float32)) for n in (0, 1))
    fast = tb.jit(lambda x, y: tb.stack([x, y], axis=-1), target="dlp:dlp-s")
    assert np.array_equal(fast(x, y).numpy(), np.stack([x.numpy(), y.numpy()], -1))
    assert fast.last_run.cycles < 2 * 40000


@pytest.mark.parametrize("seed", range(12))
def test_rows_with_a_step_or_backwards_are_picked_on_chip(seed: int, odd_machine: Path) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 5)), int(rng.integers(1, 40)), int(rng.integers(20, 3000)))
    step = int(rng.choice([-9, -3, -2, -1, 2, 3, 5, 8, 13]))
    dtype = [np.int8, np.float16, np.float32, np.int64][seed % 4]
    x = tb.tensor(rng.integers(-100, 100, shape).astype(dtype))
    start = int(rng.integers(0, 7))

    def f(v: tb.Tensor) -> tb.Tensor:
        part = v[..., start:] if step > 0 else tb.flip(v[..., : v.shape[-1] - start], axis=-1)
        return part[..., :: abs(step)]

    machine = ("dlp-s", "dlp-m", str(odd_machine))[seed % 3]
    fast = tb.jit(f, target=f"dlp:{machine}", options={"checks": True})
    np.testing.assert_array_equal(fast(x).numpy(), f(x).numpy())


def test_a_long_row_backwards_is_picked_in_pieces(odd_machine: Path) -> None:
    x = tb.tensor(np.random.default_rng(0).normal(size=(2, 40001)).astype(np.float32))
    for machine in ("dlp-m", str(odd_machine)):
        fast = tb.jit(lambda v: tb.flip(v, axis=1), target=f"dlp:{machine}", options={"checks": True})
        np.testing.assert_array_equal(fast(x).numpy(), x.numpy()[:, ::-1])


def test_a_reversed_row_takes_little_more_than_a_copy() -> None:
    x = tb.tensor(np.random.default_rng(0).normal(size=(256, 512)).astype(np.float32))
    cycles = []
    for f in (lambda v: v[:, 1:], lambda v: tb.flip(v, axis=1), lambda v: v[:, ::2]):
        fast = tb.jit(f, target="dlp:dlp-s")
        fast(x)
        cycles.append(fast.last_run.cycles)
    assert max(cycles) < 3 * cycles[0], cycles
