"""Elementwise operations that are one primitive each, as a table: name, primitive, dtypes it takes, method
names.
"""

from __future__ import annotations

from trilobite.framework.ops.meeting import (
    ANY,
    BITS,
    INEXACTS,
    INTEGRAL,
    NUMERIC,
    ORDERED,
    REAL,
    REAL_FLOATS,
    binary,
    unary,
)  # fmt: skip
from trilobite.framework.ops.registry import alias
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

p = table

# -- arithmetic ------------------------------------------------------------------------------------------

add = binary(
    "add", p["add"], NUMERIC, methods=("add", "__add__"), bools=p["or"], doc="x1 + x2; of booleans, or"
)
subtract = binary("subtract", p["sub"], NUMERIC, methods=("sub", "subtract", "__sub__"), doc="x1 - x2")
multiply = binary(
    "multiply",
    p["mul"],
    NUMERIC,
    methods=("mul", "multiply", "__mul__"),
    bools=p["and"],
    doc="x1 * x2; of booleans, and",
)
divide = binary(
    "divide", p["div"], INEXACTS, methods=("div", "divide", "true_divide", "__truediv__"),
    doc="x1 / x2; integers are divided as default floats",
)  # fmt: skip
pow = binary("pow", p["pow"], NUMERIC, methods=("pow", "__pow__"))
remainder = binary("remainder", p["rem"], REAL, methods=("remainder", "__mod__"))


def _floor_divide(x: Value, y: Value) -> Value:
    """floor(x / y) also where one of them is infinite; there the paired definition through the remainder
    gives NaN.
    """
    if x.dtype not in REAL_FLOATS.direct:
        return p["floor_div"](x, y)
    finite = p["and"](p["is_finite"](x), p["is_finite"](y))
    return p["select"](finite, p["floor_div"](x, y), p["floor"](p["div"](x, y)))


floor_divide = binary(
    "floor_divide", p["floor_div"], REAL, _floor_divide, methods=("floor_divide", "__floordiv__"),
    doc="the largest whole number that is not above x1 / x2; for integers 0 where x2 is 0",
)  # fmt: skip
maximum = binary("maximum", p["maximum"], ORDERED)
minimum = binary("minimum", p["minimum"], ORDERED)
hypot = binary("hypot", p["hypot"], REAL_FLOATS)
atan2 = binary("atan2", p["atan2"], REAL_FLOATS, doc="the angle of the point (x2, x1), from -π to π")
copysign = binary("copysign", p["copysign"], REAL_FLOATS, doc="|x1| with the sign of x2")
nextafter = binary(
    "nextafter", p["nextafter"], REAL_FLOATS, doc="the number next to x1 in the direction of x2"
)
logaddexp = binary("logaddexp", p["logaddexp"], REAL_FLOATS, doc="log(exp(x1) + exp(x2)) without overflow")

# -- comparison ------------------------------------------------------------------------------------------

equal = binary("equal", p["eq"], ANY, methods=("eq", "__eq__"), doc="x1 == x2, element by element")
not_equal = binary(
    "not_equal", p["ne"], ANY, methods=("ne", "not_equal", "__ne__"), doc="x1 != x2, element by element"
)
less = binary("less", p["lt"], ORDERED, methods=("lt", "less", "__lt__"), doc="x1 < x2, element by element")
less_equal = binary(
    "less_equal", p["le"], ORDERED, methods=("le", "less_equal", "__le__"), doc="x1 <= x2, element by element"
)
greater = binary(
    "greater", p["gt"], ORDERED, methods=("gt", "greater", "__gt__"), doc="x1 > x2, element by element"
)
greater_equal = binary(
    "greater_equal",
    p["ge"],
    ORDERED,
    methods=("ge", "greater_equal", "__ge__"),
    doc="x1 >= x2, element by element",
)

# -- bits ------------------------------------------------------------------------------------------------

bitwise_and = binary("bitwise_and", p["and"], BITS, methods=("bitwise_and", "__and__"))
bitwise_or = binary("bitwise_or", p["or"], BITS, methods=("bitwise_or", "__or__"))
bitwise_xor = binary("bitwise_xor", p["xor"], BITS, methods=("bitwise_xor", "__xor__"))
bitwise_left_shift = binary(
    "bitwise_left_shift", p["shift_left"], INTEGRAL, methods=("bitwise_left_shift", "__lshift__")
)
bitwise_right_shift = binary(
    "bitwise_right_shift", p["shift_right"], INTEGRAL, methods=("bitwise_right_shift", "__rshift__")
)
bitwise_invert = unary(
    "bitwise_invert", p["not"], BITS, methods=("bitwise_invert", "bitwise_not", "__invert__")
)
bitwise_count = unary("bitwise_count", p["popcount"], INTEGRAL)

# -- exponentials and powers -----------------------------------------------------------------------------

exp = unary("exp", p["exp"], INEXACTS, doc="e to the x")
exp2 = unary("exp2", p["exp2"], INEXACTS)


def _expm1(x: Value) -> Value:
    """Of complex infinities, by exp(x) - 1, which knows them; elsewhere accurate. A real part of 0 is +0."""
    one = p["full"](shape=x.shape, dtype=x.dtype, value=1)
    out = p["select"](p["is_finite"](x), p["expm1"](x), p["sub"](p["exp"](x), one))
    re = p["real"](out)
    return p["complex"](p["add"](re, p["full"](shape=re.shape, dtype=re.dtype, value=0.0)), p["imag"](out))


expm1 = unary("expm1", p["expm1"], INEXACTS, _expm1, doc="exp(x) - 1, accurate near 0")
log = unary("log", p["log"], INEXACTS, doc="the natural logarithm")
log2 = unary("log2", p["log2"], INEXACTS, doc="the logarithm to base 2")
log10 = unary("log10", p["log10"], INEXACTS, doc="the logarithm to base 10")
log1p = unary("log1p", p["log1p"], INEXACTS, doc="log(1 + x), accurate near 0")
sqrt = unary("sqrt", p["sqrt"], INEXACTS, doc="the square root")
rsqrt = unary("rsqrt", p["rsqrt"], INEXACTS)

# -- trigonometry ----------------------------------------------------------------------------------------

sin = unary("sin", p["sin"], INEXACTS)
cos = unary("cos", p["cos"], INEXACTS)
tan = unary("tan", p["tan"], INEXACTS)
asin = unary("asin", p["asin"], INEXACTS, doc="the inverse of the sine")
acos = unary("acos", p["acos"], INEXACTS, doc="the inverse of the cosine")
atan = unary("atan", p["atan"], INEXACTS, doc="the inverse of the tangent")
sinh = unary("sinh", p["sinh"], INEXACTS)
cosh = unary("cosh", p["cosh"], INEXACTS)
tanh = unary("tanh", p["tanh"], INEXACTS)
asinh = unary("asinh", p["asinh"], INEXACTS, doc="the inverse of the hyperbolic sine")
acosh = unary("acosh", p["acosh"], INEXACTS, doc="the inverse of the hyperbolic cosine")
atanh = unary("atanh", p["atanh"], INEXACTS, doc="the inverse of the hyperbolic tangent")

# -- sign, rounding, classification ----------------------------------------------------------------------

negative = unary("negative", p["neg"], NUMERIC, methods=("neg", "negative", "__neg__"), doc="-x")
abs = unary("abs", p["abs"], NUMERIC, methods=("abs", "__abs__"))
sign = unary("sign", p["sign"], NUMERIC, methods=("sign", "sgn"))
signbit = unary("signbit", p["signbit"], REAL_FLOATS)
floor = unary("floor", p["floor"], REAL, doc="rounded down to a whole number")
ceil = unary("ceil", p["ceil"], REAL, doc="rounded up to a whole number")
trunc = unary(
    "trunc", p["trunc"], REAL, methods=("trunc", "fix"), doc="rounded towards zero to a whole number"
)
isfinite = unary("isfinite", p["is_finite"], ANY)
isnan = unary("isnan", p["is_nan"], ANY, doc="is it NaN?")
isinf = unary("isinf", p["is_inf"], ANY, doc="is it infinite?")

# -- special functions -----------------------------------------------------------------------------------

erf = unary("erf", p["erf"], REAL_FLOATS, doc="the error function")
erfc = unary("erfc", p["erfc"], REAL_FLOATS, doc="1 - erf(x), accurate for large x")
erfinv = unary("erfinv", p["erf_inv"], REAL_FLOATS, doc="the inverse of the error function")
lgamma = unary("lgamma", p["lgamma"], REAL_FLOATS, doc="the logarithm of |Γ(x)|")
digamma = unary("digamma", p["digamma"], REAL_FLOATS, doc="the derivative of the logarithm of Γ")

# -- as PyTorch calls them ---------------------------------------------------------------------------------

_SHORT = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative", "absolute": "abs",
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}  # fmt: skip
for _short, _name in _SHORT.items():
    alias(_short, _name)
