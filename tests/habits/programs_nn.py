"""Programs of functions of `nn`, for `programs.py`, and what all programs use."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

R = np.random.default_rng(12)
X, Y, W4 = R.normal(size=(3, 4)), R.normal(size=(3, 4)), R.random((3, 4))
IMAGE, GRID = R.normal(size=(2, 3, 6, 5)), R.uniform(-1.4, 1.4, (2, 3, 4, 2))
PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[fn.__name__] = fn
    return fn


def room(m: Any, name: str) -> Any:
    return import_module(f"{m.__name__}.{name}")


def filled(m: Any, module: Any) -> Any:
    """Parameters that do not depend on who draws."""
    with m.no_grad():
        for i, (_, p) in enumerate(sorted(module.named_parameters())):
            p.copy_(m.tensor(np.cos(np.arange(p.numel()) * (i + 1.0)).reshape(tuple(p.shape)) * 0.5))
    return module


def refuses(call: Callable[[], Any]) -> bool:
    try:
        call()
    except Exception:
        return True
    return False


def slopes(outs: Any, *of: Any) -> list[Any]:
    """The results, and the gradients of their weighted sum."""
    outs = [o for o in (outs if isinstance(outs, (tuple, list)) else [outs]) if o is not None]
    for x in of:
        x.grad = None
    sum((o * o.detach().cos()).sum() for o in outs if o.requires_grad).backward()
    return [*outs, *(x.grad for x in of)]


# -- functions ----------------------------------------------------------------------------------------------

KINDS = [
    "",
    "weights-of-heads",
    "no-weights",
    "zero",
    "bias",
    "mask",
    "padding",
    "mask padding bias zero",
    "separate",
    "single",
    "mask3",
    "single padding",
]


def _attention(kind: str) -> Callable[[Any], Any]:
    r = np.random.default_rng(1)
    e, heads, length, batch, keys = 12, 3, 5, 2, 7
    q, k, v = (r.normal(size=(n, batch, e)) for n in (length, keys, keys))
    w, b, wo, bo = (r.normal(size=s) for s in ((3 * e, e), 3 * e, (e, e), e))
    bk, bv = r.normal(size=(2, 1, 1, e))
    parts = r.normal(size=(3, e, e))
    mask, padding = r.random((length, keys)) < 0.3, r.random((batch, keys)) < 0.3
    mask[:, 0] = padding[:, 0] = False
    mask3 = r.normal(size=(batch * heads, length, keys))

    def run(m: Any) -> Any:
        t, single = m.tensor, "single" in kind
        operands = [t(x[:, 0].copy() if single else x) for x in (q, k, v)]
        extra = [t(bk), t(bv)] if "bias" in kind else [None, None]
        own: dict[str, Any] = {}
        if kind == "separate":
            own = {f"{n}_proj_weight": t(p) for n, p in zip("qkv", parts, strict=True)}
        hidden = padding[0] if single else padding
        return list(
            m.nn.functional.multi_head_attention_forward(
                *operands,
                e,
                heads,
                None if own else t(w),
                t(b),
                *extra,
                "zero" in kind,
                0.0,
                t(wo),
                t(bo),
                need_weights=kind != "no-weights",
                average_attn_weights=kind != "weights-of-heads",
                attn_mask=t(mask3) if kind == "mask3" else t(mask) if "mask" in kind else None,
                key_padding_mask=t(hidden) if "padding" in kind else None,
                use_separate_proj_weight=bool(own),
                **own,
            )
        )

    return run


for _kind in KINDS:
    PROGRAMS[f"heads {_kind}"] = _attention(_kind)


@program
def losses(m: Any) -> Any:
    f, out = m.nn.functional, []
    x = m.tensor(X, requires_grad=True)
    y, w, labels = m.tensor(Y), m.tensor(W4), m.tensor(np.array([3, 0, 2]))
    for how in ("mean", "sum", "none"):
        for name in ("mse_loss", "l1_loss", "huber_loss"):
            out += slopes(getattr(f, name)(x, y, reduction=how, weight=w), x)
        out += slopes(f.smooth_l1_loss(x, y, reduction=how, beta=0.3), x)
        out += slopes(f.smooth_l1_loss(x, y, reduction=how, beta=0.0), x)
        out += slopes(f.huber_loss(x, y, reduction=how, delta=0.4), x)
        for more in (
            {},
            {"label_smoothing": 0.2},
            {"ignore_index": 2, "label_smoothing": 0.1},
            {"ignore_index": 0},
        ):
            out += slopes(f.cross_entropy(x, labels, w[0], reduction=how, **more), x)
        out += slopes(f.cross_entropy(x, w, w[1], reduction=how, label_smoothing=0.3), x)
        out += slopes(f.nll_loss(x.log_softmax(1), labels, w[2], ignore_index=3, reduction=how), x)
        out += slopes(f.multi_margin_loss(x, labels, p=2, margin=0.7, weight=w[0], reduction=how), x)
        out += slopes(f.binary_cross_entropy(x.sigmoid(), w, w * 2, reduction=how), x)
        out += slopes(f.binary_cross_entropy_with_logits(x, w, w, pos_weight=w[0], reduction=how), x)
        out += slopes(f.kl_div(x.log_softmax(1), w.log_softmax(1), log_target=True, reduction=how), x)
        out += slopes(f.poisson_nll_loss(x, w, full=True, reduction=how), x)
        out += slopes(f.poisson_nll_loss(x.exp(), w, log_input=False, eps=0.1, reduction=how), x)
        out += slopes(f.gaussian_nll_loss(x, y, w, full=True, eps=0.3, reduction=how), x)
        for swap in (False, True):
            triple = f.triplet_margin_loss(x, y, w, margin=0.8, p=3, swap=swap, reduction=how)
            out += slopes(triple, x)
    out += slopes(f.kl_div(x.log_softmax(1), w, reduction="batchmean"), x)
    return [*out, f.cosine_similarity(x[0], y[0], dim=0), f.cosine_similarity(x.sum(), y.sum(), dim=0)]


@program
def planes(m: Any) -> Any:
    """Pools, pads, folds and samples at odd sizes, with slopes."""
    f, x, out = m.nn.functional, m.tensor(IMAGE, requires_grad=True), []
    for size in ((3, 2), (None, 4), 1, (7, 8)):
        out += slopes(f.adaptive_avg_pool2d(x, size), x)
        out += slopes(list(f.adaptive_max_pool2d(x, size, return_indices=True))[:1], x)
    for sides, mode in (
        ((1, 2, 0, 1), "reflect"),
        ((1, 2, 3, 0), "replicate"),
        ((2, 1, 1, 3), "circular"),
        ((1, -1, 0, 2), "constant"),
        ((0, 0, 0, 0, 1, 1), "constant"),
    ):
        out += slopes(f.pad(x, sides, mode), x)
    for mode in ("bilinear", "bicubic"):
        for size in ((3, 4), (2, 9), (11, 3)):
            for corners in (True, False):
                out += slopes(f.interpolate(x, size, mode=mode, align_corners=corners), x)
            out += slopes(f.interpolate(x, size, mode=mode, antialias=True), x)
    out += slopes(f.interpolate(x, scale_factor=(1.5, 0.7), mode="bilinear", recompute_scale_factor=True), x)
    out += slopes(f.interpolate(x, scale_factor=1.7, mode="nearest-exact"), x)
    out += slopes(f.unfold(x, (2, 3), dilation=(2, 1), padding=(1, 0), stride=(2, 1)), x)
    out += slopes(f.fold(f.unfold(x, 2, padding=1), (6, 5), 2, padding=1), x)
    out += slopes(f.avg_pool2d(x, (3, 2), (2, 1), (1, 1), True, False, 5), x)
    out += slopes(f.lp_pool2d(x.abs() + 0.1, 3, (2, 3), (1, 2), True), x)
    out += slopes(f.max_pool2d(x, (3, 2), (2, 1), (1, 0), (1, 2), True), x)
    at = m.tensor(GRID, requires_grad=True)
    for mode in ("bicubic", "nearest"):
        for edge in ("zeros", "border", "reflection"):
            out += slopes(f.grid_sample(x, at, mode, edge, align_corners=False), x)
    return out
