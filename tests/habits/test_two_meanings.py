"""Names that PyTorch and the array API standard both have: the spelling decides (decision 0021)."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import trilobite as tb

X = np.array([[1.0, 5.0, 2.0], [7.0, 3.0, 3.0]])


def x() -> tb.Tensor:
    return tb.tensor(X)


def test_deviations():
    near = np.testing.assert_allclose
    for name in ("std", "var"):
        by_n, by_less = (getattr(np, name)(X, axis=1, ddof=d) for d in (0, 1))
        method, function = getattr(x(), name), getattr(tb, name)
        for theirs in (method(1), method(dim=1), function(x(), 1), function(x(), dim=1), method(1, True)):
            near(theirs.numpy(), by_less)
        ours = (method(axis=1), function(x(), axis=1), function(x(), 1, keepdims=True)[:, 0])
        for value in (*ours, method(dim=1, unbiased=False), method(1, False), method(1, correction=0)):
            near(value.numpy(), by_n)
        near(method().numpy(), getattr(np, name)(X, ddof=1))
        near(method(unbiased=False).numpy(), getattr(np, name)(X))
        near(np.asarray(getattr(np, name)(x())), getattr(np, name)(X))


def test_what_spelling_cannot_tell_warns_once():
    code = (
        "import warnings, trilobite as tb\n"
        "warnings.simplefilter('always')\n"
        "x = tb.tensor([[1., 2.], [3., 4.]])\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    for _ in range(2):\n"
        "        tb.std(x); tb.meshgrid(x[0], x[1]); a, b = tb.sort(x)\n"
        "print(len(seen), {w.category.__name__ for w in seen})\n"
        "print(seen[0].message)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("3 {'MeaningWarning'}")
    assert "x.std()" in out and "correction=1" in out


def test_extremes_are_pairs_that_stand_for_their_values():
    values, indices = x().max(1)
    assert (values.tolist(), indices.tolist()) == ([5.0, 7.0], [1, 0])
    pair = tb.min(x(), dim=0, keepdim=True)
    assert (pair.values.tolist(), pair.indices.tolist()) == ([[1.0, 3.0, 2.0]], [[0, 1, 0]])
    assert x().max(1)[0].tolist() == [5.0, 7.0]
    assert (x().max(1) - 1).tolist() == [4.0, 6.0]
    assert (10 - x().max(1)).tolist() == [5.0, 3.0]
    assert x().max(1).sum().item() == 12.0
    assert tb.exp(tb.zeros(2, 2).max(1)).tolist() == [1.0, 1.0]
    assert isinstance(x().max(axis=1), tb.Tensor)
    assert isinstance(tb.max(x(), 1, keepdims=True), tb.Tensor)
    assert x().max().item() == 7.0
    assert tb.max(x(), x() * 2).tolist() == (X * 2).tolist()


def test_a_pair_sends_its_gradient_to_the_first_of_equals():
    t = tb.tensor([[2.0, 2.0]], requires_grad=True)
    t.max(1).values.sum().backward()
    assert t.grad.tolist() == [[1.0, 0.0]]


def test_sort_and_median():
    values, indices = x().sort(descending=True)
    assert (values.tolist()[0], indices.tolist()[0]) == ([5.0, 2.0, 1.0], [1, 2, 0])
    both = tb.sort(x())
    assert isinstance(both, tb.Tensor) and both.values.tolist() == both.tolist()
    assert both.indices.tolist() == [[0, 2, 1], [1, 2, 0]]
    assert x().median().item() == 3.0
    assert tb.median(tb.tensor([4.0, 1.0, 3.0, 2.0])).item() == 2.0
    assert tb.median(tb.tensor([4.0, 1.0, 3.0, 2.0]), axis=0).item() == 2.5
    v, i = tb.tensor([[1.0, np.nan, 0.0]]).median(1)
    assert np.isnan(v.item()) and i.item() == 1
    assert tb.tensor([[1.0, np.nan, 0.0]]).nanmedian(1).values.item() == 0.0


def test_places_copies_and_sizes():
    assert x().nonzero().shape == (6, 2)
    lines = tb.nonzero(x())
    assert isinstance(lines, tuple) and len(lines) == 2 and lines.shape == (6, 2)
    assert tb.nonzero(tb.tensor([0, 3, 4])).squeeze(1).tolist() == [1, 2]
    assert x().repeat(2, 1).shape == (4, 3) and tb.repeat(x(), 2).shape == (12,)
    with pytest.raises(tb.errors.ShapeError, match="repeat_interleave"):
        x().repeat(2)
    assert (x().size, x().size(), x().size(-1)) == (6, (2, 3), 3)
    assert x().shape[1:].numel() == 3
    assert x().squeeze(0).shape == (2, 3)
    with pytest.raises(tb.errors.ShapeError):
        tb.squeeze(x(), 0)
    assert tb.meshgrid([tb.arange(2), tb.arange(3)])[0].shape == (2, 3)
    assert x().equal(x()) is True
    assert tb.Tensor([1, 2]).dtype == tb.float32 and tb.Tensor(2, 3).shape == (2, 3)
    assert tb.LongTensor([1, 2]).dtype == tb.int64 and isinstance(tb.arange(2), tb.LongTensor)


def test_pairs_come_out_of_compiled_functions():
    out = tb.jit(lambda t: t.max(1))(x())
    assert type(out).__name__ == "Pair" and out.indices.tolist() == [1, 0]


def test_an_axis_by_its_place_in_what_has_a_short_way():
    assert x().mean(1).tolist() == X.mean(1).tolist() and tb.mean(x(), (0, 1)).item() == X.mean()
    assert x().sum(0).tolist() == X.sum(0).tolist() and x().mean().item() == X.mean()
