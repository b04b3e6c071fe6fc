"""Settings of layers' functions at their ends, beside loops in NumPy: padding, norms of windows, heads,
margins, places between pixels.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn
from trilobite.base.errors import ArgumentError

F = nn.functional


@pytest.mark.parametrize("sides", list(itertools.product((-2, -1, 0, 1, 3), repeat=2)))
def test_padding_of_every_mode(sides: tuple[int, int]) -> None:
    """What is cropped is no part of a circle; reflections and edges look at the whole."""
    x = np.arange(1.0, 9.0, dtype=np.float32).reshape(2, 4)
    low, high = sides
    crop = x[:, max(-low, 0) : 4 - max(-high, 0)]
    more = ((0, 0), (max(low, 0), max(high, 0)))
    for ours, theirs in (
        ("constant", "constant"),
        ("circular", "wrap"),
        ("reflect", "reflect"),
        ("replicate", "edge"),
    ):
        if ours == "circular" and crop.shape[1] < max(low, high):
            continue
        if ours in ("constant", "circular"):
            want = np.pad(crop, more, mode=theirs)  # type: ignore[call-overload]
        else:
            whole = np.pad(x, more, mode=theirs)  # type: ignore[call-overload]
            want = whole[:, max(-low, 0) : whole.shape[1] - max(-high, 0)]
        np.testing.assert_array_equal(F.pad(tb.tensor(x), sides, ours).numpy(), want, err_msg=ours)
    want = np.pad(crop, more, constant_values=7)
    np.testing.assert_array_equal(F.pad(tb.tensor(x), sides, value=7).numpy(), want)


@pytest.mark.parametrize("p", [1.0, 2.0, 0.5, 3.0, -1.0, math.inf, -math.inf])
@pytest.mark.parametrize("ceil", [False, True])
def test_norms_of_windows(p: float, ceil: bool) -> None:
    """An incomplete window counts as if it were full of its average."""
    x = np.abs(np.random.default_rng(2).standard_normal((1, 2, 8))).astype(np.float32) + np.float32(0.1)
    found = F.lp_pool1d(tb.tensor(x), p, 3, 2, ceil_mode=ceil).numpy()
    starts = [0, 2, 4, 6] if ceil else [0, 2, 4]
    want = []
    for s in starts:
        part = x[..., s : s + 3].astype(np.float64)
        if math.isinf(p):
            want.append(part.max(-1) if p > 0 else part.min(-1))
        else:
            want.append((np.mean(part**p, -1) * 3) ** (1 / p))
    np.testing.assert_allclose(found, np.stack(want, -1), rtol=2e-5)


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.0])
def test_norms_of_windows_of_zeros(p: float) -> None:
    x = tb.tensor(np.zeros((1, 1, 4), np.float32), requires_grad=True)
    out = F.lp_pool1d(x, p, 2)
    assert out.detach().numpy().tolist() == [[[0.0, 0.0]]]
    out.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def attended(
    x: Any, w: Any, b: Any, o: Any, heads: int, hidden: Any = None, causal: bool = False, extra: Any = None,
    zero: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Several heads by loops, in float64; `hidden` is added to scores of (batch, heads, length, keys)."""
    length, batch, features = x.shape
    q, k, v = (
        x @ w[i * features : (i + 1) * features].T + b[i * features : (i + 1) * features] for i in range(3)
    )
    if extra is not None:
        k, v = (np.concatenate([s, np.tile(e, (1, batch, 1))]) for s, e in zip((k, v), extra, strict=True))
    if zero:
        k, v = (np.concatenate([s, np.zeros((1, batch, features))]) for s in (k, v))
    size, keys = features // heads, len(k)
    out, how = np.zeros(x.shape), np.zeros((batch, heads, length, keys))
    for n, h in itertools.product(range(batch), range(heads)):
        at = slice(h * size, (h + 1) * size)
        scores = q[:, n, at] @ k[:, n, at].T / math.sqrt(size)
        if causal:
            scores[np.triu_indices(length, 1, keys)] = -np.inf
        if hidden is not None:
            scores[:, : hidden.shape[-1]] += hidden[n, h]
        soft = np.exp(scores - scores.max(-1, keepdims=True))
        how[n, h] = soft / soft.sum(-1, keepdims=True)
        out[:, n, at] = how[n, h] @ v[:, n, at]
    return out @ o.T, how


@pytest.mark.parametrize(
    "case",
    [
        "plain",
        "bool",
        "float",
        "each",
        "padding",
        "both",
        "causal",
        "extra",
        "zero",
        "one",
        "heads",
        "separate",
    ],
)
def test_several_heads_by_loops(case: str) -> None:
    rng = np.random.default_rng(5)
    x, w, b, o = (rng.standard_normal(s) for s in ((3, 2, 4), (12, 4), (12,), (4, 4)))
    named: dict[str, Any] = {}
    hidden = np.zeros((2, 2, 3, 3))
    ahead, floats = np.triu(np.ones((3, 3), bool), 2), rng.standard_normal((3, 3))
    padding = np.array([[False, False, True], [False, False, False]])
    if case in ("bool", "both"):
        named["attn_mask"] = tb.tensor(ahead)
        hidden = hidden + np.where(ahead, -np.inf, 0.0)
    if case in ("float", "extra", "zero"):
        named["attn_mask"] = tb.tensor(floats)
        hidden = hidden + floats
    if case == "each":
        each = rng.standard_normal((4, 3, 3))
        named["attn_mask"] = tb.tensor(each)
        hidden = each.reshape(2, 2, 3, 3)
    if case in ("padding", "both"):
        named["key_padding_mask"] = tb.tensor(padding)
        hidden = hidden + np.where(padding, -np.inf, 0.0)[:, None, None]
    if case == "causal":
        named["is_causal"] = True
    extra = rng.standard_normal((2, 1, 1, 4)) if case == "extra" else None
    if extra is not None:
        named |= {"bias_k": tb.tensor(extra[0]), "bias_v": tb.tensor(extra[1])}
    want, how = attended(x, w, b, o, 2, hidden, case == "causal", extra, case == "zero")
    given: dict[str, Any] = {
        "bias_k": None,
        "bias_v": None,
        "add_zero_attn": case == "zero",
        "dropout_p": 0.5,
        "out_proj_weight": tb.tensor(o),
        "out_proj_bias": None,
        "training": False,
    }
    weights: Any = tb.tensor(w)
    if case == "separate":
        parts = dict(
            zip(
                ("q_proj_weight", "k_proj_weight", "v_proj_weight"),
                map(tb.tensor, np.split(w, 3)),
                strict=True,
            )
        )
        named |= {"use_separate_proj_weight": True, **parts}
        weights = None
    if case == "heads":
        named["average_attn_weights"] = False
    y = tb.tensor(x[:, 0]) if case == "one" else tb.tensor(x)
    call = F.multi_head_attention_forward
    out, found = call(y, y, y, 4, 2, weights, tb.tensor(b), **{**given, **named})
    if case == "one":
        want, how = want[:, 0], how[:1]
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-9, atol=1e-12)
    wanted = how if case == "heads" else how.mean(1)
    np.testing.assert_allclose(found.numpy(), wanted[0] if case == "one" else wanted, rtol=1e-9, atol=1e-12)
    only, nothing = call(y, y, y, 4, 2, weights, tb.tensor(b), **{**given, **named, "need_weights": False})
    assert nothing is None
    np.testing.assert_allclose(only.numpy(), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [1, 2])
def test_margins_of_several_classes(p: int, weighted: bool) -> None:
    rng = np.random.default_rng(7)
    x, y, w = rng.standard_normal((5, 4)), rng.integers(0, 4, 5), rng.random(4)
    want = np.zeros(5)
    for n, i in itertools.product(range(5), range(4)):
        if i != y[n]:
            want[n] += max(0.0, 0.7 - x[n, y[n]] + x[n, i]) ** p * (w[y[n]] if weighted else 1) / 4
    given = {"p": p, "margin": 0.7, "weight": tb.tensor(w) if weighted else None}
    found = F.multi_margin_loss(tb.tensor(x), tb.tensor(y), reduction="none", **given)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)
    one = F.multi_margin_loss(tb.tensor(x[0]), tb.tensor(y[:1]), **given)
    assert one.shape == () and one.item() == pytest.approx(want[0], rel=1e-12)


def test_probabilities_with_weights() -> None:
    rng = np.random.default_rng(8)
    x, y, w = rng.standard_normal((3, 4)), rng.random((3, 4)), rng.random(4)
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    for smoothing in (0.0, 0.3):
        soft = y * (1 - smoothing) + smoothing / 4
        want = -(soft * logs * w).sum(1)
        found = F.cross_entropy(
            tb.tensor(x), tb.tensor(y), tb.tensor(w), label_smoothing=smoothing, reduction="none"
        )
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)
        mean = F.cross_entropy(tb.tensor(x), tb.tensor(y), tb.tensor(w), label_smoothing=smoothing)
        assert mean.item() == pytest.approx(want.mean(), rel=1e-12)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("edge", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_images_read_at_places(mode: str, edge: str, aligned: bool) -> None:
    """By loops, also of planes with one row, where reflections have nowhere to go."""
    rng = np.random.default_rng(9)
    for shape in ((1, 2, 4, 5), (1, 1, 1, 3)):
        x, grid = rng.standard_normal(shape), rng.uniform(-1.7, 1.7, (1, 3, 6, 2))
        found = F.grid_sample(tb.tensor(x), tb.tensor(grid), mode, edge, aligned).numpy()
        want = np.zeros((*shape[:2], 3, 6))
        for i, j in itertools.product(range(3), range(6)):
            places = [unnormal(grid[0, i, j, 1 - a], shape[2 + a], aligned) for a in range(2)]
            want[0, :, i, j] = read_at(x[0], places, mode, edge, aligned)
        np.testing.assert_allclose(found, want, rtol=1e-8, atol=1e-9, err_msg=str(shape))


def unnormal(x: float, n: int, aligned: bool) -> float:
    return (x + 1) / 2 * (n - 1) if aligned else ((x + 1) * n - 1) / 2


def settled(x: float, n: int, edge: str, aligned: bool) -> float:
    if edge == "reflection":
        low, high = (0.0, n - 1.0) if aligned else (-0.5, n - 0.5)
        while low < high and not low <= x <= high:
            x = 2 * low - x if x < low else 2 * high - x
    return min(max(x, 0.0), n - 1.0) if edge != "zeros" else x


def read_at(image: Any, places: list[float], mode: str, edge: str, aligned: bool) -> Any:
    sizes = image.shape[1:]

    def element(y: float, x: float) -> Any:
        inside = 0 <= y <= sizes[0] - 1 and 0 <= x <= sizes[1] - 1
        return image[:, int(y), int(x)] if inside else np.zeros(len(image))

    if mode == "bicubic":
        firsts = [math.floor(p) for p in places]
        total = np.zeros(len(image))
        for i, j in itertools.product(range(-1, 3), repeat=2):
            y, x = (settled(f + k, n, edge, aligned) for f, k, n in zip(firsts, (i, j), sizes, strict=True))
            weight = cubic(places[0] - firsts[0] - i) * cubic(places[1] - firsts[1] - j)
            total += weight * element(y, x)
        return total
    y, x = (settled(p, n, edge, aligned) for p, n in zip(places, sizes, strict=True))
    if mode == "nearest":
        return element(np.round(y), np.round(x))
    total = np.zeros(len(image))
    for i, j in itertools.product((0, 1), repeat=2):
        fy, fx = math.floor(y), math.floor(x)
        total += (1 - abs(y - fy - i)) * (1 - abs(x - fx - j)) * element(fy + i, fx + j)
    return total


def cubic(t: float, a: float = -0.75) -> float:
    t = abs(t)
    if t <= 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a if t < 2 else 0.0


def test_targets_of_no_labels() -> None:
    """All rows empty: only blanks are left."""
    logs = F.log_softmax(tb.tensor(np.random.default_rng(4).standard_normal((6, 2, 4))), 2)
    nothing = tb.zeros((0,), dtype=tb.int64)
    found = F.ctc_loss(logs, nothing, [6, 5], [0, 0], reduction="none").numpy()
    logs = logs.numpy()
    np.testing.assert_allclose(found, [-logs[:6, 0, 0].sum(), -logs[:5, 1, 0].sum()], rtol=1e-6)


@pytest.mark.parametrize("cutoffs", [[], [3, 2], [2, 2], [0, 3], [-1], [6], [2, 6]])
def test_cutoffs_that_are_none(cutoffs: list[Any]) -> None:
    """Six classes: a cut lies from 1 to 5, and cuts rise."""
    with pytest.raises(ArgumentError, match=r"cutoffs \[.*\] for 6 classes"):
        nn.AdaptiveLogSoftmaxWithLoss(4, 6, cutoffs)


@pytest.mark.parametrize("cutoffs", [[1], [5], [1, 2, 3, 4, 5]])
def test_cutoffs_at_their_ends(cutoffs: list[int]) -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 6, cutoffs, div_value=1.5)
    x = tb.tensor(np.random.default_rng(1).standard_normal((5, 16)).astype(np.float32))
    logs = layer.log_prob(x).detach().numpy()
    assert logs.shape == (5, 6)
    np.testing.assert_allclose(np.exp(logs).sum(1), 1, rtol=1e-5)
    out = layer(x, tb.tensor(np.array([0, 1, 3, 4, 5])))
    np.testing.assert_allclose(
        out.output.detach().numpy(), logs[range(5), [0, 1, 3, 4, 5]], rtol=1e-4, atol=1e-5
    )
    assert layer.predict(x).tolist() == logs.argmax(1).tolist()
