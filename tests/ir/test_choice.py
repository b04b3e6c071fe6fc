"""select chooses bit for bit what np.where does, short arrays and long, every dtype and layout."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.base.dtypes import ALL, BY_NAME
from trilobite.ir.primitives import table
from trilobite.ir.primitives.comparison import choose

RNG = np.random.default_rng(0)


def noise(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Every bit pattern may come: NaN with payloads, infinities, signed zeros."""
    if dtype == np.bool_:
        return RNG.random(shape) < 0.5
    if dtype.name in ("int4", "uint4", "float4_e2m1fn"):
        return RNG.integers(0, 7, shape).astype(dtype)
    return RNG.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype).reshape(shape)


@pytest.mark.parametrize("shape", [(), (7,), (0, 3), (33, 129), (5, 1021)])
@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_choice_is_bit_for_bit(name: str, shape: tuple[int, ...]) -> None:
    dtype = BY_NAME[name]
    assert dtype in ALL
    p, x, y = (np.asarray(a) for a in (RNG.random(shape) < 0.4, noise(shape, dtype), noise(shape, dtype)))
    found = table["select"](p, x, y)
    assert found.dtype == dtype and found.shape == shape
    assert found.tobytes() == np.where(p, x, y).astype(dtype).tobytes()


def test_strides_and_scalars() -> None:
    x, y = noise((200, 80), np.dtype("float32")), noise((80, 200), np.dtype("float32")).T
    p = (RNG.random((200, 160)) < 0.5)[:, ::2]
    assert choose(p, x, y).tobytes() == np.where(p, x, y).tobytes()
    zero = np.zeros((), np.float32)
    assert choose(p, zero, x).tobytes() == np.where(p, zero, x).tobytes()
    assert choose(p, np.broadcast_to(zero, x.shape), x).tobytes() == np.where(p, zero, x).tobytes()
    row = noise((80,), np.dtype("float32"))
    assert choose(p, x, row).tobytes() == np.where(p, x, row).tobytes()
