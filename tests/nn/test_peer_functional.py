"""Functions beside PyTorch's own, over many drawn geometries, masks and lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
import trilobite.framework.nn.functional as F
from trilobite.framework import nn

torch = pytest.importorskip("torch")
TF = torch.nn.functional
pytestmark = [
    pytest.mark.peer,
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths"),
]


def both(
    fn: str, arrays: list[np.ndarray], *args: Any, fixed: tuple[int, ...] = (), tol: float = 1e-9, **kw: Any
) -> None:
    """Results and gradients of one function on both sides."""
    ours, theirs = [tb.tensor(a) for a in arrays], [torch.from_numpy(a.copy()) for a in arrays]
    moving = [i for i, a in enumerate(arrays) if a.dtype.kind == "f" and i not in fixed]
    for i in moving:
        ours[i].requires_grad_()
        theirs[i].requires_grad_()
    a, b = getattr(F, fn)(*ours, *args, **kw), getattr(TF, fn)(*theirs, *args, **kw)
    outs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
    total, their_total = 0.0, 0.0
    for x, y in outs:
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=tol, atol=tol / 10)
        if x.dtype.kind == "f":
            w = np.random.default_rng(0).standard_normal(x.shape)
            total, their_total = (
                total + (x * tb.tensor(w)).sum(),
                their_total + (y * torch.from_numpy(w)).sum(),
            )
    total.backward()
    their_total.backward()
    for i in moving:
        np.testing.assert_allclose(ours[i].grad.numpy(), theirs[i].grad.numpy(), rtol=tol, atol=tol / 10)


def draws(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("seed", range(30))
def test_convolutions(seed: int) -> None:
    r = draws(seed)
    space, groups = int(r.integers(1, 4)), int(r.integers(1, 4))
    kernel, stride, dilation = (tuple(int(n) for n in r.integers(1, 4, space)) for _ in range(3))
    padding = tuple(int(n) for n in r.integers(0, 3, space))
    sizes = [int(d * (k - 1) + 1 + r.integers(0, 4)) for d, k in zip(dilation, kernel, strict=True)]
    x = r.standard_normal((int(r.integers(1, 3)), groups * int(r.integers(1, 3)), *sizes))
    w = r.standard_normal((groups * int(r.integers(1, 3)), x.shape[1] // groups, *kernel))
    both(f"conv{space}d", [x, w, r.standard_normal(len(w))], stride, padding, dilation, groups)


@pytest.mark.parametrize("seed", range(30))
def test_transposed_convolutions(seed: int) -> None:
    r = draws(seed)
    space, groups = int(r.integers(1, 4)), int(r.integers(1, 3))
    kernel, stride, dilation = (tuple(int(n) for n in r.integers(1, 4, space)) for _ in range(3))
    padding = tuple(int(r.integers(0, d * (k - 1) // 2 + 1)) for d, k in zip(dilation, kernel, strict=True))
    extra = tuple(int(r.integers(0, max(s, d))) for s, d in zip(stride, dilation, strict=True))
    x = r.standard_normal((2, groups * 2, *(int(n) for n in r.integers(1, 4, space))))
    w = r.standard_normal((groups * 2, int(r.integers(1, 3)), *kernel))
    b = r.standard_normal(w.shape[1] * groups)
    both(f"conv_transpose{space}d", [x, w, b], stride, padding, extra, groups, dilation)


@pytest.mark.parametrize("seed", range(40))
def test_pools(seed: int) -> None:
    r = draws(seed)
    space = int(r.integers(1, 4))
    kernel, stride = (tuple(int(n) for n in r.integers(1, 4, space)) for _ in range(2))
    padding = tuple(int(r.integers(0, k // 2 + 1)) for k in kernel)
    dilation = tuple(int(n) for n in r.integers(1, 3, space))
    sizes = [int(d * (k - 1) + 1 + r.integers(0, 5)) for d, k in zip(dilation, kernel, strict=True)]
    x = r.standard_normal((2, 2, *sizes))
    ceil = bool(r.integers(0, 2))
    both(
        f"max_pool{space}d",
        [x],
        kernel,
        stride,
        padding,
        dilation,
        ceil,
        return_indices=bool(r.integers(0, 2)),
    )
    both(f"avg_pool{space}d", [x], kernel, stride, padding, ceil, bool(r.integers(0, 2)))
    lp = (kernel, stride) if space > 1 else (kernel[0], stride[0])
    both(f"lp_pool{space}d", [np.abs(x) + 0.1], 3.0, *lp, ceil)
    wanted = tuple(int(n) for n in r.integers(1, 6, space))
    both(f"adaptive_avg_pool{space}d", [x], wanted)
    both(f"adaptive_max_pool{space}d", [x], wanted)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "bicubic", "area"])
@pytest.mark.parametrize("seed", range(12))
def test_resampling(mode: str, seed: int) -> None:
    r = draws(seed)
    space = 2 if mode == "bicubic" else int(r.integers(1, 4))
    name = {1: "linear", 2: "bilinear", 3: "trilinear"}[space] if mode == "linear" else mode
    x = r.standard_normal((1, 2, *(int(n) for n in r.integers(1, 8, space))))
    corners = {"align_corners": bool(r.integers(0, 2))} if mode in ("linear", "bicubic") else {}
    both("interpolate", [x], tuple(int(n) for n in r.integers(1, 13, space)), None, name, **corners)
    factors = tuple(float(f) for f in r.uniform(1.0 / min(x.shape[2:]), 3.5, space))
    again = bool(r.integers(0, 2))
    if mode.startswith("nearest") and any(int(n * f) == n for n, f in zip(x.shape[2:], factors, strict=True)):
        again = True  # where a size stays, PyTorch's gradient does not belong to its result
    both("interpolate", [x], None, factors, name, **corners, recompute_scale_factor=again, tol=1e-6)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding(mode: str) -> None:
    r = draws(1)
    for space in (1, 2, 3):
        x = r.standard_normal((2, 2, *(int(n) for n in r.integers(3, 6, space))))
        sides = tuple(int(n) for n in r.integers(0, 3, 2 * space))
        both("pad", [x], sides, mode)


def test_norms_and_similarity() -> None:
    r = draws(2)
    x, y = r.standard_normal((3, 4, 5)), r.standard_normal((3, 4, 5))
    for p, dim in ((2.0, 1), (1.0, -1), (3.0, 0)):
        both("normalize", [x], p, dim)
        both("cosine_similarity", [x, y], dim)
        both("pairwise_distance", [x, y], p)
    both("group_norm", [x], 2, eps=1e-3)
    both("local_response_norm", [x], 3, 0.1, 0.5, 2.0)


@pytest.mark.parametrize("seed", range(8))
def test_attention(seed: int) -> None:
    r = draws(seed)
    n, h, length, keys, e = 2, 4, 3, 5, 6
    q, k, v = (r.standard_normal((n, heads, s, e)) for heads, s in ((h, length), (2, keys), (2, keys)))
    both("scaled_dot_product_attention", [q, k, v], enable_gqa=True, is_causal=bool(seed % 2))
    k, v = (np.repeat(a, 2, 1) for a in (k, v))
    mask = r.random((n, 1, length, keys)) > 0.5
    both("scaled_dot_product_attention", [q, k, v, mask], scale=0.3)
    both("scaled_dot_product_attention", [q, k, v, np.where(mask, r.standard_normal(mask.shape), -1e9)])


@pytest.mark.parametrize("batch_first", [True, False])
def test_masks_of_multihead_attention(batch_first: bool) -> None:
    r = draws(4)
    ours = nn.MultiheadAttention(6, 2, batch_first=batch_first).double()
    theirs = torch.nn.MultiheadAttention(6, 2, batch_first=batch_first).double()
    theirs.load_state_dict({n: torch.from_numpy(np.array(t.numpy())) for n, t in ours.state_dict().items()})
    shape = (3, 4, 6) if batch_first else (4, 3, 6)
    x = r.standard_normal(shape)
    attn = r.random((4, 4)) > 0.6
    attn[:, 0] = False
    padding = np.zeros((3, 4), bool)
    padding[1, 3:] = True
    per_head = r.standard_normal((6, 4, 4))
    for a, p in ((attn, None), (None, padding), (attn, padding), (per_head, padding.astype(np.float64) * -3)):
        for need in (True, False):
            masks = [None if m is None else (tb.tensor(m), torch.from_numpy(m)) for m in (a, p)]
            got, want = (
                side(
                    x_,
                    x_,
                    x_,
                    attn_mask=masks[0] and masks[0][i],
                    key_padding_mask=masks[1] and masks[1][i],
                    need_weights=need,
                )
                for i, (side, x_) in enumerate(((ours, tb.tensor(x)), (theirs, torch.from_numpy(x))))
            )
            for g, t in zip(got, want, strict=True):
                if t is not None:
                    np.testing.assert_allclose(g.detach().numpy(), t.detach().numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_lengths_are_packed_sequences(kind: str) -> None:
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    r = draws(5)
    ours = getattr(nn, kind)(3, 4, 2, bidirectional=True).double()
    theirs = getattr(torch.nn, kind)(3, 4, 2, bidirectional=True).double()
    theirs.load_state_dict({n: torch.from_numpy(np.array(t.numpy())) for n, t in ours.state_dict().items()})
    x, lengths = r.standard_normal((6, 4, 3)), [2, 6, 1, 5]
    out, h = ours(tb.tensor(x), lengths=lengths)
    packed = pack_padded_sequence(torch.from_numpy(x), lengths, enforce_sorted=False)
    their_out, their_h = theirs(packed)
    np.testing.assert_allclose(
        out.detach().numpy(), pad_packed_sequence(their_out)[0].detach().numpy(), rtol=1e-9, atol=1e-12
    )
    pairs = zip(h, their_h, strict=True) if kind == "LSTM" else [(h, their_h)]
    for a, b in pairs:
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_embeddings_with_special_gradients() -> None:
    r = draws(6)
    index = np.array([[0, 2, 2], [4, 2, 1]])
    both("embedding", [index, r.standard_normal((5, 3))], padding_idx=2)
    both("embedding", [index, r.standard_normal((5, 3))], scale_grad_by_freq=True)
    long = r.standard_normal((5, 3)) * 4
    mine, theirs = tb.tensor(long), torch.from_numpy(long.copy())
    a = F.embedding(tb.tensor(index), mine, max_norm=1.5, norm_type=3.0)
    b = TF.embedding(torch.from_numpy(index), theirs, max_norm=1.5, norm_type=3.0)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6)


def test_losses_with_weights() -> None:
    r = draws(7)
    x, y, w = r.standard_normal((5, 4, 3)), r.integers(0, 4, (5, 3)), r.random(4)
    for reduction in ("mean", "sum", "none"):
        for kw in ({}, {"label_smoothing": 0.2}, {"ignore_index": 1, "label_smoothing": 0.1}):
            both("cross_entropy", [x, y, w], fixed=(2,), reduction=reduction, **kw)
        soft = r.random((5, 4, 3))
        both("cross_entropy", [x, soft, w], fixed=(2,), reduction=reduction, label_smoothing=0.3)
        both("nll_loss", [x, y, w], fixed=(2,), reduction=reduction, ignore_index=0)
    p = r.random((3, 4))
    both("binary_cross_entropy", [p, r.random((3, 4)), r.random((3, 4))], fixed=(2,))
    both("binary_cross_entropy_with_logits", [x[0], r.random((4, 3))], weight=None, pos_weight=None)
    both("multi_margin_loss", [x[:, :, 0], y[:, 0]], 2, 0.7)


@pytest.mark.parametrize("fn", ["mse_loss", "l1_loss", "huber_loss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weighted_distances(fn: str, reduction: str) -> None:
    r = draws(8)
    x, y, w = r.standard_normal((3, 4)), r.standard_normal((3, 4)), r.random((3, 4))
    ours = getattr(F, fn)(tb.tensor(x), tb.tensor(y), reduction, weight=tb.tensor(w))
    theirs = getattr(TF, fn)(*map(torch.from_numpy, (x, y)), reduction=reduction, weight=torch.from_numpy(w))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_ctc(seed: int) -> None:
    r = draws(seed)
    steps, n, classes, longest = 9, 3, 5, 4
    logits = r.standard_normal((steps, n, classes))
    lengths, times = r.integers(0, longest + 1, n), r.integers(5, steps + 1, n)
    targets = r.integers(1, classes, (n, longest))
    for reduction in ("mean", "sum", "none"):
        a = tb.tensor(logits, requires_grad=True)
        b = torch.from_numpy(logits.copy()).requires_grad_()
        ours = F.ctc_loss(
            F.log_softmax(a, -1), tb.tensor(targets), tb.tensor(times), tb.tensor(lengths), 0, reduction, True
        )
        rest = (torch.from_numpy(t) for t in (targets, times, lengths))
        theirs = TF.ctc_loss(TF.log_softmax(b, -1), *rest, 0, reduction, True)
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9)
        ours.sum().backward()
        theirs.sum().backward()
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-7, atol=1e-9)
