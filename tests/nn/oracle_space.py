"""What layers over space mean, written out in NumPy float64, one output element at a time."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from layer_cases import Case
from oracle_dense import Array, Weights, oracle, oracles, setting

__all__ = ["oracles"]


def spaces(n: Any, count: int) -> tuple[int, ...]:
    return tuple(n) if isinstance(n, (tuple, list)) else (n,) * count


def rank(case: Case) -> int:
    return int(case.layer[-2])


def batched(x: Array, space: int) -> tuple[Array, bool]:
    return (x[None], True) if x.ndim == space + 1 else (x, False)


# -- shapes ------------------------------------------------------------------------------------------------


@oracle("Flatten")
def flatten(w: Weights, c: Case, x: Array) -> Array:
    start, end = setting(c, 0, "start_dim", 1), setting(c, 1, "end_dim", -1) % x.ndim
    return x.reshape(*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :])


@oracle("Unflatten")
def unflatten(w: Weights, c: Case, x: Array) -> Array:
    return x.reshape(*x.shape[: c.args[0]], *c.args[1], *x.shape[c.args[0] + 1 :])


def padded(x: Array, sides: Any, mode: str, value: float = 0.0) -> Array:
    widths = [(0, 0)] * x.ndim
    for i in range(len(sides) // 2):
        widths[x.ndim - 1 - i] = (sides[2 * i], sides[2 * i + 1])
    crop = tuple(slice(max(-lo, 0), n - max(-hi, 0)) for n, (lo, hi) in zip(x.shape, widths, strict=True))
    widths = [(max(lo, 0), max(hi, 0)) for lo, hi in widths]
    how = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    return np.pad(x[crop], widths, how, **({"constant_values": value} if how == "constant" else {}))


@oracle(
    *(f"{n}Pad{i}d" for n in ("Zero", "Constant", "Reflection", "Replication", "Circular") for i in (1, 2, 3))
)
def pad(w: Weights, c: Case, x: Array) -> Array:
    modes = {"Ref": "reflect", "Rep": "replicate", "Cir": "circular"}
    value = c.args[1] if len(c.args) > 1 else 0.0
    return padded(x, spaces(c.args[0], 2 * rank(c)), modes.get(c.layer[:3], "constant"), value)


def blocks(case: Case, plane: tuple[int, ...], first: int) -> list[list[tuple[int, ...]]]:
    """The places of each block's elements, counted with the padding."""
    kernel = spaces(case.args[first], 2)
    get = [spaces(case.kwargs.get(n, d), 2) for n, d in (("dilation", 1), ("padding", 0), ("stride", 1))]
    axes = []
    for n, k, d, p, s in zip(plane, kernel, *get, strict=True):
        axes.append(
            [[i * s + j * d for j in range(k)] for i in range((n + 2 * p - d * (k - 1) - 1) // s + 1)]
        )
    return [list(itertools.product(rows, columns)) for rows in axes[0] for columns in axes[1]]


@oracle("Unfold")
def unfold(w: Weights, c: Case, x: Array) -> Array:
    pad = spaces(c.kwargs.get("padding", 0), 2)
    wide = padded(x, (pad[1], pad[1], pad[0], pad[0]), "constant")
    columns = [np.stack([wide[..., i, j] for i, j in block], -1) for block in blocks(c, x.shape[-2:], 0)]
    out = np.stack(columns, -1)  # (..., C, block, blocks)
    return out.reshape(*out.shape[:-3], -1, out.shape[-1])


@oracle("Fold")
def fold(w: Weights, c: Case, x: Array) -> Array:
    plane, pad = spaces(c.args[0], 2), spaces(c.kwargs.get("padding", 0), 2)
    size = math.prod(spaces(c.args[1], 2))
    out = np.zeros(
        (*x.shape[:-2], x.shape[-2] // size, *(n + 2 * p for n, p in zip(plane, pad, strict=True)))
    )
    parts = x.reshape(*x.shape[:-2], -1, size, x.shape[-1])
    for b, block in enumerate(blocks(c, plane, 1)):
        for k, (i, j) in enumerate(block):
            out[..., i, j] += parts[..., k, b]
    return out[..., pad[0] : out.shape[-2] - pad[0], pad[1] : out.shape[-1] - pad[1]]


# -- convolutions ------------------------------------------------------------------------------------------


@oracle("Conv1d", "Conv2d", "Conv3d")
def conv(w: Weights, c: Case, x: Array) -> Array:
    space = rank(c)
    x, single = batched(x, space)
    weight, groups = w["weight"], c.kwargs.get("groups", 1)
    kernel = weight.shape[2:]
    stride, dilation = spaces(c.kwargs.get("stride", 1), space), spaces(c.kwargs.get("dilation", 1), space)
    padding = c.kwargs.get("padding", 0)
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        sides = [n for t in reversed(totals) for n in (t // 2, t - t // 2)]
    else:
        sides = [n for p in reversed(spaces(padding, space)) for n in (p, p)]
    mode = c.kwargs.get("padding_mode", "zeros")
    x = padded(x, sides, "constant" if mode == "zeros" else mode)
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, d, k, s in zip(x.shape[2:], dilation, kernel, stride, strict=True)
    ]
    out = np.zeros((len(x), len(weight), *sizes))
    per = len(weight) // groups
    for at in itertools.product(*map(range, sizes)):
        window = (
            slice(a * s, a * s + d * (k - 1) + 1, d)
            for a, s, d, k in zip(at, stride, dilation, kernel, strict=True)
        )
        patch = x[(slice(None), slice(None), *window)]
        for o in range(len(weight)):
            mine = np.split(patch, groups, 1)[o // per]
            out[(slice(None), o, *at)] = (mine * weight[o]).sum(tuple(range(1, space + 2)))
    out = out + w.get("bias", np.zeros(len(weight))).reshape(-1, *[1] * space)
    return out[0] if single else out


@oracle("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
def conv_transpose(w: Weights, c: Case, x: Array) -> Array:
    space = rank(c)
    x, single = batched(x, space)
    weight, groups = w["weight"], c.kwargs.get("groups", 1)
    kernel, per = weight.shape[2:], weight.shape[1]
    names = (("stride", 1), ("padding", 0), ("output_padding", 0), ("dilation", 1))
    stride, padding, extra, dilation = (spaces(c.kwargs.get(n, d), space) for n, d in names)
    rows = zip(x.shape[2:], stride, dilation, kernel, extra, strict=True)
    full = [(n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in rows]
    out = np.zeros((len(x), per * groups, *full))
    for i in range(x.shape[1]):
        group = i // (x.shape[1] // groups)
        for at in itertools.product(*map(range, x.shape[2:])):
            for r in itertools.product(*map(range, kernel)):
                place = tuple(a * s + q * d for a, s, q, d in zip(at, stride, r, dilation, strict=True))
                outs = slice(group * per, (group + 1) * per)
                out[(slice(None), outs, *place)] += (
                    x[(slice(None), i, *at)][:, None] * weight[(i, slice(None), *r)]
                )
    crop = tuple(slice(p, n - p) for p, n in zip(padding, full, strict=True))
    out = out[(..., *crop)] + w.get("bias", np.zeros(per * groups)).reshape(-1, *[1] * space)
    return out[0] if single else out


# -- pooling -----------------------------------------------------------------------------------------------


def windows(n: int, k: int, s: int, p: int, d: int, ceil: bool) -> list[list[int]]:
    """The places of each window along one axis, padding included."""
    span = n + 2 * p - d * (k - 1) - 1
    count = (-(-span // s) if ceil else span // s) + 1
    if ceil and (count - 1) * s >= n + p:
        count -= 1
    return [[i * s - p + j * d for j in range(k)] for i in range(count)]


@oracle(*(f"{n}{i}d" for n in ("MaxPool", "AvgPool", "LPPool") for i in (1, 2, 3)))
def pool(w: Weights, c: Case, x: Array) -> Any:
    space, kind = rank(c), c.layer[:2]
    order, args = (c.args[0], c.args[1:]) if kind == "LP" else (0, c.args)
    k = spaces(args[0], space)
    stride = spaces(c.kwargs.get("stride") or k, space)
    padding, dilation = spaces(c.kwargs.get("padding", 0), space), spaces(c.kwargs.get("dilation", 1), space)
    plane = x.shape[-space:]
    rows = zip(plane, k, stride, padding, dilation, strict=True)
    axes = [windows(*r, c.kwargs.get("ceil_mode", False)) for r in rows]
    sizes = tuple(map(len, axes))
    out, where = np.empty((*x.shape[:-space], *sizes)), np.empty((*x.shape[:-space], *sizes), np.int64)
    for at in itertools.product(*map(range, sizes)):
        places = list(itertools.product(*(a[i] for a, i in zip(axes, at, strict=True))))
        inside = [p for p in places if all(0 <= i < n for i, n in zip(p, plane, strict=True))]
        values = np.stack([x[(..., *p)] for p in inside], -1)
        if kind == "Ma":
            out[(..., *at)] = values.max(-1)
            flat = np.array([np.ravel_multi_index(p, plane) for p in inside])
            where[(..., *at)] = flat[values.argmax(-1)]
            continue
        within = [p for p in places if all(i < n + q for i, n, q in zip(p, plane, padding, strict=True))]
        count = len(within) if c.kwargs.get("count_include_pad", True) else len(inside)
        count = c.kwargs.get("divisor_override") or count
        if kind == "LP":
            out[(..., *at)] = ((values**order).sum(-1) / len(within) * len(places)) ** (1 / order)
        else:
            out[(..., *at)] = values.sum(-1) / count
    return [out, where] if c.kwargs.get("return_indices") else out


@oracle(*(f"Adaptive{n}Pool{i}d" for n in ("Avg", "Max") for i in (1, 2, 3)))
def adaptive(w: Weights, c: Case, x: Array) -> Any:
    space = rank(c)
    plane = x.shape[-space:]
    sizes = tuple(n if m is None else m for m, n in zip(spaces(c.args[0], space), plane, strict=True))
    out, where = np.empty((*x.shape[:-space], *sizes)), np.empty((*x.shape[:-space], *sizes), np.int64)
    for at in itertools.product(*map(range, sizes)):
        ranges = [
            range(i * n // m, math.ceil((i + 1) * n / m)) for i, n, m in zip(at, plane, sizes, strict=True)
        ]
        places = list(itertools.product(*ranges))
        values = np.stack([x[(..., *p)] for p in places], -1)
        out[(..., *at)] = values.mean(-1) if "Avg" in c.layer else values.max(-1)
        where[(..., *at)] = np.array([np.ravel_multi_index(p, plane) for p in places])[values.argmax(-1)]
    return [out, where] if c.kwargs.get("return_indices") else out


@oracle("MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d")
def unpool(w: Weights, c: Case, x: Array, at: Array) -> Array:
    space, k = rank(c), c.args[0]
    plane = tuple(n * k for n in x.shape[-space:])
    out = np.zeros((*x.shape[:-space], math.prod(plane)))
    np.put_along_axis(out, at.reshape(*x.shape[:-space], -1), x.reshape(*x.shape[:-space], -1), -1)
    return out.reshape(*x.shape[:-space], *plane)


# -- resampling --------------------------------------------------------------------------------------------


def weights_1d(mode: str, n: int, m: int, scale: float, corners: bool) -> Array:
    """The matrix that resamples one axis."""
    out = np.zeros((m, n))
    for i in range(m):
        if mode in ("nearest", "nearest-exact"):
            shift = 0.5 if mode == "nearest-exact" else 0.0
            out[i, min(math.floor((i + shift) * scale), n - 1)] = 1
            continue
        if mode == "area":
            lo, hi = i * n // m, math.ceil((i + 1) * n / m)
            out[i, lo:hi] = 1 / (hi - lo)
            continue
        at = i * (n - 1) / max(m - 1, 1) if corners else (i + 0.5) * scale - 0.5
        if mode != "bicubic":
            at = float(i) if n == m else max(at, 0.0)
        base = math.floor(at)
        for tap in range(base - 1, base + 3):
            out[i, min(max(tap, 0), n - 1)] += tap_weight(mode, abs(at - tap))
    return out


def tap_weight(mode: str, d: float) -> float:
    if mode != "bicubic":
        return max(0.0, 1 - d)
    a = -0.75
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


@oracle("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d")
def upsample(w: Weights, c: Case, x: Array) -> Array:
    space, kw = x.ndim - 2, c.kwargs
    mode = {"UpsamplingNearest2d": "nearest", "UpsamplingBilinear2d": "bilinear"}.get(
        c.layer, kw.get("mode", "nearest")
    )
    corners = c.layer == "UpsamplingBilinear2d" or bool(kw.get("align_corners"))
    for i in range(space):
        n = x.shape[i + 2]
        if "size" in kw:
            m = spaces(kw["size"], space)[i]
            scale = n / m
        else:
            factor = spaces(kw["scale_factor"], space)[i]
            m = math.floor(n * factor)
            scale = n / m if kw.get("recompute_scale_factor") else 1 / factor
        matrix = weights_1d("linear" if "linear" in mode else mode, n, m, scale, corners)
        x = np.moveaxis(np.moveaxis(x, i + 2, -1) @ matrix.T, -1, i + 2)
    return x


@oracle("PixelShuffle", "PixelUnshuffle", "ChannelShuffle")
def shuffles(w: Weights, c: Case, x: Array) -> Array:
    (n, ch, h, wd), r = x.shape, c.args[0]
    if c.layer == "ChannelShuffle":
        return x[:, [g * (ch // r) + i for i in range(ch // r) for g in range(r)]]
    if c.layer == "PixelShuffle":
        out = np.empty((n, ch // r**2, h * r, wd * r))
        for i, j in itertools.product(range(r), range(r)):
            out[:, :, i::r, j::r] = x[:, i * r + j :: r * r]
        return out
    out = np.empty((n, ch * r**2, h // r, wd // r))
    for i, j in itertools.product(range(r), range(r)):
        out[:, i * r + j :: r * r] = x[:, :, i::r, j::r]
    return out
