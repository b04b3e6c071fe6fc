"""Functions and methods under PyTorch's names give PyTorch's results: each call is written once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import trilobite as tb  # noqa: E402
from tests.habits.calls import CALLS  # noqa: E402

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]


def leaves(out: Any) -> list[Any]:
    if isinstance(out, (tuple, list)):
        return [leaf for part in out for leaf in leaves(part)]
    return [out]


@pytest.mark.parametrize("name", CALLS)
def test_the_same_result_and_slope(name: str) -> None:
    fn, operands = CALLS[name]
    found = []
    for lib in (torch, tb):
        inputs = [lib.tensor(a, requires_grad=a.dtype.kind == "f") for a in operands]
        outs = leaves(fn(lib, *inputs))
        smooth = [o for o in outs if o.requires_grad]
        if smooth:
            sum((o * o.detach().cos()).sum() for o in smooth).backward()
        found.append((outs, [x.grad for x in inputs]))
    (theirs, slopes), (ours, own) = found
    assert len(ours) == len(theirs)
    for a, b in zip(theirs, ours, strict=True):
        a, b = a.detach().numpy(), b.detach().numpy()
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-9)
    for a, b in zip(slopes, own, strict=True):
        if a is None or b is None:
            left = a if b is None else b
            assert left is None or not np.any(np.asarray(left.detach().numpy()))
            continue
        np.testing.assert_allclose(b.detach().numpy(), a.numpy(), rtol=1e-7, atol=1e-8)
