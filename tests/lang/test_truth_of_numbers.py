"""`and` and `or` of numbers that a run decides: Python's own results, not those of bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import run

from trilobite import dlp

WAYS = ("host", "ir", "O0", "O2")


@dlp.kernel
def mixed(out: dlp.gm[dlp.i64], n: int, m: int):
    out[0] = n and (m > 1)
    out[1] = n or (m > 1)
    out[2] = (n > 1) and m
    out[3] = (n > 1) or m
    out[4] = n and m
    out[5] = n or m
    out[6] = (n > 1) and (m > 1)
    out[7] = (n > 1) or (m > 1)
    out[8] = n and m and (n > m)
    out[9] = not n


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 2), (2, 0), (2, 5), (4, 1), (-3, 2), (1, 1)])
def test_values_of_conditions(n: int, m: int) -> None:
    want: list[Any] = [n and (m > 1), n or (m > 1), (n > 1) and m, (n > 1) or m, n and m, n or m,
                       (n > 1) and (m > 1), (n > 1) or (m > 1), n and m and (n > m), not n]  # fmt: skip
    found = run(mixed, [np.zeros(10, np.int64), n, m], dim=(1, 1, 1), ways=WAYS)[0]
    assert found.tolist() == [int(v) for v in want]
