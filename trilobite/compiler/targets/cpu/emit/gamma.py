"""lgamma, digamma and erf_inv, in double; floats widen and round once at the end.

The same forms and polynomials as the NumPy rules (ir/primitives/special_numpy), with every region computed
and the right one selected, so without branches. Near the roots on the negative axis the error is that of the
terms that cancel there.
"""

from __future__ import annotations

import math

from trilobite.compiler.targets.cpu.emit.circular import sin, tan
from trilobite.compiler.targets.cpu.emit.exponential import exp
from trilobite.compiler.targets.cpu.emit.logarithm import log, log1p
from trilobite.compiler.targets.cpu.emit.polynomial import INFINITY, NAN, estrin, horner, in_double
from trilobite.compiler.targets.cpu.emit.rounding import rint
from trilobite.compiler.targets.cpu.emit.special import erf, erfc
from trilobite.ir.primitives import special_numpy as numbers
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant

_STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(numbers.BERNOULLI[:9], start=1))
_PSI_FAR = tuple(b / (2 * k) for k, b in enumerate(numbers.BERNOULLI, start=1))


@in_double
def lgamma(t: Text, x: Value) -> Value:
    size = t.fabs(x)
    positive = _lgamma_positive(t, size)
    turns = t.fmul(t.fsub(size, rint(t, size)), math.pi)
    sine = t.fabs(sin(t, turns))
    reflected = t.fsub(t.fsub(math.log(math.pi), log(t, t.fmul(size, sine))), positive)
    out = t.select(t.fcmp("olt", x, 0.0), reflected, positive)
    return t.select(t.fcmp("oeq", size, INFINITY), size, out)


def _lgamma_positive(t: Text, x: Value) -> Value:
    """One logarithm and one polynomial around 2 serve all of x >= 0."""
    low, middle, far = (t.fcmp("olt", x, edge) for edge in (0.5, 1.5, 8.5))
    down, product = x, constant(x.type, 1.0)
    for _ in range(6):
        high = t.fcmp("oge", down, 2.5)
        down = t.select(high, t.fsub(down, 1.0), down)
        product = t.select(high, t.fmul(product, down), product)
    under = t.select(far, product, x)
    under = t.select(middle, x, under)
    under = t.select(low, t.fmul(x, t.fadd(x, 1.0)), under)
    logarithm = log(t, under)
    z = t.select(middle, t.fsub(x, 1.0), t.fsub(down, 2.0))
    z = t.select(low, x, z)
    near = t.fmul(z, estrin(t, z, numbers.LGAMMA))
    near = t.fadd(near, t.select(middle, t.fneg(logarithm), logarithm))
    r = t.fdiv(1.0, x)
    rest = t.fma(r, horner(t, t.fmul(r, r), _STIRLING), 0.5 * math.log(2 * math.pi) - 0.5)
    beyond = t.fma(t.fsub(x, 0.5), t.fsub(logarithm, 1.0), rest)
    return t.select(far, near, beyond)


@in_double
def digamma(t: Text, x: Value) -> Value:
    negative = t.fcmp("olt", x, 0.0)
    positive = _digamma_positive(t, t.select(negative, t.fsub(1.0, x), x))
    part = t.fsub(x, rint(t, x))
    turned = t.fsub(positive, t.fmul(_cotangent_of_pi(t, part), math.pi))
    whole = t.or_(t.fcmp("oeq", part, 0.0), t.fcmp("oeq", t.fabs(x), INFINITY))
    turned = t.select(whole, constant(x.type, NAN), turned)
    out = t.select(negative, turned, positive)
    pole = t.copysign(constant(x.type, INFINITY), t.fneg(x))
    return t.select(t.fcmp("oeq", x, 0.0), pole, out)


def _cotangent_of_pi(t: Text, part: Value) -> Value:
    """From whichever pole or root is nearer."""
    size = t.fabs(part)
    far = t.fcmp("ogt", size, 0.25)
    tangent = tan(t, t.fmul(t.select(far, t.fsub(0.5, size), size), math.pi))
    return t.copysign(t.select(far, tangent, t.fdiv(1.0, tangent)), part)


def _digamma_positive(t: Text, x: Value) -> Value:
    zero = constant(x.type, 0.0)
    low = t.fcmp("olt", x, 1.0)
    total = t.select(low, t.fdiv(-1.0, x), zero)
    down = t.select(low, t.fadd(x, 1.0), x)
    for _ in range(8):
        high = t.fcmp("oge", down, 2.0)
        down = t.select(high, t.fsub(down, 1.0), down)
        total = t.fadd(total, t.select(high, t.fdiv(1.0, down), zero))
    root, rest = numbers.DIGAMMA_ROOT
    slope = estrin(t, t.fma(down, 2.0, -3.0), numbers.DIGAMMA)
    near = t.fma(t.fsub(t.fsub(down, root), rest), slope, total)
    r = t.fdiv(1.0, x)
    square = t.fmul(r, r)
    series = t.fmul(square, horner(t, square, _PSI_FAR))
    beyond = t.fsub(t.fsub(log(t, x), t.fmul(r, 0.5)), series)
    return t.select(t.fcmp("olt", x, 10.0), near, beyond)


@in_double
def erf_inv(t: Text, x: Value) -> Value:
    """A first guess in powers of -log(1 - x²), then two steps of Halley's method."""
    size = t.fabs(x)
    rest = t.fsub(1.0, size)
    small = t.fmin(0.999, size)
    w = t.fneg(log1p(t, t.fneg(t.fmul(small, small))))
    near = t.fmul(size, horner(t, t.fmin(5.0, w), numbers.INVERSE_NEAR))
    root = t.sqrt(t.fneg(log(t, t.fmul(rest, t.fadd(size, 1.0)))))
    y = t.select(t.fcmp("olt", w, 5.0), near, t.fmul(root, horner(t, root, numbers.INVERSE_FAR)))
    for _ in range(2):
        y = _halley(t, y, size, rest)
    y = t.select(t.fcmp("oeq", size, 1.0), constant(x.type, INFINITY), y)
    y = t.select(t.fcmp("ule", size, 1.0), y, constant(x.type, NAN))
    return t.copysign(y, x)


def _halley(t: Text, y: Value, size: Value, rest: Value) -> Value:
    """On erf(y) = size, or erfc(y) = rest where that is the smaller number."""
    miss = t.select(t.fcmp("ole", size, 0.5), t.fsub(erf(t, y), size), t.fsub(rest, erfc(t, y)))
    slope = t.fmul(exp(t, t.fneg(t.fmul(y, y)), 0.0), 2 / math.sqrt(math.pi))
    step = t.fdiv(miss, slope)
    return t.fsub(y, t.fdiv(step, t.fma(y, step, 1.0)))
