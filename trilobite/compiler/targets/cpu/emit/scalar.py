"""Scalar graphs as LLVM code for any number of lanes.

Enters: a graph of elementwise primitives over 0-d types, and its inputs as `Value`s in register form. Leaves:
its outputs in register form. One table row per primitive. Complex numbers, and what `supports` denies, are
for others.

Meaning: integers, comparisons, casts and bits as the primitives' NumPy rules, bit for bit; floats within the
bounds of `math.ULPS`. float16 and bfloat16 compute in float and are rounded where it can be seen: by a cast,
a comparison, rounding to whole numbers, and when stored. The floats of 8 and 4 bits are rounded after every
operation, for their range is so narrow that an overflow on the way is the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import copysign
from typing import Any

import numpy as np

from trilobite.base.dtypes import (
    COMPLEX,
    SMALL_FLOATS,
    DType,
    bfloat16,
    bool_,
    float8_e4m3b11fnuz,
    float8_e4m3fnuz,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    is_float,
    is_signed,
)
from trilobite.base.errors import DTypeError
from trilobite.compiler.targets.cpu.emit import (
    casts,
    division,
    exponential,
    integers,
    math,
    rounding,
)
from trilobite.compiler.targets.cpu.emit.idioms import Idioms
from trilobite.compiler.targets.cpu.emit.lookup import lookup
from trilobite.compiler.targets.cpu.emit.signs import Signs
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import Primitive
from trilobite.ir.primitives.cast import by_value
from trilobite.native.llvm import formats
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, register_type, with_element

Operands = Sequence[Value]
Rule = Callable[[Text, Operands, DType], Value]
Pair = Callable[[Text, Value, Value, DType], Value]
_LAZY = frozenset({float16, bfloat16})


# -- rules by kind of dtype --------------------------------------------------------------------------------


def _by_kind(integer: Pair | None, floating: Pair | None, truth: Pair | None = None) -> Rule:
    """A rule of two operands for integers, floats and bools."""

    def rule(t: Text, v: Operands, dtype: DType) -> Value:
        choice = floating if is_float(dtype) else truth if dtype == bool_ else integer
        assert choice is not None  # the primitive's type rule does not accept it
        return choice(t, v[0], v[1], dtype)

    return rule


def _one(integer: Callable[..., Value] | None, floating: Callable[..., Value]) -> Rule:
    """A rule of one operand. Where there is none for integers, they stay as they are."""

    def rule(t: Text, v: Operands, dtype: DType) -> Value:
        if is_float(dtype):
            return floating(t, v[0])
        return v[0] if integer is None else integer(t, v[0], dtype)

    return rule


def _wrapping(op: Callable[[Text, Value, Value], Value]) -> Pair:
    return lambda t, x, y, dtype: casts.wrap(t, dtype, op(t, x, y))


def _plain(op: Callable[[Text, Value, Value], Value]) -> Pair:
    return lambda t, x, y, dtype: op(t, x, y)


def _bitwise(op: Callable[[Text, Value, Value], Value]) -> Rule:
    return lambda t, v, dtype: op(t, v[0], v[1])


def _function(name: str) -> Rule:
    return lambda t, v, dtype: math.FUNCTIONS[name](t, *v)


def _compare(order: str) -> Rule:
    """`eq` and `ne` know no sign, and NaN differs from everything."""

    def rule(t: Text, v: Operands, dtype: DType) -> Value:
        if is_float(dtype):
            return t.fcmp({"eq": "oeq", "ne": "une"}.get(order, f"o{order}"), v[0], v[1])
        if order in ("eq", "ne"):
            return t.icmp(order, v[0], v[1])
        return t.icmp(f"{'s' if is_signed(dtype) else 'u'}{order}", v[0], v[1])

    return rule


def _classified(floating: Callable[[Text, Value], Value], otherwise: bool) -> Rule:
    """Integers and bools are finite numbers."""

    def rule(t: Text, v: Operands, dtype: DType) -> Value:
        if is_float(dtype):
            return floating(t, v[0])
        return constant(with_element(v[0].type, "i1"), int(otherwise))

    return rule


def _float_extreme(larger: bool) -> Pair:
    """NaN if either is; of two zeros maximum gives +0 and minimum -0, whatever their order."""
    beyond = "ugt" if larger else "ult"  # true for NaN as well

    def settles(c: Value) -> bool:
        """A constant that may be given back where the other one equals it."""
        return (
            c.real is not None and c.real == c.real and (c.real != 0 or (copysign(1, c.real) > 0) is larger)
        )

    def rule(t: Text, x: Value, y: Value, dtype: DType) -> Value:
        if settles(y):
            return t.select(t.fcmp(beyond, x, y), x, y)
        if settles(x):
            return t.select(t.fcmp(beyond, y, x), y, x)
        join = t.and_ if larger else t.or_
        alike = t.as_float(join(t.bits(x), t.bits(y)))
        extreme = t.fmax(x, y) if larger else t.fmin(x, y)  # the second if either is NaN
        chosen = t.select(t.fcmp("oeq", x, y), alike, extreme)
        return t.select(t.fcmp("uno", x, x), x, chosen)

    return rule


def _float_sign(t: Text, x: Value) -> Value:
    above = t.select(t.fcmp("ogt", x, 0.0), constant(x.type, 1.0), t.fmul(x, 0.0))
    flat = t.select(t.fcmp("oeq", x, 0.0), constant(x.type, 0.0), above)
    return t.select(t.fcmp("olt", x, 0.0), constant(x.type, -1.0), flat)


def _negated(t: Text, x: Value, dtype: DType) -> Value:
    return casts.wrap(t, dtype, t.sub(0, x))


def _infinite(t: Text, x: Value) -> Value:
    return t.fcmp("oeq", t.fabs(x), float("inf"))


def _finite(t: Text, x: Value) -> Value:
    return t.fcmp("one", t.fabs(x), float("inf"))


RULES: dict[str, Rule] = {
    "add": _by_kind(_wrapping(Text.add), _plain(Text.fadd)),
    "sub": _by_kind(_wrapping(Text.sub), _plain(Text.fsub)),
    "mul": _by_kind(_wrapping(Text.mul), _plain(Text.fmul)),
    "div": _by_kind(None, _plain(Text.fdiv)),
    "neg": _one(_negated, Text.fneg),
    "abs": _one(integers.absolute, Text.fabs),
    "sign": _one(integers.sign, _float_sign),
    "floor_div": _by_kind(integers.floor_div, division.floor_div),
    "rem": _by_kind(integers.rem, division.rem),
    "pow": _by_kind(integers.power, lambda t, x, y, dtype: math.FUNCTIONS["pow"](t, x, y)),
    "sqrt": _one(None, Text.sqrt),
    "floor": _one(None, rounding.floor),
    "ceil": _one(None, rounding.ceil),
    "trunc": _one(None, rounding.trunc),
    "round": _one(None, rounding.rint),
    "copysign": _by_kind(None, _plain(Text.copysign)),
    "nextafter": _by_kind(None, lambda t, x, y, dtype: division.nextafter(t, x, y)),
    "maximum": _by_kind(integers.extreme(True), _float_extreme(True), _plain(Text.or_)),
    "minimum": _by_kind(integers.extreme(False), _float_extreme(False), _plain(Text.and_)),
    "select": lambda t, v, dtype: t.select(v[0], v[1], v[2]),
    "eq": _compare("eq"),
    "ne": _compare("ne"),
    "lt": _compare("lt"),
    "le": _compare("le"),
    "gt": _compare("gt"),
    "ge": _compare("ge"),
    "is_nan": _classified(lambda t, x: t.fcmp("uno", x, x), False),
    "is_inf": _classified(_infinite, False),
    "is_finite": _classified(_finite, True),
    "signbit": lambda t, v, dtype: t.icmp("slt", t.bits(v[0]), 0),
    "not": lambda t, v, dtype: casts.wrap(t, dtype, t.not_(v[0])),
    "and": _bitwise(Text.and_),
    "or": _bitwise(Text.or_),
    "xor": _bitwise(Text.xor),
    "shift_left": lambda t, v, dtype: integers.shift_left(t, v[0], v[1], dtype),
    "shift_right": lambda t, v, dtype: integers.shift_right(t, v[0], v[1], dtype),
    "popcount": lambda t, v, dtype: integers.popcount(t, v[0], dtype),
    "clz": lambda t, v, dtype: integers.clz(t, v[0], dtype),
    "stop_gradient": lambda t, v, dtype: v[0],
    "barrier": lambda t, v, dtype: v[0],
    **{name: _function(name) for name in math.FUNCTIONS if name not in ("pow", "sigmoid")},
}

# Rules that need more than the first operand's dtype: (text, operands, their dtypes, attributes).
WITH_ATTRIBUTES: dict[str, Callable[[Text, Operands, Sequence[DType], Mapping[str, Any]], Value]] = {
    "cast": lambda t, v, d, a: casts.cast(t, v[0], d[0], a["dtype"]),
    "bitcast": lambda t, v, d, a: casts.bitcast(t, v[0], d[0], a["dtype"]),
    "quantise": lambda t, v, d, a: casts.quantise(t, v[0], v[1], v[2], d[0], a["dtype"]),
    "requantise": lambda t, v, d, a: casts.requantise(t, v[0], v[1], v[2], d[0], a["dtype"]),
    "quantise_product": lambda t, v, d, a: casts.quantise_product(
        t, v[0], v[2], a["dtype"], a["factor"], a["rest"]
    ),
    "requantise_single": lambda t, v, d, a: casts.requantise_single(t, v[0], v[1], v[2], a["dtype"]),
    "dequantise": lambda t, v, d, a: casts.dequantise(t, v[0], v[1], v[2], d[0], d[1]),
    "lookup": lambda t, v, d, a: lookup(t, v[0], v[1]),  # the second is an address
}
CONSTANTS = frozenset({"full", "constant"})

# What tells apart values that differ by less than a rounding: operands are rounded first.
_SHARP = frozenset(
    "eq ne lt le gt ge is_finite is_inf sign floor ceil trunc round floor_div rem cast bitcast quantise "
    "requantise requantise_single quantise_product nextafter".split()
)
# What gives back one of its operands, or its size or sign, so needs no rounding of its own.
_KEEPS = frozenset(
    "neg abs sign copysign maximum minimum select stop_gradient barrier cast bitcast quantise floor ceil "
    "requantise requantise_single quantise_product trunc round nextafter".split()
)


# Formats for which a primitive's NumPy rule is about codes, not numbers: the neighbour in the format, the
# sign of a zero where -0 is NaN, the smallest power of two taken for zero.
_NO_RULE: dict[str, frozenset[DType]] = {
    "nextafter": SMALL_FLOATS,
    "copysign": frozenset({float8_e4m3fnuz, float8_e5m2fnuz, float8_e4m3b11fnuz}),
    "sign": frozenset({float8_e8m0fnu}),
}


# -- the walk ----------------------------------------------------------------------------------------------


def supports(primitive: Primitive, dtypes: Sequence[DType]) -> bool:
    """Whether equations of this primitive over operands (and results) of these dtypes can be emitted."""
    name = primitive.name
    if any(d in COMPLEX for d in dtypes):
        return False
    if any(d in _NO_RULE.get(name, ()) for d in dtypes):
        return False
    return name in RULES or name in WITH_ATTRIBUTES or name in CONSTANTS


def emit_scalars(
    text: Text, body: Graph, values: Sequence[str], lanes: int, unrounded: Iterable[Var] = ()
) -> list[Value]:
    """The outputs of `body`; lanes = 0 means scalars, else every value is a vector of so many. `unrounded`
    are inputs of a short dtype that come as the sums they are.
    """
    env: dict[Var, Value] = {
        var: v if isinstance(v, Value) else Value(v, register_type(var.type.dtype, lanes))
        for var, v in zip(body.inputs, values, strict=True)
    }
    pending = {v for v in unrounded if v.type.dtype in _LAZY}  # of float16 and bfloat16, not rounded yet
    below, idioms = Signs(body.equations), Idioms(body)
    for e in body.equations:
        out, sharp = e.outputs[0], e.primitive.name in _SHARP
        if out in idioms.inside:
            continue
        if out in idioms.found:
            env[out] = idioms.found[out].value(text, env)
        else:
            operands = [_seen(text, env, pending, v) if sharp else env[v] for v in e.inputs]
            at_most_one = e.primitive.name == "exp" and below.zero(e.inputs[0])
            env[out] = (
                exponential.exp(text, operands[0], 0.0) if at_most_one else _emit(text, e, operands, lanes)
            )
        if out.type.dtype in SMALL_FLOATS and not _is_exact(e, pending):
            if out.type.dtype in _LAZY:
                pending.add(out)
            else:
                env[out] = formats.rounded(text, out.type.dtype, env[out])
    return [env[v] for v in body.outputs]


def _is_exact(e: Equation, pending: set[Var]) -> bool:
    """Whether the result needs no rounding: it is made of operands that have none pending."""
    if e.primitive.name in CONSTANTS or e.primitive.name in _SHARP & _KEEPS:
        return True
    return e.primitive.name in _KEEPS and not any(v in pending for v in e.inputs)


def _seen(t: Text, env: dict[Var, Value], pending: set[Var], var: Var) -> Value:
    """The value of a variable as its dtype can hold it."""
    if var in pending:
        pending.discard(var)
        env[var] = formats.rounded(t, var.type.dtype, env[var])
    return env[var]


def _emit(t: Text, e: Equation, operands: Operands, lanes: int) -> Value:
    name = e.primitive.name
    dtypes = [v.type.dtype for v in e.inputs]
    if not supports(e.primitive, [*dtypes, e.outputs[0].type.dtype]):
        raise DTypeError(
            f"{name} of {', '.join(map(str, (v.type for v in e.inputs)))} has no native code",
            where=e.location,
            expected="an equation that emit.scalar.supports",
            remedy="leave it to its NumPy rule: a fusion of kind 'host'",
        )
    if name in CONSTANTS:
        return _literal(e, lanes)
    if name in WITH_ATTRIBUTES:
        return WITH_ATTRIBUTES[name](t, operands, dtypes, e.attributes)
    return RULES[name](t, operands, dtypes[-1])


def _literal(e: Equation, lanes: int) -> Value:
    """A `full` or a 0-d `constant`, as its dtype holds it."""
    dtype = e.outputs[0].type.dtype
    if e.primitive.name == "full":
        number = by_value(np.asarray(e.attributes["value"]), dtype)
    else:
        number = e.attributes["value"].array
    wide = number.astype(float32) if dtype in SMALL_FLOATS else number
    return constant(register_type(dtype, lanes), wide.item() if is_float(dtype) else int(wide))
