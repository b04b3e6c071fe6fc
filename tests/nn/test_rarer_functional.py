"""Functions of `nn.functional` that no layer of the tests calls, by loops in NumPy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import trilobite as tb

F = tb.nn.functional
RNG = np.random.default_rng(23)


def t(x: Any) -> Any:
    return tb.tensor(np.asarray(x))


# -- sampling ------------------------------------------------------------------------------------------------


def place(x: float, n: int, corners: bool, mode: str) -> float:
    """Where a coordinate from -1 to 1 lies among n elements."""
    at = (x + 1) / 2 * (n - 1) if corners else ((x + 1) * n - 1) / 2
    if mode == "border":
        return min(max(at, 0), n - 1)
    if mode == "reflection":
        low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
        span = high - low
        if span <= 0:
            return 0.0
        off = abs(at - low)
        turns, rest = divmod(off, span)
        at = low + rest if turns % 2 == 0 else high - rest
        return min(max(at, 0), n - 1)
    return at


def sampled(x: Any, grid: Any, mode: str, padding: str, corners: bool) -> Any:
    batch, channels, height, width = x.shape
    out = np.zeros((batch, channels, *grid.shape[1:3]))
    for b, i, j in itertools.product(range(batch), range(grid.shape[1]), range(grid.shape[2])):
        column, row = (
            place(v, n, corners, padding) for v, n in zip(grid[b, i, j], (width, height), strict=True)
        )
        if mode == "nearest":
            taps = [(round(row), round(column), 1.0)]
        else:
            r, c = math.floor(row), math.floor(column)
            taps = [
                (r + dr, c + dc, (row - r if dr else 1 - row + r) * (column - c if dc else 1 - column + c))
                for dr in (0, 1) for dc in (0, 1)
            ]  # fmt: skip
        for r, c, weight in taps:
            if 0 <= r < height and 0 <= c < width:
                out[b, :, i, j] += weight * x[b, :, r, c]
    return out


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [True, False])
def test_samples_of_a_grid(mode: str, padding: str, corners: bool) -> None:
    x = RNG.standard_normal((2, 3, 4, 5))
    grid = RNG.uniform(-2.2, 2.2, (2, 3, 6, 2))
    found = F.grid_sample(t(x), t(grid), mode, padding, corners)
    np.testing.assert_allclose(found.numpy(), sampled(x, grid, mode, padding, corners), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("corners", [True, False])
def test_grids_of_affine_maps(corners: bool) -> None:
    theta = RNG.standard_normal((2, 2, 3))
    found = F.affine_grid(t(theta), (2, 1, 3, 4), align_corners=corners).numpy()
    for b, i, j in itertools.product(range(2), range(3), range(4)):
        y, x = (
            -1 + 2 * k / (n - 1) if corners else (2 * k + 1) / n - 1 for k, n in ((i, 3), (j, 4))
        )  # fmt: skip
        np.testing.assert_allclose(found[b, i, j], theta[b] @ [x, y, 1.0], rtol=1e-9)
    deep = RNG.standard_normal((1, 3, 4))
    found = F.affine_grid(t(deep), (1, 1, 2, 3, 4), align_corners=corners).numpy()
    assert found.shape == (1, 2, 3, 4, 3)
    last = [1.0, 1.0, 1.0] if corners else [3 / 4, 2 / 3, 1 / 2]
    np.testing.assert_allclose(found[0, 1, 2, 3], deep[0] @ [*last, 1.0], rtol=1e-9)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("hard", [True, False])
def test_soft_choices_by_gumbels_noise(dim: int, hard: bool) -> None:
    logits = np.log([[0.1, 0.6, 0.3], [0.7, 0.2, 0.1]])
    tb.manual_seed(2)
    x = tb.tensor(np.broadcast_to(logits, (3000, 2, 3)).copy(), requires_grad=True)
    found = F.gumbel_softmax(x, tau=0.5, hard=hard, dim=dim + 1 if dim >= 0 else dim)
    np.testing.assert_allclose(found.detach().numpy().sum(dim + 1 if dim >= 0 else dim), 1.0, rtol=1e-9)
    axis = dim if dim >= 0 else 1
    best = (found.detach().numpy() == found.detach().numpy().max(axis + 1, keepdims=True)).mean(0)
    share = np.exp(logits) / np.exp(logits).sum(axis, keepdims=True)
    np.testing.assert_allclose(best, share, atol=0.04)
    if hard:
        assert set(np.unique(found.detach().numpy())) == {0.0, 1.0}
    (found * tb.arange(3.0)).sum().backward()
    assert x.grad is not None and (np.abs(x.grad.numpy()) > 0).any()
    tb.manual_seed(2)
    cold = F.gumbel_softmax(t(logits), tau=0.01)
    assert cold.numpy().max(-1).min() > 0.9


def test_slopes_of_a_random_relu() -> None:
    x = np.concatenate([-np.ones(4000), np.ones(4000)])
    tb.manual_seed(3)
    y = F.rrelu(t(x), 0.2, 0.4, training=True).numpy()
    np.testing.assert_array_equal(y[4000:], x[4000:])
    slopes = -y[:4000]
    assert 0.2 <= slopes.min() < 0.203 and 0.397 < slopes.max() <= 0.4
    assert slopes.mean() == pytest.approx(0.3, abs=0.005)
    np.testing.assert_allclose(F.rrelu(t(x), 0.2, 0.4).numpy()[:4000], -0.3, rtol=1e-9)
    np.testing.assert_allclose(F.rrelu(t([-1.0])).numpy(), -(1 / 8 + 1 / 3) / 2, rtol=1e-6)


# -- pools ---------------------------------------------------------------------------------------------------


def pooled(x: Any, size: int, stride: int, padding: int, dilation: int) -> tuple[Any, Any]:
    """Largest elements of windows of one axis after another at once, and where each stands."""
    spatial = x.shape[1:]
    outs = [(n + 2 * padding - dilation * (size - 1) - 1) // stride + 1 for n in spatial]
    best, at = np.empty((x.shape[0], *outs)), np.empty((x.shape[0], *outs), np.int64)
    for c in range(x.shape[0]):
        for out in itertools.product(*map(range, outs)):
            found: list[tuple[float, int]] = []
            for tap in itertools.product(range(size), repeat=len(spatial)):
                where = [o * stride - padding + k * dilation for o, k in zip(out, tap, strict=True)]
                if all(0 <= w < n for w, n in zip(where, spatial, strict=True)):
                    flat = int(np.ravel_multi_index(where, spatial))
                    found.append((-x[c].flat[flat], flat))
            value, flat = min(found)
            best[(c, *out)], at[(c, *out)] = -value, flat
    return best, at


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    ("size", "stride", "padding", "dilation"), [(2, 2, 0, 1), (3, 2, 1, 1), (2, 1, 1, 2)]
)
def test_largest_elements_their_places_and_back(
    axes: int, size: int, stride: int, padding: int, dilation: int
) -> None:
    x = RNG.permutation(3 * 7**axes).reshape(3, *[7] * axes).astype(np.float64)
    call = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[axes - 1]
    named = (F.max_pool1d_with_indices, F.max_pool2d_with_indices, F.max_pool3d_with_indices)[axes - 1]
    best, at = pooled(x, size, stride, padding, dilation)
    for found in (
        call(t(x), size, stride, padding, dilation, return_indices=True),
        named(t(x), size, stride, padding, dilation),
    ):
        np.testing.assert_array_equal(found[0].numpy(), best)
        np.testing.assert_array_equal(found[1].numpy(), at)
    if dilation > 1 or stride < size:
        return
    back = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[axes - 1]
    want = np.zeros_like(x)
    for c in range(3):
        want[c].flat[at[c].reshape(-1)] = best[c].reshape(-1)
    found = back(t(best), t(at), size, stride, padding, output_size=x.shape[1:])
    np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("to", [1, 3, 5])
def test_pools_to_a_size(axes: int, to: int) -> None:
    x = RNG.permutation(2 * 7**axes).reshape(2, *[7] * axes).astype(np.float64)
    ends = [(k * 7 // to, -((-(k + 1) * 7) // to)) for k in range(to)]
    means = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[axes - 1](t(x), to).numpy()
    largest = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[axes - 1]
    best, at = largest(t(x), to, return_indices=True)
    np.testing.assert_array_equal(largest(t(x), to).numpy(), best.numpy())
    for out in itertools.product(range(to), repeat=axes):
        part = x[(slice(None), *(slice(*ends[o]) for o in out))].reshape(2, -1)
        np.testing.assert_allclose(means[(slice(None), *out)], part.mean(1), rtol=1e-12)
        np.testing.assert_array_equal(best.numpy()[(slice(None), *out)], part.max(1))
        flat = at.numpy()[(slice(None), *out)]
        np.testing.assert_array_equal(x.reshape(2, -1)[[0, 1], flat], part.max(1))


# -- moves, norms, convolutions ------------------------------------------------------------------------------


def test_channels_and_pixels_change_places() -> None:
    x = RNG.standard_normal((2, 6, 4, 6))
    want = x.reshape(2, 3, 2, 4, 6).transpose(0, 2, 1, 3, 4).reshape(2, 6, 4, 6)
    np.testing.assert_array_equal(F.channel_shuffle(t(x), 3).numpy(), want)
    down = F.pixel_unshuffle(t(x), 2).numpy()
    assert down.shape == (2, 24, 2, 3)
    for c, i, j in itertools.product(range(6), range(2), range(2)):
        np.testing.assert_array_equal(down[:, 4 * c + 2 * i + j], x[:, c, i::2, j::2])
    np.testing.assert_array_equal(F.pixel_shuffle(t(down), 2).numpy(), x)


@pytest.mark.parametrize("beta", [0.5, 0.6, 0.75])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_norms_by_neighbouring_channels(size: int, beta: float) -> None:
    x = RNG.standard_normal((2, 6, 3))
    want = np.empty_like(x)
    for c in range(6):
        near = x[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
        want[:, c] = x[:, c] / (1.5 + 0.3 / size * (near**2).sum(1)) ** beta
    found = F.local_response_norm(t(x), size, alpha=0.3, beta=beta, k=1.5)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-9)


@pytest.mark.parametrize("pad", [0, 2])
def test_a_convolution_of_times_batches_and_channels(pad: int) -> None:
    x, w, b = RNG.standard_normal((7, 2, 3)), RNG.standard_normal((3, 3, 4)), RNG.standard_normal(4)
    framed = np.pad(x, ((pad, pad), (0, 0), (0, 0)))
    want = np.stack([np.einsum("kbc,kco->bo", framed[i : i + 3], w) for i in range(len(framed) - 2)]) + b
    np.testing.assert_allclose(F.conv_tbc(t(x), t(w), t(b), pad).numpy(), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions_there_and_back_are_each_others_slopes(axes: int) -> None:
    """Of conv with x and of conv_transpose with y, both with the same weight: <conv x, y> = <x, back y>."""
    x, w = RNG.standard_normal((2, 4, *[6] * axes)), RNG.standard_normal((6, 2, *[3] * axes))
    given = {"stride": 2, "padding": 1, "groups": 2, "dilation": 1}
    there = (F.conv1d, F.conv2d, F.conv3d)[axes - 1](t(x), t(w), None, **given)
    y = t(RNG.standard_normal(there.shape))
    back = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[axes - 1](
        y, t(w), None, output_padding=1, **given
    )
    assert back.shape == x.shape
    np.testing.assert_allclose(float((there * y).sum()), float((t(x) * back).sum()), rtol=1e-9)
    bias = t(RNG.standard_normal(6))
    with_bias = (F.conv1d, F.conv2d, F.conv3d)[axes - 1](t(x), t(w), bias, **given)
    moved = (with_bias - there).numpy()
    np.testing.assert_allclose(
        moved, np.broadcast_to(bias.numpy().reshape(6, *[1] * axes), moved.shape), atol=1e-9
    )


@pytest.mark.parametrize("size", [None, (6, 10)])
def test_older_names_of_enlarging(size: Any) -> None:
    x = t(RNG.standard_normal((1, 2, 3, 5)))
    given = {"size": size} if size else {"scale_factor": 2}
    nearest, bilinear = F.upsample_nearest(x, **given), F.upsample_bilinear(x, **given)
    np.testing.assert_array_equal(nearest.numpy(), x.numpy().repeat(2, 2).repeat(2, 3))
    want = F.interpolate(x, **given, mode="bilinear", align_corners=True)
    np.testing.assert_array_equal(bilinear.numpy(), want.numpy())
    assert (F.interpolate(x, **given, mode="bilinear").numpy() != want.numpy()).any()
    np.testing.assert_allclose(bilinear.numpy()[..., ::5, ::9], x.numpy()[..., ::2, ::4])  # corners stay


def test_softmin_and_the_dtype_that_was_asked_for() -> None:
    x = RNG.standard_normal((2, 3))
    want = np.exp(-x) / np.exp(-x).sum(0)
    np.testing.assert_allclose(F.softmin(t(x), 0).numpy(), want, rtol=1e-9)
    assert F.softmin(t(x), 0, dtype=tb.float32).dtype == tb.float32


@pytest.mark.parametrize(
    "name", ["celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_"]
)
def test_functions_that_write_in_place(name: str) -> None:
    given = {"celu_": (0.7,), "elu_": (0.7,), "hardtanh_": (-0.4, 0.6), "leaky_relu_": (0.3,),
             "threshold_": (0.1, 7.0), "rrelu_": (0.2, 0.4)}.get(name, ())  # fmt: skip
    source = RNG.standard_normal(9)
    x = t(source)
    want = getattr(F, name.rstrip("_"))(t(source), *given).numpy()
    assert getattr(F, name)(x, *given) is x
    np.testing.assert_array_equal(x.numpy(), want)
    assert (want != source).any()
