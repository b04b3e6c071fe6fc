"""The standard's special cases, as tables: operands > result, in both float precisions, eager and under jit.

`x` in a result is the first operand, `y` the second. `±` in front of a number leaves its sign open. Zeros
and infinities must have the right sign; other numbers may be off by rounding.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import trilobite as tb

inf, nan, pi = math.inf, math.nan, math.pi

UNARY = {
    "abs": "nan>nan -0>+0 +0>+0 -inf>inf inf>inf -1.5>1.5",
    "acos": "nan>nan 1.5>nan -1.5>nan inf>nan -inf>nan 1>+0 -1>pi",
    "acosh": "nan>nan 0.5>nan -1>nan -inf>nan 1>+0 inf>inf",
    "asin": "nan>nan 1.5>nan -1.5>nan inf>nan +0>+0 -0>-0",
    "asinh": "nan>nan +0>+0 -0>-0 inf>inf -inf>-inf",
    "atan": "nan>nan +0>+0 -0>-0 inf>pi/2 -inf>-pi/2",
    "atanh": "nan>nan -1.5>nan 1.5>nan -1>-inf 1>inf +0>+0 -0>-0 inf>nan",
    "ceil": "3>3 -3>-3 inf>inf -inf>-inf +0>+0 -0>-0 nan>nan -0.5>-0 0.5>1 -1.5>-1",
    "cos": "nan>nan +0>1 -0>1 inf>nan -inf>nan",
    "cosh": "nan>nan +0>1 -0>1 inf>inf -inf>inf",
    "exp": "nan>nan +0>1 -0>1 inf>inf -inf>+0",
    "expm1": "nan>nan +0>+0 -0>-0 inf>inf -inf>-1",
    "floor": "3>3 -3>-3 inf>inf -inf>-inf +0>+0 -0>-0 nan>nan 0.5>+0 -0.5>-1",
    "log": "nan>nan -1>nan -inf>nan +0>-inf -0>-inf 1>+0 inf>inf",
    "log1p": "nan>nan -1.5>nan -inf>nan -1>-inf -0>-0 +0>+0 inf>inf",
    "log2": "nan>nan -1>nan -inf>nan +0>-inf -0>-inf 1>+0 inf>inf",
    "log10": "nan>nan -1>nan -inf>nan +0>-inf -0>-inf 1>+0 inf>inf",
    "negative": "nan>nan +0>-0 -0>+0 inf>-inf",
    "positive": "nan>nan +0>+0 -0>-0 -inf>-inf",
    "reciprocal": "nan>nan +0>inf -0>-inf inf>+0 -inf>-0",
    "round": "3>3 inf>inf -inf>-inf +0>+0 -0>-0 nan>nan 0.5>+0 1.5>2 2.5>2 -0.5>-0 -1.5>-2 -2.5>-2 0.25>+0",
    "sign": "-2>-1 -0>±0 +0>±0 2>1 nan>nan inf>1 -inf>-1",
    "sin": "nan>nan +0>+0 -0>-0 inf>nan -inf>nan",
    "sinh": "nan>nan +0>+0 -0>-0 inf>inf -inf>-inf",
    "sqrt": "nan>nan -1>nan -inf>nan +0>+0 -0>-0 inf>inf",
    "square": "nan>nan -0>+0 -inf>inf",
    "tan": "nan>nan +0>+0 -0>-0 inf>nan -inf>nan",
    "tanh": "nan>nan +0>+0 -0>-0 inf>1 -inf>-1",
    "trunc": "3>3 inf>inf -inf>-inf +0>+0 -0>-0 nan>nan 0.5>+0 -0.5>-0 -1.5>-1",
    "conj": "nan>nan -0>-0",
    "real": "nan>nan -0>-0",
}
UNARY_TRUTH = {
    "isfinite": "inf>0 -inf>0 nan>0 1.5>1 +0>1",
    "isinf": "inf>1 -inf>1 nan>0 1.5>0",
    "isnan": "nan>1 inf>0 -inf>0 +0>0",
    "signbit": "+0>0 -0>1 inf>0 -inf>1 1.5>0 -1.5>1 nan>0 -nan>1",
}
BINARY = {
    "add": """nan,1>nan 1,nan>nan inf,-inf>nan -inf,inf>nan inf,inf>inf -inf,-inf>-inf inf,2>inf -inf,2>-inf
        2,inf>inf
        2,-inf>-inf -0,-0>-0 -0,+0>+0 +0,-0>+0 +0,+0>+0 +0,2>y -0,2>y 2,+0>x 2,-0>x 2,-2>+0 -2,2>+0""",
    "subtract": """nan,1>nan inf,inf>nan -inf,-inf>nan inf,-inf>inf -0,+0>-0 -0,-0>+0 +0,-0>+0 2,2>+0
        2,inf>-inf""",
    "multiply": """nan,1>nan 1,nan>nan inf,+0>nan -inf,-0>nan -0,inf>nan +0,-inf>nan inf,-2>-inf -inf,-2>inf
        -0,2>-0
        -0,-2>+0 inf,inf>inf inf,-inf>-inf""",
    "divide": """nan,1>nan inf,-inf>nan inf,inf>nan +0,-0>nan -0,-0>nan +0,2>+0 -0,2>-0 +0,-2>-0 -0,-2>+0
        2,+0>inf
        2,-0>-inf -2,+0>-inf -2,-0>inf inf,2>inf inf,-2>-inf -inf,2>-inf -inf,-2>inf 2,inf>+0 2,-inf>-0
        -2,inf>-0
        -2,-inf>+0 inf,+0>inf inf,-0>-inf -inf,+0>-inf +0,inf>+0 -0,inf>-0""",
    "floor_divide": """nan,1>nan 1,nan>nan inf,-inf>nan inf,inf>nan +0,-0>nan -0,+0>nan +0,2>+0 -0,2>-0
        +0,-2>-0
        -0,-2>+0 2,+0>inf 2,-0>-inf -2,+0>-inf -2,-0>inf inf,2>inf inf,-2>-inf -inf,2>-inf -inf,-2>inf
        2,inf>+0
        2,-inf>-0 -2,inf>-0 -2,-inf>+0 7,2>3 -7,2>-4 7,-2>-4 -7,-2>3 +0,inf>+0 -0,inf>-0 +0,-inf>-0""",
    "remainder": """nan,1>nan 1,nan>nan inf,-inf>nan inf,inf>nan +0,-0>nan -0,+0>nan +0,2>+0 -0,2>+0 +0,-2>-0
        -0,-2>-0
        2,+0>nan 2,-0>nan -2,+0>nan -2,-0>nan inf,2>nan inf,-2>nan -inf,2>nan -inf,-2>nan 2,inf>x 2,-inf>y
        -2,inf>y
        -2,-inf>x 7,2>1 -7,2>1 7,-2>-1 -7,-2>-1""",
    "pow": """0.5,nan>nan nan,2>nan nan,+0>1 nan,-0>1 inf,+0>1 +0,+0>1 2,inf>inf -2,inf>inf 2,-inf>+0
        -2,-inf>+0 1,inf>1
        -1,inf>1 1,-inf>1 -1,-inf>1 1,5>1 0.5,inf>+0 -0.5,inf>+0 0.5,-inf>inf -0.5,-inf>inf inf,2>inf
        inf,0.5>inf inf,-2>+0
        -inf,3>-inf -inf,2>inf -inf,2.5>inf -inf,-3>-0 -inf,-2>+0 +0,2>+0 +0,-2>inf -0,3>-0 -0,2>+0
        -0,-3>-inf -0,-2>inf
        -2,0.5>nan -2,-1.5>nan""",
    "atan2": """nan,1>nan 1,nan>nan 2,+0>pi/2 2,-0>pi/2 +0,2>+0 +0,+0>+0 +0,-0>pi +0,-2>pi -0,2>-0 -0,+0>-0
        -0,-0>-pi
        -0,-2>-pi -2,+0>-pi/2 -2,-0>-pi/2 2,inf>+0 2,-inf>pi -2,inf>-0 -2,-inf>-pi inf,2>pi/2 -inf,2>-pi/2
        inf,inf>pi/4
        inf,-inf>3*pi/4 -inf,inf>-pi/4 -inf,-inf>-3*pi/4""",
    "hypot": """inf,nan>inf -inf,nan>inf nan,inf>inf nan,-inf>inf inf,2>inf +0,-2>2 -2,-0>2 2,nan>nan
        nan,2>nan nan,nan>nan
        3,4>5 -3,4>5 3,-4>5 -3,-4>5""",
    "copysign": "2,-1>-2 2,-0>-2 -2,+0>2 -2,3>2 2,-nan>-2 -2,nan>2 nan,1>nan inf,-1>-inf +0,-1>-0 -0,1>+0",
    "logaddexp": "nan,1>nan 1,nan>nan inf,1>inf 1,inf>inf inf,-inf>inf -inf,-inf>-inf -inf,2>y 2,-inf>x",
    "maximum": "nan,1>nan 1,nan>nan nan,inf>nan -inf,2>2 inf,2>inf",
    "minimum": "nan,1>nan 1,nan>nan nan,-inf>nan -inf,2>-inf inf,2>2",
    "nextafter": "nan,1>nan 1,nan>nan -0,+0>+0 +0,-0>-0 2,2>2",
}
BINARY_TRUTH = {
    "equal": "nan,nan>0 nan,1>0 inf,inf>1 -inf,-inf>1 inf,-inf>0 -0,+0>1 +0,-0>1 2,2>1 2,3>0",
    "not_equal": "nan,nan>1 1,nan>1 inf,-inf>1 inf,inf>0 -0,+0>0 2,3>1 2,2>0",
    "less": "nan,1>0 1,nan>0 -inf,inf>1 -0,+0>0 1,2>1",
    "less_equal": "nan,nan>0 -0,+0>1 2,2>1",
    "greater": "nan,1>0 inf,-inf>1 +0,-0>0",
    "greater_equal": "nan,nan>0 +0,-0>1 3,2>1",
}
COMPLEX = {  # (real part, imaginary part) > (real part, imaginary part)
    "abs": "inf,nan>inf nan,-inf>inf +0,-2>2 -2,-0>2 nan,2>nan 2,nan>nan nan,nan>nan",
    "exp": """+0,+0>1,+0 -0,+0>1,+0 2,inf>nan,nan 2,nan>nan,nan inf,+0>inf,+0 -inf,2>-0,+0 inf,2>-inf,inf
        -inf,inf>±0,±0
        inf,inf>±inf,nan -inf,nan>±0,±0 inf,nan>±inf,nan nan,+0>nan,+0 nan,2>nan,nan nan,nan>nan,nan""",
    "expm1": "+0,+0>+0,+0 2,inf>nan,nan inf,+0>inf,+0 -inf,2>-1,+0 nan,+0>nan,+0 nan,nan>nan,nan",
    "log": """-0,+0>-inf,pi +0,+0>-inf,+0 2,inf>inf,pi/2 2,nan>nan,nan -inf,2>inf,pi inf,2>inf,+0
        -inf,inf>inf,3*pi/4
        inf,inf>inf,pi/4 inf,nan>inf,nan -inf,nan>inf,nan nan,2>nan,nan nan,inf>inf,nan nan,nan>nan,nan""",
    "log1p": """-1,+0>-inf,+0 2,inf>inf,pi/2 2,nan>nan,nan -inf,2>inf,pi inf,2>inf,+0 -inf,inf>inf,3*pi/4
        inf,inf>inf,pi/4 inf,nan>inf,nan -inf,nan>inf,nan nan,2>nan,nan nan,inf>inf,nan nan,nan>nan,nan""",
    "sin": "+0,+0>+0,+0 nan,nan>nan,nan inf,+0>nan,±0",
    "cos": "+0,+0>1,±0 nan,nan>nan,nan",
    "tan": "+0,+0>+0,+0 nan,nan>nan,nan 2,inf>±0,1",
    "asin": "+0,+0>+0,+0 nan,nan>nan,nan inf,inf>pi/4,inf",
    "atan": "+0,+0>+0,+0 nan,nan>nan,nan inf,2>pi/2,±0",
    "sqrt": """+0,+0>+0,+0 -0,+0>+0,+0 2,inf>inf,inf nan,inf>inf,inf 2,nan>nan,nan -inf,2>+0,inf inf,2>inf,+0
        inf,nan>inf,nan -inf,nan>nan,±inf nan,2>nan,nan nan,nan>nan,nan""",
    "acos": """+0,+0>pi/2,-0 -0,+0>pi/2,-0 2,inf>pi/2,-inf 2,nan>nan,nan -inf,2>pi,-inf inf,2>+0,-inf
        -inf,inf>3*pi/4,-inf
        inf,inf>pi/4,-inf nan,2>nan,nan nan,inf>nan,-inf nan,nan>nan,nan""",
    "acosh": """+0,+0>+0,pi/2 -0,+0>+0,pi/2 2,inf>inf,pi/2 2,nan>nan,nan -inf,2>inf,pi inf,2>inf,+0
        -inf,inf>inf,3*pi/4
        inf,inf>inf,pi/4 inf,nan>inf,nan nan,2>nan,nan nan,inf>inf,nan nan,nan>nan,nan""",
    "asinh": """+0,+0>+0,+0 2,inf>inf,pi/2 2,nan>nan,nan inf,2>inf,+0 inf,inf>inf,pi/4 nan,+0>nan,+0
        nan,2>nan,nan
        nan,inf>±inf,nan nan,nan>nan,nan""",
    "atanh": """+0,+0>+0,+0 1,+0>inf,+0 2,inf>+0,pi/2 2,nan>nan,nan inf,2>+0,pi/2 inf,inf>+0,pi/2
        inf,nan>+0,nan
        nan,2>nan,nan nan,inf>±0,pi/2 nan,nan>nan,nan""",
    "cosh": """+0,+0>1,±0 +0,inf>nan,±0 +0,nan>nan,±0 2,inf>nan,nan 2,nan>nan,nan inf,+0>inf,±0 inf,2>-inf,inf
        inf,inf>±inf,nan inf,nan>inf,nan nan,+0>nan,±0 nan,2>nan,nan nan,nan>nan,nan""",
    "sinh": """+0,+0>+0,+0 +0,inf>±0,nan +0,nan>±0,nan 2,inf>nan,nan 2,nan>nan,nan inf,+0>inf,+0
        inf,2>-inf,inf
        inf,inf>±inf,nan inf,nan>±inf,nan nan,+0>nan,+0 nan,2>nan,nan nan,nan>nan,nan""",
    "tanh": """+0,+0>+0,+0 2,inf>nan,nan 2,nan>nan,nan inf,2>1,±0 inf,inf>1,±0 nan,+0>nan,+0 nan,2>nan,nan
        nan,nan>nan,nan""",
    "sign": "+0,+0>±0,±0 -0,-0>±0,±0 nan,2>nan,nan 2,nan>nan,nan 3,4>0.6,0.8",
    "round": "inf,-0>inf,-0 nan,2.5>nan,2 0.5,1.5>+0,2 -0.5,-inf>-0,-inf",
    "negative": "+0,-0>-0,+0 inf,nan>-inf,nan",
    "conj": "1,+0>1,-0 nan,inf>nan,-inf",
}
COMPLEX_TRUTH = {
    "isfinite": "nan,1>0 inf,nan>0 1,-inf>0 1,2>1",
    "isinf": "inf,nan>1 nan,-inf>1 1,2>0 nan,nan>0",
    "isnan": "nan,inf>1 1,nan>1 inf,inf>0",
}

Number = tuple[float, bool]  # the number, and whether its sign is open


def number(text: str, x: float = 0.0, y: float = 0.0) -> Number:
    is_open = text.startswith("±")
    value = eval(
        text.lstrip("±"), {"inf": inf, "nan": nan, "pi": pi, "x": x, "y": y}
    )  # the tables of this file
    negative = text.startswith("-") and (math.isnan(value) or value == 0)
    return (
        math.copysign(value, -1.0 if negative else 1.0) if math.isnan(value) or value == 0 else float(value)
    ), is_open


def rows(text: str) -> list[tuple[list[float], list[Number]]]:
    out = []
    for row in text.split():
        left, right = row.split(">")
        operands = [number(t)[0] for t in left.split(",")]
        x, y = operands[0], operands[-1]
        out.append((operands, [number(t, x, y) for t in right.split(",")]))
    return out


def agrees(got: float, want: Number) -> bool:
    value, is_open = want
    if math.isnan(value):
        return math.isnan(got)
    if value == 0 or math.isinf(value):
        same = abs(got) == abs(value)
        return same and (is_open or math.copysign(1.0, got) == math.copysign(1.0, value))
    return math.isclose(got, value, rel_tol=1e-6)


def everywhere(name: str, *operands: tb.Tensor) -> list[tb.Tensor]:
    """The result, eager and recorded: the same bits."""
    eager = getattr(tb, name)(*operands)
    recorded, native = (tb.jit(getattr(tb, name), target=t)(*operands) for t in ("reference", "cpu"))
    assert eager.numpy().tobytes() == recorded.numpy().tobytes()
    return [eager, native]


def params(*tables: dict[str, str]) -> list[tuple[str, str]]:
    return [pair for t in tables for pair in t.items()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "text"), params(UNARY, UNARY_TRUTH))
def test_unary(name: str, text: str, dtype: str) -> None:
    cases = rows(text)
    x = tb.asarray([c[0][0] for c in cases], dtype=dtype)
    for out in everywhere(name, x):
        wrong = [
            (c, float(v)) for c, v in zip(cases, out.numpy(), strict=True) if not agrees(float(v), c[1][0])
        ]
        assert wrong == []
        assert out.dtype == (tb.bool if name in UNARY_TRUTH else x.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "text"), params(BINARY, BINARY_TRUTH))
def test_binary(name: str, text: str, dtype: str) -> None:
    cases = rows(text)
    x, y = (tb.asarray([c[0][i] for c in cases], dtype=dtype) for i in (0, 1))
    for out in everywhere(name, x, y):
        wrong = [
            (c, float(v)) for c, v in zip(cases, out.numpy(), strict=True) if not agrees(float(v), c[1][0])
        ]
        assert wrong == []


OPERATORS = {
    "add": "__iadd__",
    "subtract": "__isub__",
    "multiply": "__imul__",
    "divide": "__itruediv__",
    "pow": "__ipow__",
    "floor_divide": "__ifloordiv__",
    "remainder": "__imod__",
}


@pytest.mark.parametrize(("name", "operator"), OPERATORS.items())
def test_operators_and_their_in_place_forms(name: str, operator: str) -> None:
    cases = rows(BINARY[name])
    x, y = (tb.asarray([c[0][i] for c in cases], dtype="float32") for i in (0, 1))
    want = getattr(tb, name)(x, y).numpy().tobytes()
    assert getattr(x, operator.replace("__i", "__"))(y).numpy().tobytes() == want
    assert getattr(y, operator.replace("__i", "__r"))(x).numpy().tobytes() == want
    getattr(x, operator)(y)
    assert x.numpy().tobytes() == want


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("name", "text"), params(COMPLEX, COMPLEX_TRUTH))
def test_complex(name: str, text: str, dtype: str) -> None:
    cases = rows(text)
    array = np.empty(len(cases), dtype)
    array.real, array.imag = [c[0][0] for c in cases], [c[0][1] for c in cases]
    for out in everywhere(name, tb.asarray(array)):
        values = out.numpy()
        parts = [values.real, values.imag] if values.dtype.kind == "c" else [values]
        for i, c in enumerate(cases):
            got = [float(p[i]) for p in parts]
            assert all(agrees(g, w) for g, w in zip(got, c[1], strict=True)), (c, got)


def test_complex_addition_treats_its_parts_alone() -> None:
    x, y = (tb.asarray(np.array([v], np.complex64)) for v in (complex(-0.0, 0.0), complex(-0.0, -0.0)))
    out = (x + y).item()
    assert math.copysign(1, out.real) == -1 and math.copysign(1, out.imag) == 1


@pytest.mark.parametrize("args", [(0.0, 1.0), (None, 1.0), (0.0, None)])
def test_clip_keeps_nan(args: tuple[float | None, float | None]) -> None:
    x = tb.asarray([nan, -inf, inf, -0.0])
    low, high = args
    out = tb.clip(x, low, high).tolist()
    assert (
        math.isnan(out[0])
        and out[1] == (-inf if low is None else low)
        and out[2] == (inf if high is None else high)
    )


def test_clip_with_a_bound_that_is_nan() -> None:
    x = tb.asarray([1.0, 2.0])
    assert tb.all(tb.isnan(tb.clip(x, min=tb.asarray(nan))))
    assert tb.all(tb.isnan(tb.clip(x, max=tb.asarray([nan, nan]))))


REDUCED = {
    "sum": ("+0 nan", [[], [1.0, nan]]),
    "prod": ("1 nan", [[], [0.0, nan]]),
    "mean": ("nan nan", [[], [1.0, nan]]),
    "var": ("nan nan", [[], [nan, 1.0]]),
    "std": ("nan nan", [[], [nan, 1.0]]),
}


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_of_nothing_and_of_nan(name: str) -> None:
    text, inputs = REDUCED[name]
    for want, values in zip(text.split(), inputs, strict=True):
        for out in everywhere(name, tb.asarray(np.array(values, np.float32))):
            assert agrees(float(out), number(want))


def test_max_and_min_let_nan_win() -> None:
    x = tb.asarray([1.0, nan, inf, -inf])
    assert math.isnan(tb.max(x).item()) and math.isnan(tb.min(x).item())
    assert tb.argmax(x).item() == tb.argmin(x).item() == 1


def test_variance_of_fewer_elements_than_the_correction_is_not_a_number() -> None:
    assert math.isnan(tb.var(tb.asarray([3.0]), correction=1).item())
    assert math.isnan(tb.std(tb.asarray([3.0]), correction=2).item())


def test_all_and_any_of_nothing() -> None:
    empty = tb.zeros((0,), dtype=tb.bool)
    assert tb.all(empty).item() is True and tb.any(empty).item() is False
    assert tb.any(tb.asarray([nan])).item() is True
