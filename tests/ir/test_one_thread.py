"""The same bits at any number of BLAS threads, which the user's own code keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from trilobite.base import blas
from trilobite.ir.primitives import table

pytestmark = pytest.mark.skipif(blas.controls is None, reason="NumPy stands on another BLAS than OpenBLAS")
PLAIN = {
    "stride": (1, 1),
    "low": (1, 1),
    "high": (1, 1),
    "x_dilation": (1, 1),
    "w_dilation": (1, 1),
    "groups": 1,
}


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    assert blas.controls is not None
    get, set_ = blas.controls
    before = get()
    yield set_
    set_(before)


def number() -> int:
    assert blas.controls is not None
    return blas.controls[0]()


def test_one_thread_inside_and_the_users_number_outside(threads: Callable[[int], None]) -> None:
    threads(2)
    nested = blas.one_thread(blas.one_thread(number))
    assert (number(), nested(), number()) == (2, 1, 2)

    @blas.one_thread
    def fails() -> None:
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fails()
    assert number() == 2


def test_python_threads_share_it(threads: Callable[[int], None]) -> None:
    threads(2)
    inside = blas.one_thread(lambda _: (np.ones((60, 60)) @ np.ones((60, 60)), number())[1])
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(inside, range(200))) == {1}
    assert number() == 2


def runs(rng: np.random.Generator) -> list[Callable[[], Any]]:
    """Calls that are large enough for OpenBLAS to use its threads."""
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((7, 23, 37, 26), (34, 23, 3, 3)))
    y = table["conv"](x, w, dtype=x.dtype, **PLAIN)
    a = rng.standard_normal((150, 150))
    b, square = rng.standard_normal((150, 90)), a @ a.T
    return [
        lambda: table["conv"](x, w, dtype=x.dtype, **PLAIN),
        lambda: table["conv_input_grad"](y, w, space=x.shape[2:], dtype=x.dtype, **PLAIN),
        lambda: table["conv_weight_grad"](x, y, kernel=(3, 3), dtype=x.dtype, **PLAIN),
        lambda: table["triangular_solve"](a, b, left=True, lower=True, transpose=False, unit=True),
        lambda: table["lu"](a)[0],
        lambda: table["qr"](a, mode="reduced")[1],
        lambda: table["cholesky"](square),
        lambda: table["svdvals"](a),
        lambda: table["eigh"](a)[1],
        lambda: table["pinv"](a, np.asarray(1e-9)),
    ]


def test_the_bits_do_not_depend_on_it(threads: Callable[[int], None]) -> None:
    for run in runs(np.random.default_rng(0)):
        threads(1)
        once = run()
        threads(2)
        np.testing.assert_array_equal(run(), once)
