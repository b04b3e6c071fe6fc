"""Operands whose shapes are known not to fit are refused where they are written, compiled or interpreted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trilobite import dlp
from trilobite.base.errors import KernelError
from trilobite.processor import Device

f32, i32 = dlp.f32, dlp.i32


def small_sum(x: dlp.gm[dlp.f32]):
    a, c = dlp.nram((4, 8), f32), dlp.nram(2, f32)
    dlp.sum(c, a, axis=-1)


def no_axis(x: dlp.gm[dlp.f32]):
    a, c = dlp.nram((4, 8), f32), dlp.nram(8, f32)
    dlp.max(c, a, axis=2)


def odd_row(x: dlp.gm[dlp.f32]):
    a, c = dlp.nram((4, 8), f32), dlp.nram(4, f32)
    dlp.sub(a, a, c)


def not_turned(x: dlp.gm[dlp.f32]):
    a, c = dlp.nram((4, 8), f32), dlp.nram((4, 8), f32)
    dlp.transpose(c, a)


def deep_filter(x: dlp.gm[dlp.f32]):
    a, w, c = dlp.nram((6, 6, 4), f32), dlp.wram((8, 3, 3, 5), f32), dlp.nram((4, 4, 8), f32)
    dlp.conv(c, a, w)


def small_image(x: dlp.gm[dlp.f32]):
    a, w, c = dlp.nram((6, 6, 4), f32), dlp.wram((8, 3, 3, 4), f32), dlp.nram((4, 4, 8), f32)
    dlp.conv(c, a, w, dilation=2, border=(1, 0, 2, 2))


def short_bias(x: dlp.gm[dlp.f32]):
    a, w, c = dlp.nram((6, 4), f32), dlp.wram((4, 8), f32), dlp.nram((6, 8), f32)
    dlp.matmul(c, a, w, bias=dlp.nram(7, f32))


def long_vector(x: dlp.gm[dlp.f32]):
    a, w, c = dlp.nram(6, f32), dlp.wram((8, 5), f32), dlp.nram(8, f32)
    dlp.matvec(c, w, a)


def short_choice(x: dlp.gm[dlp.f32]):
    a, w, c = dlp.nram(6, f32), dlp.nram(8, f32), dlp.nram(8, f32)
    dlp.where(c, w, a, w)


def short_pool(x: dlp.gm[dlp.f32]):
    a, c = dlp.nram((7, 9, 3), f32), dlp.nram((3, 3, 3), f32)
    dlp.pool(c, a, (3, 3), (2, 2))


def few_windows(x: dlp.gm[dlp.f32]):
    a, c = dlp.nram((7, 9, 3), f32), dlp.nram((15, 27), f32)
    dlp.im2col(c, a, (3, 3), (2, 2), border=(1, 0, 0, 0))


def thin_frame(x: dlp.gm[dlp.f32]):
    a, c = dlp.nram((7, 9, 3), f32), dlp.nram((8, 10, 3), f32)
    dlp.pad(c, a, 1, 0, 1, 1)


def small_filter(x: dlp.gm[dlp.f32]):
    a, b, c = dlp.nram(8, f32), dlp.nram(8, f32), dlp.nram(7, f32)
    dlp.compress(c, a, b)


def outside(x: dlp.gm[dlp.f32]):
    a = dlp.nram((4, 3), f32)
    x[0] = a[4, 0]


def before(x: dlp.gm[dlp.f32]):
    a = dlp.nram((4, 3), f32)
    dlp.copy(x[:3], a[-1])


def backwards(x: dlp.gm[dlp.f32]):
    a = dlp.nram(8, f32)
    dlp.fill(a[5:3], 0.0)


def added_views(x: dlp.gm[dlp.f32]):
    a, b = dlp.nram(8, f32), dlp.nram(8, f32)
    dlp.copy(x[:8], a + b)


def no_such_format(x: dlp.gm[dlp.f32]):
    a = dlp.nram(8, dlp.e4m3)
    dlp.add(a, a, a)


def scalar_mask(x: dlp.gm[dlp.f32]):
    a = dlp.nram(8, f32)
    dlp.where(a, a, a, 0.0)


WRONG: list[tuple[Callable[..., Any], str]] = [
    (small_sum, "room for 2 of the 4 elements"),
    (no_axis, "axis 2 of View(f32[4x8] in nram)"),
    (odd_row, "the row that repeats is View(f32[4] in nram)"),
    (not_turned, "transpose: dst is View(f32[4x8] in nram)"),
    (deep_filter, "the depth of a filter is 4 here and 5 there"),
    (small_image, "expected: 3x6x8 elements"),
    (short_bias, "the bias is View(f32[7] in nram)"),
    (long_vector, "expected: 8x6 elements"),
    (short_choice, "differ in size"),
    (short_pool, "expected: 3x4x3 elements"),
    (few_windows, "expected: 12x27 elements"),
    (thin_frame, "expected: 8x11x3 elements"),
    (small_filter, "room for 7 of the 8 elements"),
    (outside, "index 4 of an axis of 4"),
    (before, "index -1 of an axis of 4"),
    (backwards, "ends 2 before it begins"),
    (added_views, "add views with dlp.add(dst, a, b)"),
    (no_such_format, "one of bf16, f16, f32"),
    (scalar_mask, "fill a buffer with it"),
]


@pytest.mark.parametrize(("function", "text"), WRONG, ids=[f.__name__ for f, _ in WRONG])
def test_shapes_that_cannot_fit(function: Callable[..., Any], text: str) -> None:
    kernel = dlp.kernel(function)
    dev = Device("dlp-m")
    x = dev.array(np.zeros(64, np.float32))
    line = function.__code__.co_firstlineno + 2
    for way in (lambda: kernel.program("dlp-m"), lambda: kernel.interpret(dev, [x])):
        with pytest.raises(KernelError) as raised:
            way()
        assert text in str(raised.value) and f"test_shapes.py:{line}" in str(raised.value)


def test_a_breakpoint_is_for_the_interpreter() -> None:
    @dlp.kernel
    def stops(x: dlp.gm[dlp.f32]):
        breakpoint()

    with pytest.raises(KernelError, match=r"run it with kernel\.interpret"):
        stops.program("dlp-m")
