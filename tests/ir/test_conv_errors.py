"""Wrong convolutions are refused with words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_conv import window

from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.ir.primitives import table
from trilobite.ir.types import TensorType

conv, conv_input_grad, conv_weight_grad = (table[n] for n in ("conv", "conv_input_grad", "conv_weight_grad"))


def _shapes(x: tuple[int, ...], w: tuple[int, ...], **settings: Any) -> Any:
    return conv(np.ones(x), np.ones(w), dtype=np.dtype("float64"), **window(len(x) - 2, **settings))


def test_a_kernel_larger_than_the_input_is_refused() -> None:
    with pytest.raises(ShapeError) as e:
        _shapes((1, 2, 4, 4), (3, 2, 3, 3), w_dilation=2)
    text = str(e.value)
    assert "the kernel spans 5 elements along spatial axis 0, the padded input has 4" in text
    assert (
        "expected: at least 5 elements: input 4, padding 0 and 0" in text
        and "remedy: pad the input more" in text
    )
    assert "test_conv_errors.py" in text


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (
            lambda: _shapes((1, 4, 5, 5), (3, 3, 3, 3)),
            ShapeError,
            "4 input channels, 3 filters of 3 channels, 1 groups",
        ),
        (
            lambda: _shapes((1, 4, 5, 5), (3, 2, 3, 3), groups=2),
            ShapeError,
            "a number of filters that 2 divides",
        ),
        (lambda: _shapes((1, 4, 5), (3, 4, 3, 3)), ShapeError, "an input with 3 axes and a weight with 4"),
        (
            lambda: _shapes((1, 4, 5, 5), (3, 4, 3, 3), stride=(1, 2, 3)),
            ShapeError,
            "one number for each of 2 spatial axes",
        ),
        (lambda: _shapes((1, 4, 5, 5), (3, 4, 3, 3), stride=0), ArgumentError, "stride (0, 0)"),
        (lambda: _shapes((1, 4, 5, 5), (3, 4, 3, 3), w_dilation=-1), ArgumentError, "numbers of at least 1"),
        (lambda: _shapes((1, 4, 5, 5), (3, 4, 0, 3)), ArgumentError, "kernel (0, 3)"),
        (lambda: _shapes((1, 4, 5, 5), (3, 4, 3, 3), groups=0), ArgumentError, "0 groups"),
        (
            lambda: conv.type(
                TensorType((1, 1, 3), np.dtype("float32")),
                TensorType((1, 1, 3), np.dtype("float64")),
                dtype=np.dtype("float64"),
                **window(1),
            ),
            DTypeError,
            "equal dtypes; casts are explicit",
        ),
        (
            lambda: conv.type(
                TensorType((1, 1, 3), np.dtype("bool")),
                TensorType((1, 1, 3), np.dtype("bool")),
                dtype=np.dtype("bool"),
                **window(1),
            ),
            DTypeError,
            "conv does not take bool",
        ),
        (
            lambda: conv.type(
                TensorType((1, 1, 3), np.dtype("int8")),
                TensorType((1, 1, 3), np.dtype("int8")),
                dtype=np.dtype("float32"),
                **window(1),
            ),
            DTypeError,
            "a result of the same kind",
        ),
        (
            lambda: conv_input_grad(
                np.ones((1, 2, 4)), np.ones((2, 1, 3)), space=(5,), dtype=np.dtype("float64"), **window(1)
            ),
            ShapeError,
            "expected: [1, 2, 3]",
        ),
        (
            lambda: conv_weight_grad(
                np.ones((1, 3, 4)),
                np.ones((1, 2, 3)),
                kernel=(2,),
                dtype=np.dtype("float64"),
                **window(1, groups=2),
            ),
            ShapeError,
            "3 input channels in 2 groups",
        ),
    ],
)
def test_refusals(act: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as e:
        act()
    assert text in str(e.value)
