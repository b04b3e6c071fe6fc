"""Elementwise meaning at the edges, and slopes where textbooks hesitate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from derivative_checks import pull, push

from trilobite.base import dtypes as dt
from trilobite.ir.primitive import table

Array = np.ndarray[Any, Any]
inf, nan = math.inf, math.nan


def slopes(name: str, *operands: Any, **attributes: Any) -> list[list[float]]:
    """The reverse-mode derivative to each operand, for a cotangent of ones; forward mode must agree."""
    arrays = [np.atleast_1d(np.asarray(o, float)) for o in operands]
    out, back = pull(lambda *v: table[name](*v, **attributes), arrays)
    found = back([np.ones_like(out[0])])
    for i, f in enumerate(found):
        tangents = [np.ones_like(a) if i == k else None for k, a in enumerate(arrays)]
        np.testing.assert_array_equal(
            push(lambda *v: table[name](*v, **attributes), arrays, tangents)[1][0], f
        )
    return [f.tolist() for f in found]


# -- slopes at edges -----------------------------------------------------------------------------------------


def test_abs_and_sign_are_flat_at_zero() -> None:
    assert slopes("abs", [-2.0, 0.0, -0.0, 3.0]) == [[-1, 0, 0, 1]]
    assert slopes("sign", [-2.0, 0.0, 3.0]) == [[0, 0, 0]]
    assert slopes("copysign", [2.0, -2.0, 0.0], [-1.0, -1.0, -1.0]) == [[-1, 1, 0], [0, 0, 0]]


def test_equal_operands_share_the_slope_of_an_extreme() -> None:
    assert slopes("maximum", [1.0, 2.0, 3.0], [2.0, 2.0, 2.0]) == [[0, 0.5, 1], [1, 0.5, 0]]
    assert slopes("minimum", [1.0, 2.0, 3.0], [2.0, 2.0, 2.0]) == [[1, 0.5, 0], [0, 0.5, 1]]
    _, back = pull(lambda v: table["reduce_max"](v, axes=(0,)), [np.array([1.0, 4.0, 4.0, 2.0])])
    assert back([np.array(3.0)])[0].tolist() == [0, 1.5, 1.5, 0]


def test_pow_at_zero() -> None:
    x, y = [0.0, 0.0, 0.0, 2.0, nan, 1e-310], [0.0, 2.0, 1.0, 0.0, 0.0, 0.0]
    to_x, to_y = slopes("pow", x, y)
    assert to_x == [0, 0, 1, 0, 0, 0]
    assert to_y[:3] == [0, 0, 0] and to_y[3] == math.log(2)
    assert slopes("pow", [0.0], [-1.0])[0] == [-inf]
    assert slopes("pow", [0.0], [0.5])[0] == [inf]


def test_pow_of_a_negative_base_to_a_fixed_power() -> None:
    x, y = np.array([-2.0, -1.5, -3.0]), np.array([2.0, 3.0, -1.0])
    _, back = pull(lambda v: table["pow"](v, y), [x])
    np.testing.assert_allclose(back([np.ones(3)])[0], [-4.0, 3 * 2.25, -1 / 9])


def test_mixed_second_derivative_of_pow_at_power_zero() -> None:
    def to_x(x: Any, y: Any) -> Any:
        return pull(table["pow"], [x, y])[1]([np.array(1.0)])[0]

    _, t = push(to_x, [np.array(2.0), np.array(0.0)], [None, np.array(1.0)])
    assert float(t[0]) == 0.5  # d/dy y·x^(y-1) = 1/x


def test_roots_and_angles_at_their_poles() -> None:
    assert slopes("sqrt", [0.0, 4.0]) == [[inf, 0.25]]
    assert slopes("hypot", [0.0, 3.0], [0.0, 4.0]) == [[0, 0.6], [0, 0.8]]
    to_y, to_x = slopes("atan2", [0.0, 1.0], [0.0, 1.0])
    assert to_y == pytest.approx([0, 0.5]) and to_x == pytest.approx([0, -0.5])
    assert slopes("asin", [1.0, -1.0])[0] == [inf, inf]
    assert slopes("logaddexp", [-inf, inf, 1000.0], [-inf, inf, 0.0]) == [[0.5, 0.5, 1], [0.5, 0.5, 0]]


def test_slopes_of_far_arguments_do_not_overflow() -> None:
    assert slopes("asinh", [1e200]) == [[1e-200]]
    assert slopes("atan2", [1e200], [1e200])[0] == pytest.approx([5e-201], rel=1e-14)
    half = np.array([300.0], np.float16)
    _, back = pull(table["asinh"], [half])
    assert float(back([np.ones(1, np.float16)])[0][0]) == pytest.approx(1 / 300, rel=1e-3)


def test_remainder_has_slope_one_and_minus_the_quotient() -> None:
    assert slopes("rem", [7.5, -7.5], [2.0, 2.0]) == [[1, 1], [-3, 4]]
    assert slopes("floor_div", [7.5], [2.0]) == [[0], [0]]


# -- values at edges -----------------------------------------------------------------------------------------

_VALUES: list[tuple[str, list[Any], list[float]]] = [
    ("sign", [[nan, -0.0, -inf]], [nan, 0.0, -1.0]),
    ("round", [[0.5, 1.5, 2.5, -0.5, -1.5]], [0.0, 2.0, 2.0, -0.0, -2.0]),
    ("trunc", [[-1.7, 1.7]], [-1.0, 1.0]),
    ("floor", [[-1.2, inf]], [-2.0, inf]),
    ("ceil", [[-1.2, 1.2]], [-1.0, 2.0]),
    ("rem", [[5.0, -5.0, 5.0, -5.0, 1.0], [3.0, 3.0, -3.0, -3.0, 0.0]], [2.0, 1.0, -1.0, -2.0, nan]),
    ("floor_div", [[5.0, -5.0, 1.0], [3.0, 3.0, 0.0]], [1.0, -2.0, inf]),
    ("maximum", [[nan, 1.0, -0.0], [1.0, nan, 0.0]], [nan, nan, 0.0]),
    ("rsqrt", [[0.0, 4.0, -1.0, inf]], [inf, 0.5, nan, 0.0]),
    ("pow", [[0.0, nan, 1.0, -1.0], [0.0, 0.0, nan, inf]], [1.0, 1.0, 1.0, 1.0]),
    ("atan2", [[0.0, -0.0, 0.0], [-0.0, -1.0, 1.0]], [math.pi, -math.pi, 0.0]),
    ("log1p", [[-1.0, 1e-20]], [-inf, 1e-20]),
    ("expm1", [[1e-20, -inf]], [1e-20, -1.0]),
    ("hypot", [[1e200, inf], [1e200, nan]], [math.hypot(1e200, 1e200), inf]),
    ("logaddexp", [[1000.0, -inf], [1000.0, -inf]], [1000.0 + math.log(2), -inf]),
    ("exp2", [[-1074.0, 10.0]], [5e-324, 1024.0]),
    ("nextafter", [[1.0, 0.0], [2.0, -1.0]], [1 + 2**-52, -5e-324]),
    ("copysign", [[3.0, 3.0], [-0.0, 1.0]], [-3.0, 3.0]),
]


@pytest.mark.parametrize("name, operands, want", _VALUES, ids=[v[0] for v in _VALUES])
def test_values(name: str, operands: list[Any], want: list[float]) -> None:
    np.testing.assert_array_equal(table[name](*(np.asarray(o, float) for o in operands)), want)


def test_truth_about_numbers() -> None:
    x = np.array([nan, inf, -inf, -0.0, 1.0])
    assert table["is_nan"](x).tolist() == [True, False, False, False, False]
    assert table["is_inf"](x).tolist() == [False, True, True, False, False]
    assert table["is_finite"](x).tolist() == [False, False, False, True, True]
    assert table["signbit"](x[1:]).tolist() == [False, True, True, False]
    assert table["is_finite"](np.array([3])).tolist() == [True]
    assert table["is_nan"](np.array([complex(0, nan)])).tolist() == [True]


def test_integers_wrap_and_divide_by_zero_quietly() -> None:
    top = np.array([127], np.int8)
    assert table["add"](top, top).tolist() == [-2]
    assert table["neg"](np.array([-128], np.int8)).tolist() == [-128]
    low = np.array([-128, 7, -7], np.int8)
    assert table["floor_div"](low, np.array([-1, 0, 2], np.int8)).tolist() == [-128, 0, -4]
    assert table["rem"](low, np.array([-1, 0, 2], np.int8)).tolist() == [0, 0, 1]
    assert table["pow"](np.array([3], np.uint8), np.array([7], np.uint8)).tolist() == [3**7 % 256]
    bases, powers = np.array([2, 1, -1, -1, 0]), np.array([-1, -9, -3, -2, -1])
    assert table["pow"](bases, powers).tolist() == [0, 1, -1, 1, 0]


def test_shifts_beyond_the_width() -> None:
    x = np.array([-5, 5, -5, 5], np.int32)
    n = np.array([32, 100, -1, 31], np.int32)
    assert table["shift_left"](x, n).tolist() == [0, 0, 0, -(2**31)]
    assert table["shift_right"](x, n).tolist() == [-1, 0, -1, 0]
    assert table["shift_right"](np.array([200], np.uint8), np.array([9], np.uint8)).tolist() == [0]


def test_bits_are_counted_over_the_whole_width() -> None:
    x = np.array([-1, 0, 6], np.int16)
    assert table["popcount"](x).tolist() == [16, 0, 2]
    assert table["clz"](x).tolist() == [0, 16, 13]
    assert table["clz"](np.array([1], np.uint64)).tolist() == [63]


def test_parts_of_complex_numbers_keep_infinities_and_signed_zeros() -> None:
    re, im = np.array([inf, -0.0]), np.array([nan, -0.0])
    z = table["complex"](re, im)
    assert z.dtype == dt.complex128 and z.real.tobytes() == re.tobytes() and z.imag.tobytes() == im.tobytes()
    assert table["real"](z).tobytes() == re.tobytes()
    assert table["abs"](np.array([3 - 4j], np.complex64)).dtype == dt.float32
    np.testing.assert_allclose(table["sign"](np.array([3 - 4j, 0])), [0.6 - 0.8j, 0])


def test_gradient_of_a_complex_modulus_points_along_it() -> None:
    """The convention of PyTorch: the gradient of |z|² is 2z, a direction to descend against."""
    z = np.array([3.0 - 4.0j, 0j])
    _, back = pull(lambda v: table["mul"](table["abs"](v), table["abs"](v)), [z])
    np.testing.assert_allclose(back([np.ones(2)])[0], [6 - 8j, 0])
    _, back = pull(lambda v: table["real"](table["mul"](v, v)), [z])
    np.testing.assert_allclose(back([np.ones(2)])[0], np.conj(2 * z))


def test_broadcast_arrays_are_taken_as_they_are() -> None:
    """Eager operations hand over unequal shapes where NumPy broadcasts them."""
    out = table["add"].evaluate(np.ones((2, 1)), np.ones(3))
    assert out.shape == (2, 3)
    assert table["complex"].evaluate(np.ones((2, 1)), np.ones(3)).shape == (2, 3)
