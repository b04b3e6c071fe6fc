"""Values that are read late, in several orders of their axes, while others take and give back memory."""

from __future__ import annotations

import numpy as np
import pytest
import trilobite.nn.functional as F

import trilobite as tb
from trilobite import Tensor

MANY = 24  # steps of a random program
MOST = 2048  # elements of one of its values


def small(rng: np.random.Generator, *shape: int) -> Tensor:
    """Whole numbers whose sums and products float32 holds."""
    return tb.tensor(rng.integers(-2, 3, shape).astype(np.float32))


def folded(x: Tensor) -> Tensor:
    """The same, small again, still whole numbers."""
    return x - tb.round(x / 5) * 5


class Draw:
    """A random program: the same steps for the same seed, whatever runs them."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.seed, self.inputs = seed, [small(rng, 1, 4, 6, 5), small(rng, 3, 8), small(rng, 2, 3, 4)]

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        rng, values = np.random.default_rng(self.seed + 1), list(inputs)
        turned = [x.permute(*(int(a) for a in rng.permutation(x.ndim))) for x in inputs]
        values += turned
        for _ in range(MANY):
            among = turned if rng.integers(2) else values
            made = self.step(int(rng.integers(6)), among[int(rng.integers(len(among)))], values, rng)
            if 0 < made.numel() <= MOST:
                values.append(made)
        picked = rng.permutation(len(values))[:4]
        return [values[int(i)] for i in picked] + values[-1:]

    def step(self, which: int, x: Tensor, values: list[Tensor], rng: np.random.Generator) -> Tensor:
        rank = x.ndim
        if which == 0:
            return x.permute(*(int(a) for a in rng.permutation(rank)))
        if which == 1:
            return x.reshape(tuple(reversed(x.shape)) if rng.integers(2) else (x.shape[0], -1))
        if which == 2 and rank == 4:
            weight = small(rng, int(rng.integers(1, 6)), x.shape[1], 2, 3)
            return folded(F.conv2d(x, weight, stride=int(rng.integers(1, 3)), padding=1))
        if which == 2 and rank > 1:
            return folded(x.sum(int(rng.integers(rank))))
        if which == 3:
            same = [v for v in values if tuple(v.shape) == tuple(x.shape)]
            return folded(x + same[int(rng.integers(len(same)))])
        if which == 4:
            rows = x.shape[0] * x.shape[1] if rank > 2 else 1
            return folded(x.reshape(rows, -1).sum(int(rng.integers(2))))
        wide = folded(x.sum(-1, keepdim=True) + small(rng, 6))
        return folded(wide @ small(rng, 6, x.shape[-1]) + x)


@pytest.mark.parametrize("seed", range(12))
def test_values_read_late_in_another_order(seed: int) -> None:
    program = Draw(seed)
    with tb.no_grad():
        want = program(*program.inputs)
        got = tb.jit(program, target="dlp:dlp-s" if seed % 3 else "dlp:dlp-m")(*program.inputs)
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        np.testing.assert_array_equal(b.numpy(), a.numpy(), f"seed {seed}, result {i}")


SOURCES = {
    "convolution": lambda x, w: F.conv2d(x, w, stride=2, padding=1).reshape(1, 16, 35).permute(0, 2, 1),
    "product": lambda x, w: (w.reshape(16, -1)[:, :20] @ x.reshape(1, 20, 56)[:, :, :35]).permute(0, 2, 1),
    "input": lambda x, w: x.reshape(1, 16, 70).permute(0, 2, 1)[:, :35],
}
EARLY = {
    "sum": lambda p: p.reshape(35, 16).sum(0),
    "product": lambda p: p.reshape(70, 8) @ tb.ones(8, 2),
    "taken": lambda p: p.reshape(560)[3:400:7],
}
LATE = {
    "added": lambda p, o, m: p + o @ m,
    "summed": lambda p, o, m: (p * 2 + o).sum(1),
    "joined": lambda p, o, m: tb.cat([p, o], 1),
    "flat": lambda p, o, m: p.reshape(5, 112) + o.reshape(5, 112),
}


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("early", EARLY)
@pytest.mark.parametrize("source", SOURCES)
def test_a_copy_whose_memory_was_given_away_is_made_again(source: str, early: str, late: str) -> None:
    """A value in another order is copied for a reader that is done early, and wanted in that order later."""
    rng = np.random.default_rng(0)
    x, w, m = small(rng, 1, 8, 14, 10), small(rng, 16, 8, 4, 4), small(rng, 16, 16)

    def f(x: Tensor, w: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
        pixels = SOURCES[source](x, w)
        first = EARLY[early](pixels)
        other = tb.round(tb.sigmoid(tb.sigmoid(pixels @ m) @ m) * 8)
        return first, LATE[late](pixels, other, m)

    got = tb.jit(f, target="dlp:dlp-s")(x, w, m)
    for a, b in zip(f(x, w, m), got, strict=True):
        np.testing.assert_array_equal(b.numpy(), a.numpy())


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
def test_a_body_that_is_written_twice_takes_its_memory_twice(machine: str) -> None:
    """Gradients of two recurrent layers of one size share the regions of their loops."""
    tb.manual_seed(0)
    layers = tb.nn.ModuleList([tb.nn.GRU(3, 3, batch_first=True) for _ in range(3)])
    x = small(np.random.default_rng(0), 2, 5, 3)

    def gradients(x: Tensor) -> list[Tensor]:
        layers.zero_grad()
        for layer in layers:
            x = layer(x.flip(1))[0] + x
        (x * x).sum().backward()
        return [p.grad for p in layers.parameters()]

    got = tb.jit(gradients, target=f"dlp:{machine}")(x)
    for a, b in zip(gradients(x), got, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-4, atol=1e-5 * float(abs(a).max()))
