"""The special functions against SciPy, and against values with twenty digits."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special as oracle

from trilobite.base import dtypes as dt
from trilobite.ir.primitive import table

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(7)
wide = np.concatenate(
    [rng.uniform(-6, 6, 4000), 10.0 ** rng.uniform(-300, 0.5, 500), -(10.0 ** rng.uniform(-20, 0, 200))]
)
unit = np.concatenate(
    [rng.uniform(-1, 1, 3000), 1 - 10.0 ** rng.uniform(-15.5, -1, 800), 10.0 ** rng.uniform(-200, -1, 300)]
)
right = np.concatenate(
    [rng.uniform(1e-6, 15, 4000), 10.0 ** rng.uniform(-100, 100, 500), 1 + rng.normal(size=300) * 1e-4]
)
left = -rng.uniform(0, 12, 2000)

# Fifty-digit arithmetic rounded to 25 digits, at arguments given bit by bit.
TRUTH: dict[str, list[list[str]]] = json.loads((Path(__file__).parent / "special_values.json").read_text())


def value(name: str, x: Array) -> Array:
    order = name.removeprefix("polygamma")
    found: Array = table["polygamma"](x, order=int(order)) if order != name else table[name](x)
    return found


@pytest.mark.parametrize("name", list(TRUTH))
def test_double_is_right_to_a_few_ulp(name: str) -> None:
    """Where a negative argument makes two terms cancel, to a few ulp of the terms."""
    x = np.array([float.fromhex(a) for a, _ in TRUTH[name]])
    for a, got, (_, digits) in zip(x, value(name, x), TRUTH[name], strict=True):
        want = Fraction(digits)
        size = max(abs(float(want)), 0.0 if a > 0 or name.startswith("erf") else 8.0)
        off = abs(Fraction(float(got)) - want) / Fraction(float(np.spacing(size)))
        assert off <= (12 if name.startswith("poly") else 6), f"{float(off):.1f} ulp at {a!r}"


_CASES: list[tuple[str, Array, Callable[..., Any]]] = [
    ("erf", wide, oracle.erf), ("erfc", wide[wide < 5], oracle.erfc), ("erf_inv", unit, oracle.erfinv),
    ("lgamma", right, oracle.gammaln), ("lgamma", left, oracle.gammaln), ("digamma", right, oracle.psi),
    ("digamma", left[np.abs(left - np.rint(left)) > 0.01], oracle.psi),
]  # fmt: skip


@pytest.mark.parametrize("name, x, fn", _CASES, ids=[f"{c[0]}{i}" for i, c in enumerate(_CASES)])
def test_thousands_of_arguments_against_scipy(name: str, x: Array, fn: Any) -> None:
    np.testing.assert_allclose(
        table[name](x), fn(x), rtol=5e-14, atol=3e-14 if name in ("lgamma", "digamma") else 0
    )


def test_zeros_of_lgamma_and_digamma_keep_relative_precision() -> None:
    for e in (1e-3, 1e-9, 1e-14):
        h = (1 + e) - 1
        assert float(table["lgamma"](np.array(1 + h))) == pytest.approx(
            -0.57721566490153286 * h + 0.8224670334241132 * h * h, rel=1e-5
        )
        assert float(table["lgamma"](np.array(2 + h))) == pytest.approx(oracle.gammaln(2 + h), rel=1e-7)
    root = 1.4616321449683622
    assert float(table["digamma"](np.array(root))) == pytest.approx(-9.2412655217294275e-17, rel=1e-12)


def test_edges() -> None:
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, -2.0])
    same = np.testing.assert_array_equal
    same(table["erf"](x)[:5], [0.0, -0.0, 1.0, -1.0, math.nan])
    assert np.signbit(table["erf"](x)[1])
    same(table["erfc"](x)[:5], [1.0, 1.0, 0.0, 2.0, math.nan])
    same(table["erf_inv"](x), [0.0, -0.0, math.nan, math.nan, math.nan, math.inf, -math.inf, math.nan])
    same(table["lgamma"](x), [math.inf, math.inf, math.inf, math.inf, math.nan, 0.0, math.inf, math.inf])
    same(table["digamma"](x)[[0, 1, 2, 3, 4, 6, 7]], [-math.inf, math.inf, math.inf, *[math.nan] * 4])
    same(table["polygamma"](x, order=1)[[0, 2, 4, 6]], [math.inf, 0.0, math.nan, math.inf])


@pytest.mark.parametrize("name", ["erf", "erfc", "erf_inv", "lgamma", "digamma"])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float16, dt.bfloat16], ids=str)
def test_smaller_floats_are_right_to_two_ulp(name: str, dtype: Any) -> None:
    x = (unit if name == "erf_inv" else right[right < 30]).astype(np.float32).astype(dtype)
    x = x[np.abs(x.astype(float)) < 1] if name == "erf_inv" else x[x.astype(float) > 1e-4]
    fn = {"erf_inv": oracle.erfinv, "lgamma": oracle.gammaln, "digamma": oracle.psi}.get(name) or getattr(
        oracle, name
    )
    want = fn(x.astype(np.float64))
    eps = (
        float(np.finfo(np.float32).eps)
        if dtype == dt.float32
        else 2.0**-10
        if dtype == dt.float16
        else 2.0**-7
    )
    keep = np.abs(want) < 6e4
    got = table[name](x).astype(np.float64)
    assert (
        np.abs(got - want)[keep]
        <= (3 if name == "erf" else 1) * eps * np.abs(want[keep]) + 1e-7 * eps + 6e-8 * (dtype == dt.float16)
    ).all()


def test_blocks_do_not_show() -> None:
    x = rng.normal(size=20011)
    for name in ("erf", "lgamma", "digamma"):
        whole = table[name](x)
        parts = np.concatenate([table[name](x[:777]), table[name](x[777:])])
        assert whole.tobytes() == parts.tobytes()
        assert table[name](x[::-1])[::-1].tobytes() == whole.tobytes()
