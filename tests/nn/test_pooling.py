"""Windows that hang over the end of a line, by loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import trilobite as tb
import trilobite.framework.nn.functional as F


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
def test_incomplete_windows_count_if_they_begin_inside(size: int, stride: int, dilation: int) -> None:
    """ceil_mode by its meaning: windows go on as long as one begins in the line or in its left padding, the
    last may hang over; one that would begin in the right padding is left out.
    """
    extent = dilation * (size - 1) + 1
    for n, padding in product(range(1, 10), range(size // 2 + 1)):
        if n + 2 * padding < extent:
            continue
        x = np.random.default_rng(n).standard_normal(n)
        begins = [b - padding for b in range(0, n + padding, stride)]
        full = 1 + -(-(n + 2 * padding - extent) // stride)
        lines = [[b + dilation * k for k in range(size)] for b in begins[:full]]
        kept = [[x[p] for p in line if 0 <= p < n] for line in lines]
        out = F.max_pool1d(tb.tensor(x[None, None]), size, stride, padding, dilation, ceil_mode=True).numpy()
        wanted = [max(line, default=-np.inf) for line in kept]
        np.testing.assert_array_equal(out[0, 0], wanted, f"{n}, {padding}")
        if dilation > 1:
            continue
        for counted in (True, False):
            out = F.avg_pool1d(
                tb.tensor(x[None, None]), size, stride, padding, ceil_mode=True, count_include_pad=counted
            )
            by = [sum(p < n + padding for p in line) if counted else len(some)
                  for line, some in zip(lines, kept, strict=True)]  # fmt: skip
            sums = [sum(some) / k if k else np.nan for some, k in zip(kept, by, strict=True)]
            np.testing.assert_allclose(out.numpy()[0, 0], sums, rtol=1e-12, atol=1e-15)
