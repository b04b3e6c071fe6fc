"""How close is close for each dtype, which dtype may be the default, and how a dataset is split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trilobite.utils.data import random_split

import trilobite as tb
from trilobite.base.errors import ArgumentError, DTypeError

# As PyTorch documents for torch.testing.assert_close: relative, absolute.
TOLERANCES = {
    tb.float16: (1e-3, 1e-5), tb.bfloat16: (1.6e-2, 1e-5), tb.float32: (1.3e-6, 1e-5),
    tb.float64: (1e-7, 1e-7), tb.complex64: (1.3e-6, 1e-5), tb.complex128: (1e-7, 1e-7),
}  # fmt: skip


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_what_is_close_depends_on_the_dtype(dtype: Any) -> None:
    relative, absolute = TOLERANCES[dtype]
    near, far = 0.9 * absolute, 1.15 * absolute
    tb.testing.assert_close(tb.tensor([near], dtype=dtype), tb.tensor([0.0], dtype=dtype))
    with pytest.raises(AssertionError):
        tb.testing.assert_close(tb.tensor([far], dtype=dtype), tb.tensor([0.0], dtype=dtype))
    wanted = 1024.0  # behind a power of two the steps of a dtype are known
    step = float(np.spacing(np.float32(wanted))) if dtype in (tb.float32, tb.complex64) else 0.0
    step = {tb.float16: 1.0, tb.bfloat16: 8.0}.get(dtype, step)
    reach = wanted * relative + absolute
    inside = np.floor(reach / step) * step if step else 0.9 * reach
    outside = inside + (step or 0.25 * reach)
    tb.testing.assert_close(tb.tensor([wanted + inside], dtype=dtype), tb.tensor([wanted], dtype=dtype))
    with pytest.raises(AssertionError):
        tb.testing.assert_close(tb.tensor([wanted + outside], dtype=dtype), tb.tensor([wanted], dtype=dtype))


def test_whole_numbers_are_close_when_they_are_equal() -> None:
    tb.testing.assert_close(tb.tensor([10**9]), tb.tensor([10**9]))
    with pytest.raises(AssertionError):
        tb.testing.assert_close(tb.tensor([10**9]), tb.tensor([10**9 + 1]))


@pytest.mark.parametrize("dtype", [tb.int32, tb.bool, tb.complex64, tb.uint8, tb.float8_e4m3fn], ids=str)
def test_only_floats_of_16_bits_and_more_are_defaults(dtype: Any) -> None:
    with pytest.raises(DTypeError, match="as the default dtype"):
        tb.set_default_dtype(dtype)
    assert tb.get_default_dtype() == tb.float32


def test_fractions_of_a_dataset() -> None:
    tb.manual_seed(0)
    parts = random_split(range(11), [0.5, 0.3, 0.2])
    assert [len(part) for part in parts] == [6, 3, 2]  # what is left over goes to the first, one each
    assert sorted(i for part in parts for i in part) == list(range(11))
    assert [len(part) for part in random_split(range(5), [2, 3])] == [2, 3]
    for lengths in ([0.5, 0.2], [0.8, 0.4], [1.5, -0.5], [2, 4], [2.0, 2.0]):
        with pytest.raises(ArgumentError, match="random_split of 5 items"):
            random_split(range(5), lengths)
