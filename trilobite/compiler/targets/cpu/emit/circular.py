"""sin, cos, tan, and the inverse functions asin, acos, atan, atan2.

Circular functions: x = n·π/2 + r, then polynomials of r² for sine and cosine. The reduction is exact enough
for numbers below `_LIMIT`; larger ones (a branch that is hardly ever taken) are reduced lane by lane with as
many bits of 2/π as they need (Payne and Hanek, "Radian reduction for trigonometric functions", SIGNUM
Newsletter 18, 1983). Polynomials are fitted by tools/minimax.py.
"""

from __future__ import annotations

from math import pi

from trilobite.compiler.targets.cpu.emit import coefficients as c
from trilobite.compiler.targets.cpu.emit.polynomial import FLOAT, NAN, estrin, horner, precision, whole
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, element_of, lanes_of, width

_LIMIT = {32: 1e5, 64: 1e6}


def _near(t: Text, x: Value) -> list[Value]:
    """r and the bits of n, for numbers below the limit."""
    if precision(x) is FLOAT and not t.host.fma:
        r, n = _near(t, t.convert("fpext", x, "double"))
        return [t.convert("fptrunc", r, "float"), t.convert("trunc", n, "i32")]
    n, anchored = whole(t, x, 2 / pi)
    for part in c.HALF_PI_32 if precision(x) is FLOAT else c.HALF_PI_64:
        x = t.fma(n, -part, x)
    return [x, t.bits(anchored)]


def _far(t: Text, x: Value, large: Value) -> list[Value]:
    """The same where some lanes are above it."""
    _define_far(t)
    r, n = _near(t, x)
    lanes = lanes_of(x.type)
    far_r, far_n = r, n
    for lane in range(max(lanes, 1)):
        one = t.extract(x, lane) if lanes else x
        both = t.call("reduce_far", t.convert("fpext", one, "double"), result="<2 x i64>")
        own_r = t.as_float(t.extract(both, 0))
        own_r = t.convert("fptrunc", own_r, element_of(x.type)) if width(x.type) == 32 else own_r
        own_n = t.convert("trunc", t.extract(both, 1), element_of(n.type))
        far_r = t.insert(far_r, own_r, lane) if lanes else own_r
        far_n = t.insert(far_n, own_n, lane) if lanes else own_n
    return [t.select(large, far_r, r), t.select(large, far_n, n)]


def _define_far(t: Text) -> None:
    """reduce_far(x): bits of r, and n, for any double that is not small. NaN of infinity."""
    if not t.first("reduce_far"):
        return
    table = t.table("i64", [0, 0, *c.TWO_OVER_PI])
    with t.function("reduce_far", ["double"], "<2 x i64>") as (x,):
        bits = t.bits(t.fabs(x))
        mantissa = t.or_(t.and_(bits, (1 << 52) - 1), 1 << 52)
        # x = mantissa·2^e. Bits of 2/π above 2^(2-e) give multiples of 4; the table starts 128 zeros early.
        start = t.smax(t.add(t.sub(t.lshr(bits, 52), 1075), 126), 0)
        word, shift = t.lshr(start, 6), t.and_(start, 63)
        raw = [t.load_type("i64", t.address(table, t.mul(t.add(word, i), 8)), 8) for i in range(4)]
        window = [t.intrinsic("fshl", "i64", raw[i], raw[i + 1], shift) for i in range(3)]
        m = t.convert("zext", mantissa, "i128")
        high, middle, low = (t.mul(m, t.convert("zext", w, "i128")) for w in window)
        product = t.add(t.add(t.shl(high, 64), middle), t.lshr(low, 64))
        # Two bits of quarter turns, then the fraction; from one half on the next quarter is nearer.
        fraction = t.shl(product, 2)
        negative = t.icmp("slt", fraction, 0)
        quarter = t.convert("trunc", t.lshr(product, 126), "i64")
        n = t.add(quarter, t.convert("zext", negative, "i64"))
        size = t.select(negative, t.sub(0, fraction), fraction)
        zeros = t.intrinsic("ctlz", "i128", size, Value("false", "i1"))
        top = t.convert("trunc", t.lshr(t.shl(size, zeros), 64), "i64")
        scale = t.shl(t.sub(1023 - 64, t.convert("trunc", zeros, "i64")), 52)
        r = t.fmul(t.fmul(t.convert("uitofp", top, "double"), t.as_float(scale)), pi / 2)
        r = t.select(t.xor(negative, t.fcmp("olt", x, 0.0)), t.fneg(r), r)
        n = t.select(t.fcmp("olt", x, 0.0), t.sub(0, n), n)
        finite = t.fcmp("olt", t.fabs(x), float("inf"))
        r = t.select(finite, r, constant("double", NAN))
        out = t.insert(Value("poison", "<2 x i64>"), t.bits(r), 0)
        t.give_back(t.insert(out, n, 1))


def _reduced(t: Text, x: Value) -> tuple[Value, Value]:
    large = t.fcmp("ogt", t.fabs(x), _LIMIT[width(x.type)])
    r, n = t.either(t.any_lane(large), lambda: _far(t, x, large), lambda: _near(t, x))
    return r, n


def _sine_and_cosine(t: Text, r: Value) -> tuple[Value, Value]:
    z = t.fmul(r, r)
    double = precision(r) is not FLOAT
    sine = t.fma(t.fmul(r, z), horner(t, z, c.SIN_64 if double else c.SIN_32), r)
    rest = t.fmul(t.fmul(z, z), horner(t, z, c.COS_64 if double else c.COS_32))
    # 1 - z/2 is rounded; what is lost is added to the rest.
    half = t.fmul(z, 0.5)
    main = t.fsub(1.0, half)
    lost = t.fsub(t.fsub(1.0, main), half)
    return sine, t.fadd(main, t.fadd(lost, rest))


def _at(t: Text, r: Value, n: Value) -> Value:
    """The sine of r + n·π/2."""
    sine, cosine = _sine_and_cosine(t, r)
    chosen = t.select(t.icmp("ne", t.and_(n, 1), 0), cosine, sine)
    flip = t.shl(t.and_(n, 2), width(r.type) - 2)
    return t.as_float(t.xor(t.bits(chosen), flip))


def sin(t: Text, x: Value) -> Value:
    r, n = _reduced(t, x)
    return t.select(t.fcmp("oeq", x, 0.0), x, _at(t, r, n))  # of -0.0 it is -0.0


def cos(t: Text, x: Value) -> Value:
    r, n = _reduced(t, x)
    return _at(t, r, t.add(n, 1))


def tan(t: Text, x: Value) -> Value:
    r, n = _reduced(t, x)
    sine, cosine = _sine_and_cosine(t, r)
    odd = t.icmp("ne", t.and_(n, 1), 0)
    ratio = t.fdiv(t.select(odd, cosine, sine), t.select(odd, t.fneg(sine), cosine))
    return t.select(t.fcmp("oeq", x, 0.0), x, ratio)


# -- inverse functions -------------------------------------------------------------------------------------


def _atan_small(t: Text, x: Value) -> Value:
    z = t.fmul(x, x)
    rest = horner(t, z, c.ATAN_32) if precision(x) is FLOAT else estrin(t, z, c.ATAN_64)
    return t.fma(t.fmul(x, z), rest, x)


def _half_pi(x: Value) -> tuple[float, float]:
    """π/2 as a number of this format, and what that lacks."""
    high, low = c.HALF_PI_32[:2] if precision(x) is FLOAT else c.HALF_PI_WHOLE_64
    return high, low


def _angle(t: Text, above: Value, below: Value) -> Value:
    """atan(above/below) for sizes that are not negative, from 0 to π/2."""
    steep = t.fcmp("ogt", above, below)
    small, large = t.select(steep, below, above), t.select(steep, above, below)
    half, low = _half_pi(above)
    if precision(above) is FLOAT:
        angle = _atan_small(t, t.fdiv(small, large))
        return t.select(steep, t.fsub(half, t.fsub(angle, low)), angle)
    # Halve huge numbers, whose sum would overflow; the ratio does not change.
    scale = t.select(
        t.fcmp("ogt", large, 2.0**1000), constant(above.type, 2.0**-4), constant(above.type, 1.0)
    )
    small, large = t.fmul(small, scale), t.fmul(large, scale)
    middle = t.fcmp("ogt", small, t.fmul(large, 0.41421356237309503))
    ratio = t.fdiv(
        t.select(middle, t.fsub(small, large), small), t.select(middle, t.fadd(small, large), large)
    )
    angle = _atan_small(t, ratio)
    angle = t.select(middle, t.fadd(half / 2, t.fadd(angle, low / 2)), angle)
    return t.select(steep, t.fsub(half, t.fsub(angle, low)), angle)


def atan(t: Text, x: Value) -> Value:
    size = t.fabs(x)
    angle = _angle(t, size, constant(x.type, 1.0))
    angle = t.select(t.fcmp("oeq", size, float("inf")), constant(x.type, pi / 2), angle)
    return t.copysign(angle, x)


def atan2(t: Text, y: Value, x: Value) -> Value:
    inf = float("inf")
    a, b = t.fabs(y), t.fabs(x)
    # Both infinite or both zero: the ratio that the definition takes.
    both = t.and_(t.fcmp("oeq", a, inf), t.fcmp("oeq", b, inf))
    a, b = (t.select(both, constant(y.type, 1.0), v) for v in (a, b))
    none = t.and_(t.fcmp("oeq", a, 0.0), t.fcmp("oeq", b, 0.0))
    b = t.select(none, constant(y.type, 1.0), b)
    finite = t.fcmp("one", a, inf)
    angle = t.select(t.fcmp("oeq", b, inf), constant(y.type, 0.0), _angle(t, a, b))
    angle = t.select(t.or_(finite, t.fcmp("uno", a, b)), angle, constant(y.type, pi / 2))
    angle = t.select(t.fcmp("uno", y, x), t.fadd(x, y), angle)
    left = t.icmp("slt", t.bits(x), 0)
    half, low = _half_pi(y)
    turned = t.fsub(constant(y.type, 2 * half), t.fsub(angle, 2 * low))
    return t.copysign(t.select(left, turned, angle), y)


def _asin_small(t: Text, x: Value, z: Value) -> Value:
    rest = horner(t, z, c.ASIN_32) if precision(x) is FLOAT else estrin(t, z, c.ASIN_64)
    return t.fma(t.fmul(x, z), rest, x)


def _asin_parts(t: Text, x: Value) -> tuple[Value, Value]:
    """Whether |x| > 1/2, and asin of |x| or (if so) of √((1 - |x|)/2)."""
    size = t.fabs(x)
    large = t.fcmp("ogt", size, 0.5)
    z = t.select(large, t.fmul(t.fsub(1.0, size), 0.5), t.fmul(size, size))
    return large, _asin_small(t, t.select(large, t.sqrt(z), size), z)


def asin(t: Text, x: Value) -> Value:
    large, part = _asin_parts(t, x)
    half, low = _half_pi(x)
    far = t.fsub(half, t.fsub(t.fadd(part, part), low))
    return t.copysign(t.select(large, far, part), x)


def acos(t: Text, x: Value) -> Value:
    large, part = _asin_parts(t, x)
    half, low = _half_pi(x)
    doubled = t.fadd(part, part)
    left = t.fsub(2 * half, t.fsub(doubled, 2 * low))
    far = t.select(t.fcmp("olt", x, 0.0), left, doubled)
    near = t.fsub(half, t.fsub(t.copysign(part, x), low))
    return t.select(large, far, near)
