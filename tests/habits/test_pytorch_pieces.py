"""Small pieces of PyTorch's rooms, by what they give: lengths of loaders, hooks over several gradients,
products with Jacobians, tensors for tests, whether casting is on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from trilobite.autograd.functional import jvp, vjp
from trilobite.autograd.graph import register_multi_grad_hook
from trilobite.testing import make_tensor
from trilobite.utils.data import DataLoader, IterableDataset

import trilobite as tb


class Stream(IterableDataset):
    def __len__(self) -> int:
        return 10

    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


@pytest.mark.parametrize(
    ("size", "drop", "length"), [(4, False, 3), (4, True, 2), (5, False, 2), (None, False, 10)]
)
def test_a_loader_of_a_stream_counts_its_batches(size: int | None, drop: bool, length: int) -> None:
    loader = DataLoader(Stream(), batch_size=size, drop_last=drop)
    assert len(loader) == length == len(list(loader))


def test_products_with_the_jacobian() -> None:
    def f(x: Any, y: Any) -> Any:
        return x * x * y

    x, y, v = tb.tensor([1.0, 2.0, -3.0]), tb.tensor([0.5, 4.0, 2.0]), tb.tensor([1.0, 0.0, 2.0])
    out, (dx, dy) = vjp(f, (x, y), v)
    assert out.tolist() == [0.5, 16.0, 18.0]
    assert dx.tolist() == [1.0, 0.0, -24.0] and dy.tolist() == [1.0, 0.0, 18.0]
    _, alone = vjp(lambda a: a * a, x)
    assert alone.tolist() == [2.0, 4.0, -6.0]
    _, along = jvp(lambda a: a * a, x, v)
    assert along.tolist() == [2.0, 0.0, -12.0]
    _, ones = jvp(lambda a: a * a, x)
    assert ones.tolist() == [2.0, 4.0, -6.0]


def heard(mode: str) -> list[Any]:
    a, b = tb.tensor(2.0, requires_grad=True), tb.tensor(3.0, requires_grad=True)
    calls: list[Any] = []
    handle = register_multi_grad_hook([a, b], calls.append, mode=mode)
    (a * a).backward()
    calls.append("one is there")
    (b * 5.0).backward()
    handle.remove()
    (a * b).backward()
    return calls


def test_a_hook_over_several_gradients_waits_for_all() -> None:
    waited, (first, second) = heard("all")
    assert waited == "one is there" and (first.item(), second.item()) == (4.0, 5.0)


def test_a_hook_over_several_gradients_hears_the_first() -> None:
    first, waited = heard("any")
    assert waited == "one is there" and first.item() == 4.0


def test_tensors_for_tests_have_the_shape_and_the_range_asked_for() -> None:
    tb.manual_seed(0)
    assert make_tensor(3, 4, dtype=tb.float64).shape == make_tensor((3, 4), dtype=tb.int64).shape == (3, 4)
    drawn = make_tensor(1000, dtype=tb.float32, low=2, high=5).numpy()
    assert drawn.shape == (1000,) and 2 <= drawn.min() < 2.1 and 4.9 < drawn.max() <= 5
    usual = make_tensor(1000, dtype=tb.float32).numpy()
    assert -9 <= usual.min() < -8.5 and 8.5 < usual.max() <= 9


def test_casting_is_on_for_the_cpu_alone() -> None:
    assert not tb.is_autocast_enabled("cpu")
    with tb.autocast("cpu", dtype=tb.bfloat16):
        assert tb.is_autocast_enabled("cpu") and tb.is_autocast_cpu_enabled()
        assert not tb.is_autocast_enabled("cuda") and not tb.is_autocast_enabled()


def test_pythons_number_types_are_dtypes() -> None:
    found = [tb.zeros(2, dtype=kind).dtype for kind in (bool, int, float, complex)]
    assert found == [np.dtype(bool), tb.int64, tb.float32, tb.complex64]
