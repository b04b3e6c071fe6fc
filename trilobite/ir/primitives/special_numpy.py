"""The special functions over NumPy arrays: erf, erfc, erf_inv, lgamma, digamma, polygamma.

Enters: a float32 or float64 array. Leaves: the values, in float64 a few units in the last place from the
truth (near the roots of lgamma and digamma on the negative axis: a few units of the terms that cancel there).
float32 is computed in float64 and rounded, except erf, which networks use in their inner loops: it has a
float32 form of its own.

The polynomials are Chebyshev interpolants, computed with 40 digits, of functions chosen to be smooth where
they are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
BLOCK = 8192  # elements that stay in the cache while twenty operations pass over them

# erf(x)/x in powers of x², for |x| < 1
ERF = (
    1.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.02686617064512984,
    0.0052239776254232985, -0.000854832702193483, 0.00012055332902888736, -1.4925647567519332e-05,
    1.6462045441468418e-06, -1.6364642158167616e-07, 1.4792401209404813e-08, -1.216456005728345e-09,
    8.709045129053106e-11, -4.230945824295338e-12,
)  # fmt: skip
# (x + 1/2)·exp(x²)·erfc(x) in powers of 1 - 9/(x + 4), for x ≥ 1/2
TAIL = (
    0.6088755075318775, -0.05963135376128466, 0.012539584219251306, 0.011632963378194593,
    -0.018612299782541468, 0.016092272802489583, -0.01047391664929922, 0.00545296742110028,
    -0.0022646235763969977, 0.0007097108851956583, -0.00013697033226928282, -3.604504109486936e-06,
    1.2936241821030962e-05, -3.731832366287186e-06, -1.9077318291318011e-07, 4.2563760493516327e-07,
    -7.586959174578771e-08, -3.1770206884196086e-08, 1.4914494505676392e-08, 1.2887902329329625e-09,
    -2.4335615271843293e-09, 1.763679269530445e-10, 4.369714826515664e-10, -4.4361313650107356e-11,
    -5.7232161651347365e-11,
)  # fmt: skip
# The same for float32: erf(x)/x in powers of x² for |x| < 1, log erfc(x) in powers of x for 1 ≤ x ≤ 4
ERF_SINGLE = (
    1.128379167, -0.3761263847, 0.112837825, -0.02686543073, 0.005221031808, -0.0008484080406,
    0.0001126595903, -9.667044571e-06,
)  # fmt: skip
LOG_ERFC_SINGLE = (
    0.0003201380497, -1.130233435, -0.6318260516, -0.1100800829, 0.02642113601, -0.004759596293,
    0.0005968056257, -4.605804269e-05, 1.637151415e-06,
)  # fmt: skip
# First guesses: erf_inv(x)/x in powers of w = -log(1 - x²), up to w = 5; beyond, erf_inv(x)/√w in powers of √
INVERSE_NEAR = (
    0.8862267859, 0.2320181829, 0.0115254312, -0.002286782851, -0.000176159183, 7.257810853e-05,
    -5.487665817e-06, -1.098948458e-07, 2.260597774e-08,
)  # fmt: skip
INVERSE_FAR = (
    0.927149635979, -0.094455894055, 0.0969900190191, -0.0393583036146, 0.00884764207622,
    -0.00115761934865, 8.28402978619e-05, -2.51450866648e-06,
)  # fmt: skip
# lgamma(2 + z)/z in powers of z, for |z| ≤ 1/2
LGAMMA = (
    0.42278433509846713, 0.3224670334241132, -0.06735230105319814, 0.02058080842778457,
    -0.0073855510286681535, 0.002890510330738737, -0.0011927539120010226, 0.0005096695248853096,
    -0.00022315475074520367, 9.945750909889392e-05, -4.4926351103833334e-05, 2.050726741605779e-05,
    -9.438458716242811e-06, 4.374374916915131e-06, -2.0449201467015115e-06, 9.578663334114758e-07,
    -4.303558760359961e-07, 2.0304806751615227e-07, -1.3412819758517287e-07, 6.379047507619774e-08,
)  # fmt: skip
# digamma(x)/(x - root) in powers of 2x - 3, for 1 ≤ x ≤ 2; the root in two parts
DIGAMMA = (
    0.9510558760318328, -0.21181371064073024, 0.06013562106019684, -0.018550615381739702,
    0.005936795278301875, -0.0019350666647392832, 0.0006368880303847901, -0.00021074841284590126,
    6.99501882655044e-05, -2.325823275895313e-05, 7.741234441368395e-06, -2.578133701610713e-06,
    8.589062683365892e-07, -2.8621216825577647e-07, 9.543261570760428e-08, -3.1807298477301726e-08,
    1.0528133851878114e-08, -3.509235492410718e-09, 1.2466690231864029e-09, -4.1555064115551965e-10,
    8.748420037436287e-11, -2.9161179626023815e-11, 2.916093601085364e-11, -9.720300404202244e-12,
)  # fmt: skip
DIGAMMA_ROOT = (1.4616321449683622, 9.549995429965697e-17)
BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """Horner's rule, lowest power first in the list."""
    out = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        out *= x
        out += c
    return out


def blockwise(fn: Callable[..., Array]) -> Callable[..., Array]:
    """A function of flat blocks as a function of arrays."""

    def whole(x: Array, *args: Any) -> Array:
        flat = np.ascontiguousarray(x).reshape(-1)
        out = np.empty_like(flat)
        for i in range(0, flat.size, BLOCK):
            out[i : i + BLOCK] = fn(flat[i : i + BLOCK], *args)
        return out.reshape(x.shape)

    vars(whole)["block"] = fn  # for who puts the same calls in a row (framework/replay/block_rules.py)
    return whole


def in_double(fn: Callable[..., Array]) -> Callable[..., Array]:
    """A float64 function for float32 arrays too."""

    def widened(of: Callable[..., Array]) -> Callable[..., Array]:
        return lambda x, *args: of(x.astype(np.float64, copy=False), *args).astype(x.dtype, copy=False)

    whole = widened(fn)
    vars(whole)["block"] = widened(vars(fn)["block"])
    return whole


def by_region(x: Array, out: Array, region: Array, fn: Callable[[Array], Array]) -> None:
    """out[region] = fn(x[region]), with nothing done for an empty region."""
    if region.any():
        out[region] = fn(x[region])


# -- the error function ------------------------------------------------------------------------------------


def _tail(x: Array) -> Array:
    """erfc(x) for x ≥ 1/2. The square is split, so that its rounding does not become an error of the
    exponential.
    """
    x = np.minimum(x, 40.0)
    head = x.astype(np.float32).astype(np.float64)
    decay = np.exp(-head * head) * np.exp((head - x) * (head + x))
    out: Array = decay * polynomial(1 - 9 / (x + 4), TAIL) / (x + 0.5)
    return out


def _erf(x: Array) -> Array:
    if x.dtype == np.float32:
        return _erf_single(x)
    size = np.abs(x)
    out = x * polynomial(np.minimum(x * x, 1), ERF)
    by_region(x, out, ~(size < 1), lambda v: np.copysign(1 - _tail(np.abs(v)), v))
    return out


def _erf_single(x: Array) -> Array:
    size = np.abs(x)
    near = x * polynomial(np.minimum(x * x, np.float32(1)), ERF_SINGLE)
    far = 1 - np.exp(polynomial(np.clip(size, np.float32(1), np.float32(4)), LOG_ERFC_SINGLE))
    return np.where(size < 1, near, np.copysign(far, x))


def _erfc(x: Array) -> Array:
    out = 1 - _erf(np.minimum(x, 0.5))
    by_region(x, out, ~(x < 0.5), _tail)
    return out


def _halley(y: Array, size: Array, rest: Array) -> Array:
    """One step of Halley's method on erf(y) = size, or erfc(y) = rest where that is the smaller number."""
    miss = np.where(size <= 0.5, _erf(y) - size, rest - _erfc(y))
    step = miss / (2 / math.sqrt(math.pi) * np.exp(-y * y))
    out: Array = y - step / (1 + y * step)
    return out


def _erf_inv_far(size: Array) -> Array:
    rest = 1 - size
    root = np.sqrt(-np.log(rest * (1 + size)))
    y = root * polynomial(root, INVERSE_FAR)
    return _halley(_halley(y, size, rest), size, rest)


def _erf_inv(x: Array) -> Array:
    size = np.abs(x)
    w = -np.log1p(-(np.minimum(size, 0.999) ** 2))
    near = size * polynomial(np.minimum(w, 5.0), INVERSE_NEAR)
    out = _halley(near, size, 1 - size)
    by_region(size, out, (w >= 5) & (size < 1), _erf_inv_far)
    out[size == 1] = np.inf
    out[~(size <= 1)] = np.nan
    return np.copysign(out, x)


# -- the gamma function ------------------------------------------------------------------------------------


def _lgamma(x: Array) -> Array:
    size = np.abs(x)
    out = _lgamma_positive(size)
    by_region(x, out, x < 0, _lgamma_reflected)
    out[size == np.inf] = np.inf
    return out


def _lgamma_positive(x: Array) -> Array:
    """For x ≥ 0 (NaN passes)."""
    out = np.empty_like(x)
    by_region(x, out, x < 0.5, lambda v: _around_two(v) - np.log1p(v) - np.log(v))
    by_region(x, out, (x >= 0.5) & (x < 1.5), lambda v: _around_two(v - 1) - np.log1p(v - 1))
    by_region(x, out, (x >= 1.5) & (x < 8.5), _lgamma_middle)
    by_region(x, out, ~(x < 8.5), _stirling)
    return out


def _around_two(z: Array) -> Array:
    return z * polynomial(z, LGAMMA)


def _lgamma_middle(x: Array) -> Array:
    """Down to 1.5 ≤ x < 2.5 by gamma(x) = (x - 1)·gamma(x - 1)."""
    product = np.ones_like(x)
    for _ in range(6):
        high = x >= 2.5
        x = np.where(high, x - 1, x)
        product = np.where(high, product * x, product)
    return _around_two(x - 2) + np.log(product)


def _stirling(x: Array) -> Array:
    r = 1 / x
    series = polynomial(r * r, [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:9], start=1)])
    out: Array = (x - 0.5) * (np.log(x) - 1) + (0.5 * math.log(2 * math.pi) - 0.5 + r * series)
    return out


def _sine_of_pi(x: Array) -> Array:
    """|sin πx|, exactly 0 at whole numbers."""
    return np.abs(np.sin(np.pi * (x - np.rint(x))))


def _cotangent_of_pi(part: Array) -> Array:
    """cot πx for |x| ≤ 1/2, from whichever pole or root is nearer."""
    far = np.copysign(np.tan(np.pi * (0.5 - np.abs(part))), part)
    return np.where(np.abs(part) > 0.25, far, 1 / np.tan(np.pi * part))


def _lgamma_reflected(x: Array) -> Array:
    size = -x
    out: Array = math.log(math.pi) - np.log(size * _sine_of_pi(size)) - _lgamma_positive(size)
    return out


def _digamma(x: Array) -> Array:
    out = np.empty_like(x)
    by_region(x, out, (x >= 0) & (x < 1), lambda v: _digamma_one_to_two(v + 1) - 1 / v)
    by_region(x, out, (x >= 1) & (x < 10), _digamma_middle)
    by_region(x, out, ~(x < 10), _digamma_far)
    by_region(x, out, x < 0, _digamma_reflected)
    out[x == 0] = np.copysign(np.inf, -x[x == 0])
    return out


def _digamma_one_to_two(x: Array) -> Array:
    high, low = DIGAMMA_ROOT
    return ((x - high) - low) * polynomial(2 * x - 3, DIGAMMA)


def _digamma_middle(x: Array) -> Array:
    total = np.zeros_like(x)
    for _ in range(8):
        high = x >= 2
        x = np.where(high, x - 1, x)
        total = np.where(high, total + 1 / x, total)
    return _digamma_one_to_two(x) + total


def _digamma_far(x: Array) -> Array:
    r = 1 / x
    series = polynomial(r * r, [b / (2 * k) for k, b in enumerate(BERNOULLI, start=1)])
    return np.log(x) - r / 2 - r * r * series


def _digamma_reflected(x: Array) -> Array:
    part = x - np.rint(x)
    out = _digamma(1 - x) - np.pi * _cotangent_of_pi(part)
    return np.where((part == 0) | np.isinf(x), np.nan, out)


# -- polygamma ---------------------------------------------------------------------------------------------


def _polygamma(x: Array, order: int) -> Array:
    out = np.empty_like(x)
    by_region(x, out, ~(x < 0.5), lambda v: _polygamma_positive(v, order))
    by_region(x, out, x < 0.5, lambda v: _polygamma_reflected(v, order))
    return out


def _polygamma_positive(x: Array, order: int) -> Array:
    """(-1)^(n+1)·n!·Σ 1/(x + k)^(n+1): terms up to x ≥ start one by one, the rest by Euler and Maclaurin."""
    start, power = 12 + order, order + 1
    total = np.zeros_like(x)
    for _ in range(start):
        low = x < start
        total = np.where(low, total + x**-power, total)
        x = np.where(low, x + 1, x)
    r = 1 / x
    tail, factor, decay = 1 / order + r / 2, 1.0, np.ones_like(x)
    for k, b in enumerate(BERNOULLI, start=1):
        rising = power if k == 1 else (power + 2 * k - 3) * (power + 2 * k - 2)
        factor *= rising / (2 * k * (2 * k - 1))
        decay = decay * r * r
        tail = tail + b * factor * decay
    sign = 1.0 if order % 2 else -1.0
    return sign * math.factorial(order) * (total + tail * r**order)


@cache
def _cotangent_derivative(order: int) -> tuple[float, ...]:
    """The n-th derivative of cot, as a polynomial of cot: each one is -(1 + c²) times the slope of the one
    before.
    """
    coefficients = [0, 1]
    for _ in range(order):
        slope = [k * c for k, c in enumerate(coefficients)][1:]
        coefficients = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return tuple(float(c) for c in coefficients)


def _polygamma_reflected(x: Array, order: int) -> Array:
    part = x - np.rint(x)
    bend = math.pi ** (order + 1) * polynomial(_cotangent_of_pi(part), _cotangent_derivative(order))
    sign = -1.0 if order % 2 else 1.0
    out = sign * _polygamma_positive(1 - x, order) - bend
    pole = np.inf if order % 2 else np.nan  # odd orders rise to infinity from both sides
    return np.where((part == 0) | np.isinf(x), np.where(np.isinf(x), np.nan, pole), out)


erf = blockwise(_erf)
erfc = in_double(blockwise(_erfc))
erf_inv = in_double(blockwise(_erf_inv))
lgamma = in_double(blockwise(_lgamma))
digamma = in_double(blockwise(_digamma))
polygamma = in_double(blockwise(_polygamma))
