"""Functions of LLVM and of the C library that kernels call: what they mean in scalar instructions.

Exponentials, logarithms, sines and roots are instructions; everything else is built of them, in fp64 where
fp32 would lose digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from trilobite.processor.isa.formats import F32, F64, I64, Format
from trilobite.processor.lang.bang.lower.function import FunctionLowering
from trilobite.processor.lang.bang.lower.numbers import frexp, ilogb, ldexp, logb, modf
from trilobite.processor.lang.ir import Constant, Value

Rule = Callable[[FunctionLowering, Sequence[Value]], Value]


def _fmt(value: Value) -> Format:
    assert isinstance(value.type, Format)
    return value.type


def _op(f: FunctionLowering, opcode: str, *values: Value) -> Value:
    return f.builder.arithmetic(opcode, _fmt(values[0]), *values)


def _number(value: Value, number: float) -> Constant:
    return Constant(_fmt(value), number)


def _simple(opcode: str) -> Rule:
    return lambda f, a: _op(f, opcode, *a)


def _wide(rule: Rule) -> Rule:
    """Computed in fp64 and rounded once."""

    def computed(f: FunctionLowering, a: Sequence[Value]) -> Value:
        fmt = _fmt(a[0])
        wide = [v if v.type is F64 else f.builder.convert(v, F64) for v in a]
        made = rule(f, wide)
        return made if fmt is F64 else f.builder.convert(made, fmt)

    return computed


def trunc(f: FunctionLowering, a: Sequence[Value]) -> Value:
    x = a[0]
    down, up = _op(f, "floor", x), _op(f, "ceil", x)
    return f.builder.select(_op(f, "lt", x, _number(x, 0.0)), up, down)


def _round(f: FunctionLowering, a: Sequence[Value]) -> Value:
    """Ties away from zero; a number without fraction stays as it is."""
    x = a[0]
    size = _op(f, "abs", x)
    low = _op(f, "floor", size)
    up = _op(f, "ge", _op(f, "sub", size, low), _number(x, 0.5))
    near = f.builder.select(up, _op(f, "add", low, _number(x, 1.0)), low)
    return copysign(f, (near, x))


def _rint(f: FunctionLowering, a: Sequence[Value]) -> Value:
    """Ties to even."""
    x, b = a[0], f.builder
    low = _op(f, "floor", x)
    rest = _op(f, "sub", x, low)
    high = _op(f, "add", low, _number(x, 1.0))
    half = _op(f, "mul", low, _number(x, 0.5))
    odd = _op(f, "ne", half, _op(f, "floor", half))
    tie = b.select(odd, high, low)
    near = b.select(_op(f, "gt", rest, _number(x, 0.5)), high, low)
    return b.select(_op(f, "eq", rest, _number(x, 0.5)), tie, near)


def copysign(f: FunctionLowering, a: Sequence[Value]) -> Value:
    size, sign = a
    fmt = _fmt(size)
    b = f.builder
    bits = next(k for k in _signed_formats() if k.bits == fmt.bits)
    top = Constant(bits, -(1 << (bits.bits - 1)))
    rest = Constant(bits, (1 << (bits.bits - 1)) - 1)
    made = b.arithmetic("or", bits, b.arithmetic("and", bits, b.cast(size, bits), rest),
                        b.arithmetic("and", bits, b.cast(sign, bits), top))  # fmt: skip
    return b.cast(made, fmt)


def _signed_formats() -> tuple[Format, ...]:
    from trilobite.processor.isa.formats import I16, I32

    return (I16, I32, I64)


def remainder(f: FunctionLowering, left: Value, right: Value) -> Value:
    """fmod: a - trunc(a / b) b, in fp64."""

    def rule(f: FunctionLowering, a: Sequence[Value]) -> Value:
        whole = trunc(f, [_op(f, "div", a[0], a[1])])
        return _op(f, "sub", a[0], _op(f, "mul", whole, a[1]))

    return _wide(rule)(f, [left, right])


def _exp2(f: FunctionLowering, a: Sequence[Value]) -> Value:
    return _op(f, "exp", _op(f, "mul", a[0], _number(a[0], math.log(2.0))))


def _log_to(base: float) -> Rule:
    return lambda f, a: _op(f, "mul", _op(f, "log", a[0]), _number(a[0], 1.0 / math.log(base)))


def _pow(f: FunctionLowering, a: Sequence[Value]) -> Value:
    """|x|^y by logarithms; the sign by whether y is odd; x^0 = 1; a negative x to a broken power is NaN."""
    x, y = a
    b = f.builder
    size = _op(f, "exp", _op(f, "mul", y, _op(f, "log", _op(f, "abs", x))))
    whole = _op(f, "eq", y, _op(f, "floor", y))
    half = _op(f, "mul", y, _number(y, 0.5))
    odd = b.arithmetic("and", I64, whole, _op(f, "ne", half, _op(f, "floor", half)))
    negative = _op(f, "lt", x, _number(x, 0.0))
    signed = b.select(b.arithmetic("and", I64, negative, odd), _op(f, "neg", size), size)
    broken = b.arithmetic("and", I64, negative, b.arithmetic("xor", I64, whole, b.integer(1)))
    known = b.select(broken, _number(x, math.nan), signed)
    one = b.arithmetic("or", I64, _op(f, "eq", y, _number(y, 0.0)), _op(f, "eq", x, _number(x, 1.0)))
    return b.select(one, _number(x, 1.0), known)


def _powi(f: FunctionLowering, a: Sequence[Value]) -> Value:
    return _wide(_pow)(f, [a[0], f.builder.convert(a[1], _fmt(a[0]))])


def _tanh(f: FunctionLowering, a: Sequence[Value]) -> Value:
    """1 - 2 / (e^2x + 1)."""
    x = a[0]
    grown = _op(f, "add", _op(f, "exp", _op(f, "add", x, x)), _number(x, 1.0))
    return _op(f, "sub", _number(x, 1.0), _op(f, "div", _number(x, 2.0), grown))


def _hyperbolic(sign: str) -> Rule:
    def rule(f: FunctionLowering, a: Sequence[Value]) -> Value:
        up, down = _op(f, "exp", a[0]), _op(f, "exp", _op(f, "neg", a[0]))
        return _op(f, "mul", _op(f, sign, up, down), _number(a[0], 0.5))

    return rule


def _tan(f: FunctionLowering, a: Sequence[Value]) -> Value:
    return _op(f, "div", _op(f, "sin", a[0]), _op(f, "cos", a[0]))


def _erf(f: FunctionLowering, a: Sequence[Value]) -> Value:
    """Abramowitz and Stegun 7.1.28 in fp64: the error is below 3e-7."""
    x = a[0]
    size = _op(f, "abs", x)
    total: Value = _number(x, 0.0000430638)
    for factor in (0.0002765672, 0.0001520143, 0.0092705272, 0.0422820123, 0.0705230784, 1.0):
        total = _op(f, "add", _op(f, "mul", total, size), _number(x, factor))
    for _ in range(4):
        total = _op(f, "mul", total, total)
    return copysign(f, (_op(f, "sub", _number(x, 1.0), _op(f, "div", _number(x, 1.0), total)), x))


def _minimum(opcode: str) -> Rule:
    """fmin and fmax: a NaN gives way to the other."""

    def rule(f: FunctionLowering, a: Sequence[Value]) -> Value:
        b = f.builder
        first = b.arithmetic("or", I64, _op(f, opcode, a[0], a[1]), _op(f, "ne", a[1], a[1]))
        return b.select(first, a[0], a[1])

    return rule


def _hypot(f: FunctionLowering, a: Sequence[Value]) -> Value:
    return _op(f, "sqrt", _op(f, "add", _op(f, "mul", a[0], a[0]), _op(f, "mul", a[1], a[1])))


def _muladd(f: FunctionLowering, a: Sequence[Value]) -> Value:
    if _fmt(a[0]) in (F32, F64):
        return _op(f, "fma", *a)
    return _op(f, "add", _op(f, "mul", a[0], a[1]), a[2])


def _atan(f: FunctionLowering, a: Sequence[Value]) -> Value:
    """Of at most 1 (else pi/2 - atan 1/x): halved by atan x = 2 atan(x / (1 + sqrt(1 + x x))), its series."""
    b = f.builder
    size = _op(f, "abs", a[0])
    is_large = _op(f, "gt", size, _number(size, 1.0))
    x = b.select(is_large, _op(f, "div", _number(size, 1.0), size), size)
    for _ in range(3):
        root = _op(f, "sqrt", _op(f, "add", _op(f, "mul", x, x), _number(x, 1.0)))
        x = _op(f, "div", x, _op(f, "add", root, _number(x, 1.0)))
    square = _op(f, "mul", x, x)
    total: Value = _number(x, 1.0 / 17)
    for place in range(7, -1, -1):
        total = _op(f, "sub", _number(x, 1.0 / (2 * place + 1)), _op(f, "mul", total, square))
    angle = _op(f, "mul", _op(f, "mul", total, x), _number(x, 8.0))
    rest = _op(f, "sub", _number(x, math.pi / 2), angle)
    return copysign(f, (b.select(is_large, rest, angle), a[0]))


def _atan2(f: FunctionLowering, a: Sequence[Value]) -> Value:
    """The angle of (x, y) in its quadrant; also on the axes, in the origin and at infinity."""
    b, (y, x) = f.builder, a
    high, wide = _op(f, "abs", y), _op(f, "abs", x)
    slope = b.select(_op(f, "eq", high, wide), _number(x, 1.0), _op(f, "div", high, wide))
    angle = _atan(f, [b.select(_op(f, "eq", y, _number(y, 0.0)), high, slope)])
    is_left = _op(f, "lt", copysign(f, (_number(x, 1.0), x)), _number(x, 0.0))
    turned = b.select(is_left, _op(f, "sub", _number(x, math.pi), angle), angle)
    return copysign(f, (turned, y))


def _leg(f: FunctionLowering, x: Value) -> Value:
    """sqrt(1 - x x)."""
    one = _number(x, 1.0)
    return _op(f, "sqrt", _op(f, "mul", _op(f, "sub", one, x), _op(f, "add", one, x)))


def _asin(f: FunctionLowering, a: Sequence[Value]) -> Value:
    return _atan2(f, (a[0], _leg(f, a[0])))


def _acos(f: FunctionLowering, a: Sequence[Value]) -> Value:
    return _atan2(f, (_leg(f, a[0]), a[0]))


def _area(sign: float) -> Rule:
    """asinh and acosh: log(x + sqrt(x x + sign)), of |x| where it is odd."""

    def rule(f: FunctionLowering, a: Sequence[Value]) -> Value:
        x = _op(f, "abs", a[0]) if sign > 0 else a[0]
        root = _op(f, "sqrt", _op(f, "add", _op(f, "mul", x, x), _number(x, sign)))
        made = _op(f, "log", _op(f, "add", x, root))
        return copysign(f, (made, a[0])) if sign > 0 else made

    return rule


def _atanh(f: FunctionLowering, a: Sequence[Value]) -> Value:
    one = _number(a[0], 1.0)
    quotient = _op(f, "div", _op(f, "add", one, a[0]), _op(f, "sub", one, a[0]))
    return _op(f, "mul", _op(f, "log", quotient), _number(a[0], 0.5))


def _cbrt(f: FunctionLowering, a: Sequence[Value]) -> Value:
    """By logarithms, and one of Newton's steps; zero, infinities and NaN are their own roots."""
    b, x = f.builder, a[0]
    size = _op(f, "abs", x)
    root = _op(f, "exp", _op(f, "mul", _op(f, "log", size), _number(x, 1.0 / 3.0)))
    better = _op(f, "div", size, _op(f, "mul", root, root))
    made = _op(f, "mul", _op(f, "add", _op(f, "add", root, root), better), _number(x, 1.0 / 3.0))
    inside = _op(f, "lt", size, _number(x, math.inf))
    known = b.arithmetic("and", I64, inside, _op(f, "gt", size, _number(x, 0.0)))
    return b.select(known, copysign(f, (made, x)), x)


def _fdim(f: FunctionLowering, a: Sequence[Value]) -> Value:
    over = _op(f, "le", a[0], a[1])
    return f.builder.select(over, _number(a[0], 0.0), _op(f, "sub", a[0], a[1]))


def _nearest_remainder(f: FunctionLowering, a: Sequence[Value]) -> Value:
    whole = _rint(f, [_op(f, "div", a[0], a[1])])
    return _op(f, "sub", a[0], _op(f, "mul", whole, a[1]))


def _integer(rule: Rule) -> Rule:
    """lround and lrint: what the rule leaves has no fraction."""
    return lambda f, a: f.builder.convert(rule(f, a), I64, "rz")


def _sincos(f: FunctionLowering, a: Sequence[Value]) -> Value:
    x, sine, cosine = a
    f.builder.store(_fmt(x), _op(f, "sin", x), sine)
    f.builder.store(_fmt(x), _op(f, "cos", x), cosine)
    return x


def _expm1(f: FunctionLowering, a: Sequence[Value]) -> Value:
    return _op(f, "sub", _op(f, "exp", a[0]), _number(a[0], 1.0))


def _log1p(f: FunctionLowering, a: Sequence[Value]) -> Value:
    return _op(f, "log", _op(f, "add", a[0], _number(a[0], 1.0)))


RULES: dict[str, Rule] = {
    **{name: _simple(name) for name in ("sqrt", "exp", "log", "sin", "cos", "floor", "ceil")},
    **dict.fromkeys(("fmin", "minnum", "minimumnum"), _minimum("lt")),
    **dict.fromkeys(("fmax", "maxnum", "maximumnum"), _minimum("gt")),
    **dict.fromkeys(("rint", "nearbyint", "roundeven"), _rint),
    **dict.fromkeys(("fma", "fmuladd"), _muladd),
    "fabs": _simple("abs"), "exp2": _wide(_exp2), "log2": _wide(_log_to(2.0)), "log10": _wide(_log_to(10.0)),
    "pow": _wide(_pow), "powi": _powi, "trunc": trunc, "round": _round, "copysign": copysign,
    "tanh": _wide(_tanh), "sinh": _wide(_hyperbolic("sub")), "cosh": _wide(_hyperbolic("add")),
    "tan": _wide(_tan), "erf": _wide(_erf), "hypot": _wide(_hypot), "atan": _wide(_atan),
    "atan2": _wide(_atan2), "fmod": lambda f, a: remainder(f, a[0], a[1]), "rsqrt": _simple("rsqrt"),
    "expm1": _wide(_expm1), "log1p": _wide(_log1p), "asin": _wide(_asin), "acos": _wide(_acos),
    "asinh": _wide(_area(1.0)), "acosh": _wide(_area(-1.0)), "atanh": _wide(_atanh), "cbrt": _wide(_cbrt),
    "fdim": _fdim, "remainder": _wide(_nearest_remainder), "sincos": _sincos,
    **dict.fromkeys(("lround", "llround"), _integer(_round)),
    **dict.fromkeys(("lrint", "llrint"), _integer(_rint)),
    **dict.fromkeys(("ldexp", "scalbn", "scalbln"), ldexp),
    "frexp": frexp, "modf": modf, "ilogb": ilogb, "logb": logb,
}  # fmt: skip


def library_rule(name: str) -> Rule | None:
    """The rule of a C function (`sinf`, `pow`) or of `llvm.sin.f32`."""
    if name.startswith("llvm."):
        return RULES.get(name.split(".")[1])
    return RULES.get(name) or (RULES.get(name[:-1]) if name.endswith("f") else None)
