"""Joins of what is computed for them: written into their parts in one pass, with the reference's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.targets.cpu.kinds import kinds
from trilobite.compiler.targets.cpu.nests.defaults import BLOCK

F = tb.nn.functional
Array = np.ndarray[Any, Any]


def same(function: Any, *arrays: Array) -> list[str]:
    """Both targets agree in every bit; the kernels of a run."""
    given = [tb.tensor(a) for a in arrays]
    compiled = tb.jit(function)
    got, want = compiled(*given), tb.jit(function, target="reference")(*given)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
    return [line.strip() for line in compiled.explain(*given).splitlines() if " kernel " in line]


def data(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def test_joins_that_are_grouped_are_written_in_parts() -> None:
    joined = kinds().policy.joined
    assert joined is not None and joined >= BLOCK


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("margin", [(1, 1, 1, 1), (4, 3, 2, 5), (0, 2, 0, 0), (3, 0, 1, 0)])
def test_an_edge_around_computed_values_takes_one_kernel(mode: str, margin: tuple[int, ...]) -> None:
    x, g = data(1, 3, 131, 95), data(1, 3, 1, 1)

    def edged(x: Any, g: Any) -> Any:
        return F.pad(tb.maximum(x * g, 0.0), margin, mode=mode)

    kernels = same(edged, x, g)
    if mode == "replicate":  # its edges are repeated, which may take a kernel of their own
        return
    assert sum("concatenate" in line for line in kernels) == 1
    assert all("slice" in line for line in kernels)  # the values stand nowhere but between their edges


def test_what_others_read_is_there_too() -> None:
    x = data(1, 3, 131, 95)

    def edged(x: Any) -> Any:
        y = tb.maximum(x, 0.25)
        return F.pad(y, (2, 2, 2, 2), mode="reflect"), y * y

    same(edged, x)


def test_work_behind_a_join_stays_right() -> None:
    same(lambda x: F.pad(x * x, (1, 2, 2, 1), mode="reflect") - 1.0, data(2, 3, 131, 95))


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (1, 2), (2, 1), (2, 2), (0, 2)])
def test_joins_of_joins(axes: tuple[int, int]) -> None:
    first, second = axes

    def joined(x: Any, y: Any) -> Any:
        inner = tb.concatenate([tb.abs(x), y, tb.abs(x)], axis=first)
        return tb.concatenate([inner, tb.flip(inner, (2,)), -inner], axis=second)

    same(joined, data(19, 43, 37), data(19, 43, 37, seed=1))


def test_random_joins_of_pieces_of_one_another() -> None:
    """Pieces in any order: an operand may be made of a later one, stand twice, or be empty."""
    rng = np.random.default_rng(7)
    for _ in range(25):
        axis, seed = int(rng.integers(3)), int(rng.integers(1 << 30))

        def joined(x: Any, y: Any, axis: int = axis, seed: int = seed) -> Any:
            draw, value = np.random.default_rng(seed), tb.abs(x) - y
            for around in (axis, (axis + 1) % 3):
                cut = [slice(None)] * 3
                low, size = int(draw.integers(0, 9)), int(draw.integers(0, 9))
                cut[around] = slice(low, low + size)
                piece = value[tuple(cut)]
                parts = [tb.flip(piece, (around,)), value, piece, *[value] * int(draw.integers(0, 2))]
                value = tb.concatenate([parts[i] for i in draw.permutation(len(parts))], axis=around)
            return value

        shape = tuple(int(n) for n in rng.integers(17, 49, 3))
        same(joined, data(*shape), data(*shape, seed=1))


@pytest.mark.parametrize("axis", [1, 2])
def test_a_join_that_is_a_result_and_read_as_a_whole(axis: int) -> None:
    """Windows that are shifted (a roll along two axes), and their largest elements, leave one fusion."""
    x = data(1, 16, 16, 96)

    def rolled(x: Any) -> Any:
        rows = tb.concat([x[:, 12:], x[:, :12]], axis=1)
        both = tb.concat([rows[:, :, 12:], rows[:, :, :12]], axis=2)
        return both, tb.max(both, axis=3) * 2.0, tb.max(both, axis=axis)

    same(rolled, x)
