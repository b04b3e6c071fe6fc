"""`tb.testing`: tensors compared as PyTorch's tests compare them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.framework.tensor import Tensor

_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """An AssertionError unless both are equal within what their dtype allows, element by element."""
    if isinstance(actual, Mapping) or (isinstance(actual, Sequence) and not isinstance(actual, str)):
        keys = actual.keys() if isinstance(actual, Mapping) else range(len(actual))
        if len(actual) != len(expected):
            raise AssertionError(msg or f"{len(actual)} elements instead of {len(expected)}")
        for key in keys:
            assert_close(
                actual[key], expected[key], rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype
            )
        return
    a, b = _array(actual), _array(expected)
    if a.shape != b.shape:
        raise AssertionError(msg or f"shape {a.shape} instead of {b.shape}")
    if check_dtype and a.dtype != b.dtype:
        raise AssertionError(msg or f"{a.dtype} instead of {b.dtype}")
    most = [_TOLERANCES.get(dt.as_dtype(x.dtype).name, (0.0, 0.0)) for x in (a, b)]
    relative, absolute = (max(pair) for pair in zip(*most, strict=True))
    wide = np.result_type(a.dtype, np.float64) if a.dtype.kind not in "biuc" else a.dtype
    np.testing.assert_allclose(
        a.astype(wide),
        b.astype(wide),
        relative if rtol is None else rtol,
        absolute if atol is None else atol,
        equal_nan,
        str(msg or ""),
    )


def assert_allclose(actual: Any, expected: Any, rtol: Any = None, atol: Any = None, **settings: Any) -> None:
    """As `assert_close`, whatever the dtypes."""
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True, check_dtype=False)


def make_tensor(
    *shape: Any, dtype: Any, device: Any = "cpu", low: Any = None, high: Any = None, **_: Any
) -> Any:
    """A tensor of random values of a dtype."""
    from trilobite.framework.ops.creation import tensor
    from trilobite.framework.random.calls import rand

    size = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    least, most = -9 if low is None else low, 9 if high is None else high
    return tensor((rand(size) * (most - least) + least).numpy(), dtype=dtype)


def _array(x: Any) -> np.ndarray[Any, Any]:
    return x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x)
