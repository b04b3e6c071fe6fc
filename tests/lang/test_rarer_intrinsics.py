"""Intrinsics that `make test` calls nowhere else, beside loops in NumPy, equal in every way of running."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from harness import run

from trilobite import dlp
from trilobite.base.errors import KernelError
from trilobite.processor.device import Device

RNG = np.random.default_rng(23)
F32, I32 = np.float32, np.int32


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(F32)


@dlp.kernel
def turned(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], *, h: int, w: int, c: int):
    a, b = dlp.nram((h, w, c), dlp.f32), dlp.nram((h, w, c), dlp.f32)
    n = h * w * c
    dlp.copy(a.view(n), x[0:n])
    dlp.mirror(b, a)
    dlp.copy(out[0:n], b.view(n))
    dlp.mirror(b, a, "y")
    dlp.copy(out[n : 2 * n], b.view(n))


@dlp.kernel
def pooled(
    x: dlp.gm[dlp.f32],
    out: dlp.gm[dlp.f32],
    at: dlp.gm[dlp.i32],
    back: dlp.gm[dlp.f32],
    even: dlp.gm[dlp.f32],
    *,
    h: int,
    w: int,
    c: int,
    kh: int,
    kw: int,
    sh: int,
    sw: int,
):
    p, q = (h - kh) // sh + 1, (w - kw) // sw + 1
    a, b = dlp.nram((h, w, c), dlp.f32), dlp.nram((p, q, c), dlp.f32)
    i, g = dlp.nram((p, q, c), dlp.i32), dlp.nram((h, w, c), dlp.f32)
    n, m = h * w * c, p * q * c
    dlp.copy(a.view(n), x[0:n])
    dlp.max_pool_index(b, i, a, (kh, kw), (sh, sw))
    dlp.copy(out[0:m], b.view(m))
    dlp.copy(at[0:m], i.view(m))
    dlp.max_unpool(g, b, i, (kh, kw), (sh, sw))
    dlp.copy(back[0:n], g.view(n))
    dlp.avg_unpool(g, b, (kh, kw), (sh, sw))
    dlp.copy(even[0:n], g.view(n))


def windows(
    h: int, w: int, kernel: Any, stride: Any, dilation: Any = (1, 1), border: Any = (0, 0, 0, 0)
) -> Any:
    """((p, q), [(y, x) of each tap]), taps outside of the image too."""
    p = (h + border[0] + border[1] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    q = (w + border[2] + border[3] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    for i, j in itertools.product(range(p), range(q)):
        yield (
            (i, j),
            [
                (i * stride[0] + a * dilation[0] - border[0], j * stride[1] + b * dilation[1] - border[2])
                for a, b in itertools.product(range(kernel[0]), range(kernel[1]))
            ],
        )


def test_pictures_in_reverse() -> None:
    x = normal(3, 5, 2)
    _, found = run(turned.meta(h=3, w=5, c=2), [x, np.zeros((2, 3, 5, 2), F32)], dim=(1, 1, 1))
    np.testing.assert_array_equal(found, [x[:, ::-1], x[::-1]])


@pytest.mark.parametrize(("kernel", "stride"), [((2, 3), (2, 1)), ((3, 2), (1, 2))])
def test_poolings_and_their_ways_back(kernel: Any, stride: Any) -> None:
    h, w, c = 5, 7, 3
    x = np.round(normal(h, w, c) * 2)  # equal ones, of which the first is taken
    boxes = list(windows(h, w, kernel, stride))
    p, q = boxes[-1][0][0] + 1, boxes[-1][0][1] + 1
    out, at = np.zeros((p, q, c), F32), np.zeros((p, q, c), I32)
    back, even = np.zeros_like(x), np.zeros_like(x)
    for (i, j), taps in boxes:
        values = np.stack([x[y, z] for y, z in taps])
        at[i, j], out[i, j] = values.argmax(0), values.max(0)
        for k in range(c):
            back[(*taps[at[i, j, k]], k)] += out[i, j, k]
        for y, z in taps:
            even[y, z] += out[i, j] / len(taps)
    sizes = {"h": h, "w": w, "c": c, "kh": kernel[0], "kw": kernel[1], "sh": stride[0], "sw": stride[1]}
    blank = [np.zeros_like(v) for v in (out, at, back, even)]
    _, *found = run(pooled.meta(**sizes), [x, *blank], dim=(1, 1, 1))
    for got, want in zip(found, (out, at, back, even), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@dlp.kernel
def unrolled(
    x: dlp.gm[dlp.f32],
    out: dlp.gm[dlp.f32],
    back: dlp.gm[dlp.f32],
    *,
    h: int,
    w: int,
    c: int,
    rows: int,
    width: int,
):
    a, b = dlp.nram((h, w, c), dlp.f32), dlp.nram((rows, width), dlp.f32)
    n = h * w * c
    dlp.copy(a.view(n), x[0:n])
    dlp.im2col(b, a, (2, 3), (2, 1), (1, 2), (1, 0, 2, 1))
    dlp.copy(out[0 : rows * width], b.view(rows * width))
    dlp.col2im(a, b, (2, 3), (2, 1), (1, 2), (1, 0, 2, 1))
    dlp.copy(back[0:n], a.view(n))


def test_windows_as_rows_and_back() -> None:
    h, w, c = 4, 6, 3
    x = normal(h, w, c)
    boxes = [taps for _, taps in windows(h, w, (2, 3), (2, 1), (1, 2), (1, 0, 2, 1))]
    rows, back = np.zeros((len(boxes), 6 * c), F32), np.zeros_like(x)
    for row, taps in zip(rows, boxes, strict=True):
        for n, (y, z) in enumerate(taps):
            if 0 <= y < h and 0 <= z < w:
                row[n * c : (n + 1) * c] = x[y, z]
                back[y, z] += x[y, z]
    kernel = unrolled.meta(h=h, w=w, c=c, rows=len(boxes), width=6 * c)
    _, out, found = run(kernel, [x, np.zeros_like(rows), np.zeros_like(x)], dim=(1, 1, 1))
    np.testing.assert_array_equal(out, rows)
    np.testing.assert_allclose(found, back, rtol=1e-6, atol=1e-6)


@dlp.kernel
def dealt(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], *, n: int, h: int, w: int, c: int):
    a, b = dlp.nram((n, h, w, c), dlp.f32), dlp.nram((n, h, w, c), dlp.f32)
    size = n * h * w * c
    dlp.copy(a.view(size), x[0:size])
    dlp.reshape_filter(b, a)
    dlp.copy(out[0:size], b.view(size))


def test_filters_are_dealt_to_lanes() -> None:
    """Filter k goes to lane k mod 64, slot k / 64."""
    x = normal(128, 2, 1, 3)
    _, found = run(dealt.meta(n=128, h=2, w=1, c=3), [x, np.zeros_like(x)], dim=(1, 1, 1))
    want = np.empty_like(x).reshape(64, 2, 6)
    for k in range(128):
        want[k % 64, k // 64] = x[k].ravel()
    np.testing.assert_array_equal(found.reshape(64, 2, 6), want)


@dlp.kernel
def rows_of(x: dlp.gm[dlp.f32], w: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], *, k: int, n: int):
    a, b, c = dlp.nram(k, dlp.f32), dlp.wram((k, n), dlp.f32), dlp.nram(n, dlp.f32)
    dlp.copy(a, x[0:k])
    dlp.copy(b.view(k * n), w[0 : k * n])
    dlp.vecmat(c, a, b)
    dlp.vecmat(c, a, b, accumulate=True)
    dlp.copy(out[0:n], c)


def test_a_row_times_a_matrix() -> None:
    x, w = normal(37), normal(37, 19)
    *_, found = run(rows_of.meta(k=37, n=19), [x, w, np.zeros(19, F32)], dim=(1, 1, 1))
    np.testing.assert_allclose(found, 2 * (x.astype("f8") @ w), rtol=1e-5, atol=1e-5)


@dlp.kernel
def slopes(
    x: dlp.gm[dlp.f32],
    f: dlp.gm[dlp.f32],
    g: dlp.gm[dlp.f32],
    dx: dlp.gm[dlp.f32],
    df: dlp.gm[dlp.f32],
    *,
    h: int,
    w: int,
    ci: int,
    co: int,
    p: int,
    q: int,
    groups: int,
):
    n, m, o = h * w * ci, co * 2 * 3 * (ci // groups), p * q * co
    image, grad = dlp.nram((h, w, ci), dlp.f32), dlp.nram((p, q, co), dlp.f32)
    weight, moved = dlp.wram((co, 2, 3, ci // groups), dlp.f32), dlp.nram((co, 2, 3, ci // groups), dlp.f32)
    dlp.copy(image.view(n), x[0:n])
    dlp.copy(weight.view(m), f[0:m])
    dlp.copy(grad.view(o), g[0:o])
    dlp.conv_filter_gradient(moved, grad, image, (1, 2), (2, 1), (1, 0, 0, 1), groups)
    dlp.copy(df[0:m], moved.view(m))
    dlp.conv_input_gradient(image, grad, weight, (1, 2), (2, 1), (1, 0, 0, 1), groups)
    dlp.copy(dx[0:n], image.view(n))


@pytest.mark.parametrize("groups", [1, 2])
def test_slopes_of_a_convolution(groups: int) -> None:
    h, w, ci, co = 5, 6, 4, 6
    boxes = list(windows(h, w, (2, 3), (1, 2), (2, 1), (1, 0, 0, 1)))
    p, q = boxes[-1][0][0] + 1, boxes[-1][0][1] + 1
    x, f, g = normal(h, w, ci), normal(co, 2, 3, ci // groups), normal(p, q, co)
    dx, df = np.zeros(x.shape), np.zeros(f.shape)
    for (i, j), taps in boxes:
        for n, (y, z) in enumerate(taps):
            for o in range(co) if 0 <= y < h and 0 <= z < w else ():
                first = o // (co // groups) * (ci // groups)
                inner = slice(first, first + ci // groups)
                dx[y, z, inner] += g[i, j, o] * f[o, n // 3, n % 3]
                df[o, n // 3, n % 3] += g[i, j, o] * x[y, z, inner]
    sizes = {"h": h, "w": w, "ci": ci, "co": co, "p": p, "q": q, "groups": groups}
    blank = [np.zeros_like(x), np.zeros_like(f)]
    *_, found_x, found_f = run(slopes.meta(**sizes), [x, f, g, *blank], dim=(1, 1, 1))
    np.testing.assert_allclose(found_x, dx, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found_f, df, rtol=1e-5, atol=1e-5)


@dlp.kernel
def swaps(x: dlp.gm[dlp.i32], out: dlp.gm[dlp.i32], n: int):
    for i in range(n):
        out[2 * i] = dlp.compare_and_swap(x[i : i + 1], 5, 40 + i)
        out[2 * i + 1] = x[i]


def test_swaps_where_the_number_is_expected() -> None:
    x = np.array([5, 4, -5, 5], I32)
    _, found = run(swaps, [x, np.zeros(8, I32), 4], dim=(1, 1, 1))
    assert found.tolist() == [5, 40, 4, 4, -5, -5, 5, 43]


@dlp.kernel
def wrong_copy(x: dlp.gm[dlp.f32], *, kind: str):
    a, b = dlp.nram((4, 4), dlp.f32), dlp.nram((4, 4), dlp.f16)
    if kind == "format":
        dlp.copy(a, b)
    if kind == "shape":
        dlp.copy(a[0:2], a[0:3])
    if kind == "kind":
        dlp.copy(a, 3)
    if kind == "swap":
        dlp.compare_and_swap(b[0:1], 0, 1)
    if kind == "axes":
        dlp.softmax_weights(a, a.view(16), a, a)
    if kind == "sync":
        dlp.sync("vektor")
    if kind == "indices":
        dlp.max_pool_index(a.view(4, 4, 1), a.view(4, 4, 1), a.view(4, 4, 1), (1, 1))
    if kind == "filter":
        dlp.conv(a.view(4, 4, 1), a, a)


WRONG = {
    "format": "dst is f32, src is f16",
    "shape": "equal shapes",
    "kind": "src is int",
    "axes": "a view of two axes",
    "swap": "compare_and_swap on f16",
    "sync": "vektor",
    "indices": "i32",
    "filter": "a convolution of",
}


@pytest.mark.parametrize(("kind", "text"), WRONG.items())
def test_wrong_operands_are_named(kind: str, text: str) -> None:
    device = Device("dlp-m")
    with pytest.raises(KernelError, match=text):
        device.launch(wrong_copy.meta(kind=kind), [device.array(np.zeros(4, F32))])
