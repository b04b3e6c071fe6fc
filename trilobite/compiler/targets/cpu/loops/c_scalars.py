"""Scalar primitives as C expressions, and the small functions they call. One table row per primitive.

Numbers are held as their C types; float16 and bfloat16 as float, rounded after every operation. Signed
integers wrap around by going through unsigned ones, so nothing here is undefined in C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilobite.base.dtypes import (
    SMALL_FLOATS,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    is_float,
    is_integer,
    is_signed,
)
from trilobite.base.errors import DTypeError
from trilobite.ir.graph import Equation
from trilobite.ir.primitives.common import integer_range

REGISTER = {bool_: "bool", float32: "float", float64: "double", float16: "float", bfloat16: "float"}
MEMORY = {bool_: "uint8_t", float32: "float", float64: "double", float16: "_Float16", bfloat16: "uint16_t"}

PRELUDE = """\
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float bf16_read(uint16_t b) {
    uint32_t w = (uint32_t)b << 16; float x;
    memcpy(&x, &w, 4);
    return x;
}
static inline uint16_t bf16_write(float x) {
    uint32_t w; memcpy(&w, &x, 4);
    if (x != x) return (uint16_t)(w >> 16 | 0x40);
    return (uint16_t)((w + 0x7fff + (w >> 16 & 1)) >> 16);
}
static inline int64_t rem_i(int64_t x, int64_t y) { /* has the sign of y */
    if (y == 0 || y == -1) return 0;
    int64_t r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static inline int64_t floor_div_i(int64_t x, int64_t y) {
    if (y == 0) return 0;
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y - (x % y != 0 && (x < 0) != (y < 0));
}
static inline uint64_t rem_u(uint64_t x, uint64_t y) { return y ? x % y : 0; }
static inline uint64_t floor_div_u(uint64_t x, uint64_t y) { return y ? x / y : 0; }
static inline double rem_f(double x, double y) {
    double r = fmod(x, y);
    if (r == 0) return copysign(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}
static inline double floor_div_f(double x, double y) {
    if (y == 0) return x / y;
    double r = fmod(x, y), q = (x - r) / y;
    if (r != 0 && (r < 0) != (y < 0)) q -= 1;
    if (q == 0) return copysign(0, x / y);
    return floor(q) + (q - floor(q) > 0.5);
}
static inline float rem_ff(float x, float y) {
    float r = fmodf(x, y);
    if (r == 0) return copysignf(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}
static inline float floor_div_ff(float x, float y) {
    if (y == 0) return x / y;
    float r = fmodf(x, y), q = (x - r) / y;
    if (r != 0 && (r < 0) != (y < 0)) q -= 1;
    if (q == 0) return copysignf(0, x / y);
    return floorf(q) + (q - floorf(q) > 0.5f);
}
static inline double logaddexp(double x, double y) {
    return x == y ? x + 0.6931471805599453 : fmax(x, y) + log1p(exp(-fabs(x - y)));
}
static inline float logaddexpf(float x, float y) {
    return x == y ? x + 0.6931472f : fmaxf(x, y) + log1pf(expf(-fabsf(x - y)));
}
static inline int64_t popcount(uint64_t x) {
    int64_t n = 0;
    for (; x; x &= x - 1) n++;
    return n;
}
static inline int64_t width(uint64_t x) { /* bits up to the highest that is set */
    int64_t n = 0;
    for (; x; x >>= 1) n++;
    return n;
}
"""

Words = Sequence[str]
Rule = Callable[[Words, DType], str]


def register_word(dtype: DType) -> str:
    """The C type that computes a dtype."""
    return REGISTER.get(dtype) or _integer_word(dtype)


def memory_word(dtype: DType) -> str:
    return MEMORY.get(dtype) or _integer_word(dtype)


def _integer_word(dtype: DType) -> str:
    if not is_integer(dtype) or dtype.kind not in "iu":
        raise DTypeError(
            f"there is no C type for {dtype}",
            where="emitting C",
            expected="bool, integers of 8 to 64 bits, bfloat16, float16, float32 or float64",
            remedy="read the loops or the LLVM text of this kernel instead",
        )
    return f"{'' if is_signed(dtype) else 'u'}int{8 * dtype.itemsize}_t"


def read(dtype: DType, place: str) -> str:
    """An element of memory as the C type that computes it."""
    if dtype == bfloat16:
        return f"bf16_read({place})"
    return f"({place} != 0)" if dtype == bool_ else f"(float){place}" if dtype == float16 else place


def written(dtype: DType, word: str) -> str:
    if dtype == bfloat16:
        return f"bf16_write({word})"
    return f"(_Float16){word}" if dtype == float16 else word


def rounded(dtype: DType, word: str) -> str:
    """A float as its dtype would hold it."""
    if dtype == bfloat16:
        return f"bf16_read(bf16_write({word}))"
    return f"(float)(_Float16)({word})" if dtype == float16 else word


def number(value: float | int | bool, dtype: DType) -> str:
    if dtype == bool_:
        return "true" if value else "false"
    if is_float(dtype):
        return _float_number(float(value), dtype)
    low, _ = integer_range(dtype)
    if int(value) == low and dtype.itemsize == 8 and low < 0:
        return "INT64_MIN"
    suffix = "" if dtype.itemsize < 8 else "ULL" if low == 0 else "LL"
    return f"({register_word(dtype)}){int(value)}{suffix}"


def _float_number(value: float, dtype: DType) -> str:
    suffix = "" if dtype == float64 else "f"
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{value!r}{suffix}" if abs(value) < 1e300 else f"{value.hex()}{suffix}"


# -- rules -------------------------------------------------------------------------------------------------


def _f(dtype: DType) -> str:
    """The suffix of C's functions of this dtype."""
    return "" if dtype == float64 else "f"


def _unsigned(dtype: DType) -> str:
    return f"uint{max(8 * dtype.itemsize, 32)}_t"  # nothing narrower: it would become a signed int


def _infix(sign: str) -> Rule:
    def rule(v: Words, dtype: DType) -> str:
        if is_float(dtype):
            return f"{v[0]} {sign} {v[1]}"
        u = _unsigned(dtype)
        return f"({register_word(dtype)})(({u}){v[0]} {sign} ({u}){v[1]})"

    return rule


def _compared(sign: str) -> Rule:
    return lambda v, dtype: f"{v[0]} {sign} {v[1]}"


def _function(name: str) -> Rule:
    return lambda v, dtype: f"{name}{_f(dtype)}({', '.join(v)})"


def _whole(name: str) -> Rule:
    """Rounding to whole numbers: integers stay as they are."""
    return lambda v, dtype: f"{name}{_f(dtype)}({v[0]})" if is_float(dtype) else v[0]


def _extreme(sign: str) -> Rule:
    def rule(v: Words, dtype: DType) -> str:
        x, y = v
        if is_float(dtype):
            return f"{x} != {x} ? {x} : {x} {sign} {y} ? {x} : {y}"
        return f"{x} {sign} {y} ? {x} : {y}"

    return rule


def _bits(sign: str) -> Rule:
    return lambda v, dtype: f"({register_word(dtype)})({v[0]} {sign} {v[1]})"


def _negated(v: Words, dtype: DType) -> str:
    return f"-{v[0]}" if is_float(dtype) else f"({register_word(dtype)})(0 - ({_unsigned(dtype)}){v[0]})"


def _absolute(v: Words, dtype: DType) -> str:
    if is_float(dtype):
        return f"fabs{_f(dtype)}({v[0]})"
    return f"{v[0]} < 0 ? {_negated(v, dtype)} : {v[0]}" if is_signed(dtype) else v[0]


def _sign(v: Words, dtype: DType) -> str:
    x = v[0]
    return f"{x} > 0 ? 1 : {x} < 0 ? -1 : {x} == 0 ? 0 : {x}" if is_float(dtype) else f"({x} > 0) - ({x} < 0)"


def _inverted(v: Words, dtype: DType) -> str:
    return f"!{v[0]}" if dtype == bool_ else f"({register_word(dtype)})~{v[0]}"


def _divided(name: str) -> Rule:
    """Quotients that are rounded down, and what they leave over."""

    def rule(v: Words, dtype: DType) -> str:
        if is_float(dtype):
            return f"{name}_f{_f(dtype)}({v[0]}, {v[1]})"
        kind = "i" if is_signed(dtype) else "u"
        return f"({register_word(dtype)}){name}_{kind}({v[0]}, {v[1]})"

    return rule


def _shifted_left(v: Words, dtype: DType) -> str:
    x, n, bits = *v, 8 * dtype.itemsize
    return f"({register_word(dtype)})((uint64_t){n} < {bits} ? ({_unsigned(dtype)}){x} << {n} : 0)"


def _shifted_right(v: Words, dtype: DType) -> str:
    x, n, bits = *v, 8 * dtype.itemsize
    rest = f"({x} < 0 ? -1 : 0)" if is_signed(dtype) else "0"
    return f"({register_word(dtype)})((uint64_t){n} < {bits} ? {x} >> {n} : {rest})"


def _own_bits(word: str, dtype: DType) -> str:
    """The bits of an integer, none of them a copy of its sign."""
    return f"(uint{8 * dtype.itemsize}_t){word}"


def _leading_zeros(v: Words, dtype: DType) -> str:
    return f"({register_word(dtype)})({8 * dtype.itemsize} - width({_own_bits(v[0], dtype)}))"


def _one_over_root(v: Words, dtype: DType) -> str:
    return f"1 / sqrt{_f(dtype)}({v[0]})"


RULES: dict[str, Rule] = {
    "add": _infix("+"), "sub": _infix("-"), "mul": _infix("*"), "div": _compared("/"),
    "neg": _negated, "abs": _absolute, "sign": _sign, "not": _inverted,
    "eq": _compared("=="), "ne": _compared("!="), "lt": _compared("<"), "le": _compared("<="),
    "gt": _compared(">"), "ge": _compared(">="),
    "maximum": _extreme(">"), "minimum": _extreme("<"),
    "and": _bits("&"), "or": _bits("|"), "xor": _bits("^"),
    "select": lambda v, dtype: f"{v[0]} ? {v[1]} : {v[2]}",
    "is_nan": lambda v, dtype: f"{v[0]} != {v[0]}",
    "is_inf": lambda v, dtype: f"isinf({v[0]}) != 0" if is_float(dtype) else "false",
    "is_finite": lambda v, dtype: f"isfinite({v[0]}) != 0" if is_float(dtype) else "true",
    "floor": _whole("floor"), "ceil": _whole("ceil"), "trunc": _whole("trunc"), "round": _whole("nearbyint"),
    "rsqrt": _one_over_root, "stop_gradient": lambda v, dtype: v[0], "barrier": lambda v, dtype: v[0],
    "floor_div": _divided("floor_div"), "rem": _divided("rem"),
    "shift_left": _shifted_left, "shift_right": _shifted_right,
    "popcount": lambda v, dtype: f"({register_word(dtype)})popcount({_own_bits(v[0], dtype)})",
    "clz": _leading_zeros,
    "signbit": lambda v, dtype: f"signbit({v[0]}) != 0",
    **{name: _function(name) for name in (
        "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
        "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "pow", "hypot",
        "copysign", "logaddexp", "lgamma",
    )},
}  # fmt: skip


def cast(word: str, source: DType, dtype: DType) -> str:
    """By value: floats become integers by truncation, held inside the range, and NaN becomes 0."""
    to = register_word(dtype)
    if dtype == bool_:
        return f"{word} != 0"
    if is_float(source) and is_integer(dtype):
        low, high = integer_range(dtype)
        top = float(high + 1)
        return (
            f"{word} != {word} ? 0 : {word} >= {top!r} ? {number(high, dtype)} : "
            f"{word} <= {float(low)!r} ? {number(low, dtype)} : ({to}){word}"
        )
    return rounded(dtype, f"({to}){word}")


def bitcast(word: str, source: DType, dtype: DType) -> str:
    """The same bits as another dtype, through a union."""
    inside = (
        f"(union {{ {memory_word(source)} a; {memory_word(dtype)} b; }}){{ .a = {written(source, word)} }}.b"
    )
    return read(dtype, f"({inside})")


def expression(e: Equation, words: Words) -> str:
    """The C expression of one equation, rounded as its dtype asks."""
    name, out = e.primitive.name, e.outputs[0].type.dtype
    if name == "full":
        return number(e.attributes["value"], out)
    operand = e.inputs[-1].type.dtype if name == "select" else e.inputs[0].type.dtype
    if name == "cast":
        return cast(words[0], operand, out)
    if name == "bitcast":
        return bitcast(words[0], operand, out)
    rule = RULES.get(name)
    if rule is None or (name == "pow" and not is_float(operand)):
        raise DTypeError(
            f"there is no C expression for {name} of {operand}",
            where="emitting C",
            expected=f"one of {', '.join(sorted(RULES))}",
            remedy="read the loops or the LLVM text of this kernel instead",
        )
    found = rule(words, operand)
    return rounded(out, found) if out in SMALL_FLOATS else found
