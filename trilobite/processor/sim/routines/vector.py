"""Element-by-element instructions as routines.

Enters: a mnemonic with its formats and flags. Leaves: the text of its routine, which does what the row's
meaning does, bit for bit, on operands that lie on each other exactly or not at all; or None where there is
none: fp8 and 4-bit conversions, conversions to narrow floats that do not round to nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from trilobite.processor.isa import functions
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import F16, F32, F64, TF32, Format
from trilobite.processor.isa.numbers import integer_range
from trilobite.processor.isa.row import JOINED
from trilobite.processor.sim.routines.elements import (
    ONE,
    computed_in,
    finish,
    is_handy,
    put,
    raw,
    round_to_odd,
    whole,
    wide,
)
from trilobite.processor.sim.routines.text import Code, Value
from trilobite.processor.sim.routines.traced import traced

SCALARS = {"VAS": "VAV", "VSS": "VSV", "VMS": "VMV", "VDS": "VDV", "VRSS": "VSV", "VRDS": "VDV",
           "VGTMS": "VGTM", "VLTMS": "VLTM", "VGTS": "VGT", "VGES": "VGE", "VES": "VE", "VNES": "VNE",
           "VLTS": "VLT", "VLES": "VLE", "VBANDS": "VBAND", "VBORS": "VBOR", "VBXORS": "VBXOR",
           "VSHLS": "VSHL", "VSHRS": "VSHR", "VROLS": "VROL", "MMS": "VMV"}  # fmt: skip
REVERSED = ("VRSS", "VRDS")
CYCLIC = {"VCAV": "VAV", "VCSV": "VSV", "VCMV": "VMV", "VCDV": "VDV", "VCGTM": "VGTM", "VCLTM": "VLTM",
          "VCGT": "VGT", "VCGE": "VGE", "VCE": "VE", "VCNE": "VNE", "VCLT": "VLT", "VCLE": "VLE",
          "VCAND": "VAND", "VCOR": "VOR"}  # fmt: skip
MATRICES = {"MAM": "VAV", "MSM": "VSV"}
FARTHEST = 1e5  # beyond it sine and cosine are reduced in whole numbers, which is the interpreter's work


def _arithmetic(name: str, code: Code, fmt: Format, a: Value, b: Value) -> Value:
    left, right = wide(code, fmt, a), wide(code, fmt, b)
    result: Value = getattr(left, name)(right)
    return result


def _divide(code: Code, fmt: Format, a: Value, b: Value) -> Value:
    """Whole numbers to zero; by 0 all ones; the one overflow gives a itself."""
    if fmt.kind == "float":
        return wide(code, fmt, a) / wide(code, fmt, b)
    return b.test("eq", 0).choose(code.constant(a.kind, -1), _quotient("div", code, fmt, a, b))


def _remainder(code: Code, fmt: Format, a: Value, b: Value) -> Value:
    return b.test("eq", 0).choose(a, _quotient("rem", code, fmt, a, b))


def _quotient(word: str, code: Code, fmt: Format, a: Value, b: Value) -> Value:
    avoid = b.test("eq", 0)
    if fmt.kind == "int":
        avoid = avoid | (a.test("eq", integer_range(fmt)[0]) & b.test("eq", -1))
    safe = avoid.choose(code.constant(a.kind, 1), b)
    sign = "s" if fmt.kind == "int" else "u"
    return code.new(a.kind, f"{sign}{word} {a.kind} {a.name}, {safe.name}")


def holds(name: str, code: Code, fmt: Format, a: Value, b: Value | int) -> Value:
    """A comparison as a condition: false for NaN, except "not equal"."""
    if fmt.kind == "float":
        left = wide(code, fmt, a)
        right = wide(code, fmt, b) if isinstance(b, Value) else b
        return left.test("une" if name == "ne" else f"o{name}", right)
    sign = "" if name in ("eq", "ne") else ("s" if fmt.kind == "int" else "u")
    return a.test(sign + name, b)


def _truth(code: Code, fmt: Format, condition: Value) -> Value:
    return condition.choose(code.constant(whole(fmt), ONE[fmt] if fmt.kind == "float" else 1), 0)


def _compare(name: str, code: Code, fmt: Format, a: Value, b: Value) -> Value:
    return _truth(code, fmt, holds(name, code, fmt, a, b))


def _merge(name: str, code: Code, fmt: Format, a: Value, b: Value) -> Value:
    return holds(name, code, fmt, a, b).choose(a, b)


def _logic(name: str, code: Code, fmt: Format, a: Value, b: Value) -> Value:
    p, q = holds("ne", code, fmt, a, 0), holds("ne", code, fmt, b, 0)
    both: Value = getattr(p, name)(q)
    return _truth(code, fmt, both)


def _bits(name: str, code: Code, fmt: Format, a: Value, b: Value) -> Value:
    result: Value = getattr(a, name)(b)
    return result


def _shift(word: str, code: Code, fmt: Format, a: Value, b: Value) -> Value:
    amount = b & (fmt.bits - 1)
    if word == "rotate":
        return code.call(f"llvm.fshl.{a.kind}", a.kind, (a, a, amount))
    chosen = word if word == "shl" else "ashr" if fmt.kind == "int" else "lshr"
    return code.new(a.kind, f"{chosen} {a.kind} {a.name}, {amount.name}")


def _high(code: Code, fmt: Format, a: Value, b: Value) -> Value:
    """The upper half of the exact product."""
    double, word = f"i{2 * fmt.bits}", "sext" if fmt.kind == "int" else "zext"
    product = a.cast(word, double) * b.cast(word, double)
    return (product >> fmt.bits).cast("trunc", whole(fmt))


def _stated(algorithm: Callable[..., object], code: Code, fmt: Format, a: Value) -> Value:
    x = wide(code, fmt, a)
    return traced(algorithm, x if x.kind == "double" else x.cast("fpext", "double"))  # type: ignore[arg-type]


def _reciprocal_root(code: Code, fmt: Format, a: Value) -> Value:
    x = wide(code, fmt, a)
    return 1.0 / code.real("sqrt", x if x.kind == "double" else x.cast("fpext", "double"))


def _root(code: Code, fmt: Format, a: Value) -> Value:
    return code.real("sqrt", wide(code, fmt, a))


def _reciprocal(code: Code, fmt: Format, a: Value) -> Value:
    return 1.0 / wide(code, fmt, a)


def rounded(code: Code, x: Value, rounding: str) -> Value:
    """To a whole number in the float's own type."""
    if rounding != "ra":
        return code.real({"rn": "rint", "rd": "floor", "ru": "ceil", "rz": "trunc"}[rounding], x)
    cut = code.real("trunc", x)
    one = code.real("copysign", code.constant(x.kind, 1.0), x)
    away = code.real("fabs", x - cut).test("oge", 0.5).choose(cut + one, cut)
    return code.real("copysign", away, x)


def _whole(rounding: str, code: Code, fmt: Format, a: Value) -> Value:
    return rounded(code, wide(code, fmt, a), rounding)


def _sign(code: Code, fmt: Format, a: Value) -> Value:
    """-1, 0 or 1; zeros lose their sign, NaN stays NaN."""
    if fmt.kind == "float":
        x = wide(code, fmt, a)
        one = code.real("copysign", code.constant(x.kind, 1.0), x)
        return (x.is_nan).choose(x, x.test("oeq", 0.0).choose(code.constant(x.kind, 0.0), one))
    up = a.test("sgt" if fmt.kind == "int" else "ugt", 0).choose(code.constant(a.kind, 1), 0)
    return a.test("slt", 0).choose(code.constant(a.kind, -1), up) if fmt.kind == "int" else up


def _absolute(code: Code, fmt: Format, a: Value) -> Value:
    if fmt.kind == "float":
        return a & ((1 << (fmt.bits - 1)) - 1)
    return a.test("slt", 0).choose(0 - a, a) if fmt.kind == "int" else a


def _negate(code: Code, fmt: Format, a: Value) -> Value:
    return a ^ (-1 << (fmt.bits - 1)) if fmt.kind == "float" else 0 - a


def _rectify(code: Code, fmt: Format, a: Value) -> Value:
    above = holds("gt", code, fmt, a, 0)
    if fmt.kind == "float":
        above = above | wide(code, fmt, a).is_nan
    return above.choose(a, 0)


def _count(name: str, code: Code, fmt: Format, a: Value) -> Value:
    return code.call(f"llvm.{name}.{a.kind}", a.kind, (a,), name != "ctpop")


def fused(code: Code, fmt: Format, a: Value, b: Value, c: Value) -> Value:
    """One rounding. Products of narrow floats are exact in double, where the sum is rounded to odd."""
    x, y, z = (wide(code, fmt, value) for value in (a, b, c))
    if fmt in (F32, F64):
        return code.real("fma", x, y, z)
    product = x.cast("fpext", "double") * y.cast("fpext", "double")
    addend = z.cast("fpext", "double")
    total = product + addend
    part = total - product
    lost = (product - (total - part)) + (addend - part)
    bits = total.cast("bitcast", "i64")
    is_larger = (lost.test("ogt", 0.0) ^ total.test("ogt", 0.0)) ^ 1
    is_even = (bits & 1).test("eq", 0)
    is_moved = lost.test("one", 0.0) & is_even & code.real("fabs", total).test("olt", float("inf"))
    odd = is_moved.choose(bits + is_larger.choose(code.constant("i64", 1), -1), bits)
    return round_to_odd(odd.cast("bitcast", "double"))


def _select(code: Code, fmt: Format, mask: Value, a: Value, b: Value) -> Value:
    return holds("ne", code, fmt, mask, 0).choose(a, b)


Operation = Callable[..., Value]
BINARY: dict[str, Operation] = {
    "VAV": partial(_arithmetic, "__add__"), "VSV": partial(_arithmetic, "__sub__"),
    "VMV": partial(_arithmetic, "__mul__"), "VDV": _divide, "VREM": _remainder, "VMULH": _high,
    "VGT": partial(_compare, "gt"), "VGE": partial(_compare, "ge"), "VE": partial(_compare, "eq"),
    "VNE": partial(_compare, "ne"), "VLT": partial(_compare, "lt"), "VLE": partial(_compare, "le"),
    "VGTM": partial(_merge, "gt"), "VLTM": partial(_merge, "lt"),
    "VAND": partial(_logic, "__and__"), "VOR": partial(_logic, "__or__"), "VXOR": partial(_logic, "__xor__"),
    "VBAND": partial(_bits, "__and__"), "VBOR": partial(_bits, "__or__"), "VBXOR": partial(_bits, "__xor__"),
    "VSHL": partial(_shift, "shl"), "VSHR": partial(_shift, "shr"), "VROL": partial(_shift, "rotate"),
}  # fmt: skip
UNARY: dict[str, Operation] = {
    "VEXP": partial(_stated, functions.exp), "VEXP2": partial(_stated, functions.exp2),
    "VLOG": partial(_stated, functions.log), "VLOG2": partial(_stated, functions.log2),
    "VSIN": partial(_stated, functions.sin), "VCOS": partial(_stated, functions.cos),
    "VTANH": partial(_stated, functions.tanh), "VSIGM": partial(_stated, functions.sigmoid),
    "VERF": partial(_stated, functions.erf), "VGELU": partial(_stated, functions.gelu),
    "VSQRT": _root, "VRSQRT": _reciprocal_root, "VRECIP": _reciprocal,
    "VABS": _absolute, "VNEG": _negate, "VSIGN": _sign, "VRELU": _rectify,
    "VFLOOR": partial(_whole, "rd"), "VCEIL": partial(_whole, "ru"), "VTRUNC": partial(_whole, "rz"),
    "VRINT": partial(_whole, "rn"), "VROUND": partial(_whole, "ra"),
    "VNOT": lambda code, fmt, a: _truth(code, fmt, holds("eq", code, fmt, a, 0)),
    "VBNOT": lambda code, fmt, a: a ^ -1,
    "VPOPC": partial(_count, "ctpop"), "VCLZ": partial(_count, "ctlz"), "VCTZ": partial(_count, "cttz"),
}  # fmt: skip
TERNARY: dict[str, Operation] = {"VFMA": fused, "VSEL": _select}
OPERATIONS = {**BINARY, **UNARY, **TERNARY}


def base_name(mnemonic: str) -> tuple[str, str]:
    """The instruction whose element function this one has, and how its second operand is read."""
    if mnemonic in SCALARS:
        return SCALARS[mnemonic], "reversed" if mnemonic in REVERSED else "scalar"
    if mnemonic in CYCLIC:
        return CYCLIC[mnemonic], "cyclic"
    return MATRICES.get(mnemonic, mnemonic), "plain"


def vector_text(instruction: Instruction) -> str | None:
    """The routine of an element-by-element instruction."""
    name = instruction.row.mnemonic
    if name == "VCVT":
        return _conversion_text(instruction)
    if name == "VJOIN":
        return _join_text(instruction)
    if not instruction.formats or not is_handy(instruction.formats[0]):
        return None
    fmt = instruction.formats[0]
    if name in ("VSET", "VIOTA"):
        return _filling_text(name, fmt)
    base, mode = base_name(name)
    return _lanes_text(base, mode, fmt) if base in OPERATIONS else None


def _lanes_text(name: str, mode: str, fmt: Format) -> str:
    code = Code()
    operation = OPERATIONS[name]
    count = 3 if name in TERNARY else 2 if name in BINARY else 1
    sources = [code.operand(place) for place in range(count - (mode in ("scalar", "reversed")))]
    target = code.operand(len(sources))
    if name in ("VSIN", "VCOS"):
        _refuse_far(code, fmt, sources[0])
    if mode == "cyclic":
        _cyclic(code, fmt, operation, sources, target)
        return code.text()
    scalars = [raw(code, fmt, code.argument("scalars"), 0)] if mode in ("scalar", "reversed") else []
    with code.loop(code.argument("n"), is_parallel=True) as i:
        given = [*(raw(code, fmt, source, i) for source in sources), *scalars]
        if mode == "reversed":
            given.reverse()
        put(code, fmt, target, i, operation(code, fmt, *given))
    return code.text()


def _cyclic(code: Code, fmt: Format, operation: Operation, sources: Sequence[Value], target: Value) -> None:
    """The second operand begins again every m elements."""
    n, m = code.argument("n"), code.argument("m")
    rows = code.new("i64", f"sdiv i64 {n.name}, {m.name}")
    code.refuse((rows * m).test("ne", n))
    with code.loop(rows) as row:
        first = row * m
        with code.loop(m, is_parallel=True) as j:
            i = first + j
            given = raw(code, fmt, sources[0], i), raw(code, fmt, sources[1], j)
            put(code, fmt, target, i, operation(code, fmt, *given))


def _refuse_far(code: Code, fmt: Format, source: Value) -> None:
    found = code.slot("i1", 0)
    with code.loop(code.argument("n")) as i:
        x = wide(code, fmt, raw(code, fmt, source, i))
        size = code.real("fabs", x if x.kind == "double" else x.cast("fpext", "double"))
        found.set(found.get() | (size.test("ogt", FARTHEST) & size.test("one", float("inf"))))
    code.refuse(found.get())


def _filling_text(name: str, fmt: Format) -> str:
    """VSET: a scalar everywhere; VIOTA: start + i * step, each rounded."""
    code = Code()
    scalars, target = code.argument("scalars"), code.operand(0)
    kind = computed_in(fmt)
    first = raw(code, fmt, scalars, 0)
    step = raw(code, fmt, code.at("i64", scalars, 1), 0)
    with code.loop(code.argument("n"), is_parallel=True) as i:
        if name == "VSET":
            put(code, fmt, target, i, first)
        else:
            product = _rounded(code, fmt, _of_index(code, fmt, kind, i) * wide(code, fmt, step))
            put(code, fmt, target, i, product + wide(code, fmt, first))
    return code.text()


def _rounded(code: Code, fmt: Format, value: Value) -> Value:
    """A step of a narrow float's computation, which rounds every one."""
    return wide(code, fmt, finish(fmt, value)) if fmt.bits < 32 and fmt.kind == "float" else value


def _of_index(code: Code, fmt: Format, kind: str, i: Value) -> Value:
    if fmt.kind != "float":
        return i if kind == "i64" else i.cast("trunc", kind)
    return _rounded(code, fmt, i.cast("sitofp", kind))


def _join_text(instruction: Instruction) -> str | None:
    """The steps of the row's meaning, each rounded to float32."""
    (to, first, second), (activation,) = instruction.formats, instruction.flags
    if not all(map(is_handy, instruction.formats)):
        return None
    code = Code()
    a, b, target, scalars = code.operand(0), code.operand(1), code.operand(2), code.argument("scalars")
    words = [raw(code, F32, code.at("i64", scalars, place), 0) for place in range(len(JOINED))]
    b_zero, b_scale, scale, zero = (wide(code, F32, word) for word in words)
    with code.loop(code.argument("n"), is_parallel=True) as i:
        x, y = (wide(code, fmt, raw(code, fmt, at, i)) for fmt, at in ((first, a), (second, b)))
        if second.kind != "float":
            y = y.cast("sitofp" if second.kind == "int" else "uitofp", "float")
        total = x + (y - b_zero) * b_scale
        if activation:
            above = total.test("ogt", 0.0) | total.is_nan
            total = above.choose(total, code.constant("float", 0.0))
        steps = total * scale
        found = (steps if to.kind == "float" else code.real("rint", steps)) + zero
        if to.kind != "float":
            known = found.is_nan.choose(zero, found).cast("fpext", "double")
            found = saturated(code, to, rounded(code, known, "rn"))
        put(code, to, target, i, found)
    return code.text()


def can_convert(to: Format, source: Format, rounding: str) -> bool:
    """Whether conversions can be written: to narrower floats, those to the nearest."""
    is_narrowing = (to.kind == "float" and to not in (F32, F64)) or (to is F32 and source is F64)
    known = is_handy(to) and is_handy(source) and TF32 not in (to, source)
    return known and (rounding == "rn" or not is_narrowing)


def _conversion_text(instruction: Instruction) -> str | None:
    (to, source), (rounding,) = instruction.formats, instruction.flags
    if not can_convert(to, source, rounding):
        return None
    code = Code()
    given, target = code.operand(0), code.operand(1)
    with code.loop(code.argument("n"), is_parallel=True) as i:
        x = wide(code, source, raw(code, source, given, i))
        put(code, to, target, i, converted(code, to, source, x, rounding))
    return code.text()


def converted(code: Code, to: Format, source: Format, x: Value, rounding: str) -> Value:
    """A number as one of another format, still to be finished."""
    if source.kind == "float" and to.kind == "float":
        return round_to_odd(x) if source is F64 and to is F16 else x
    if source.kind == "float":
        exact = x if x.kind == "double" else x.cast("fpext", "double")
        return saturated(code, to, rounded(code, exact, rounding))
    if to.kind == "float":
        return x.cast("sitofp" if source.kind == "int" else "uitofp", computed_in(to))
    return _clamped(code, to, source, x)


def saturated(code: Code, to: Format, x: Value) -> Value:
    """A whole double as an integer of the format; NaN becomes 0."""
    word = "fptosi" if to.kind == "int" else "fptoui"
    return code.call(f"llvm.{word}.sat.{whole(to)}.f64", whole(to), (x,))


def _clamped(code: Code, to: Format, source: Format, x: Value) -> Value:
    """Integer to integer: beyond the range, its end."""
    sign = "s" if source.kind == "int" else "u"
    low = max(integer_range(to)[0], integer_range(source)[0])
    high = min(integer_range(to)[1], integer_range(source)[1])
    x = x.test(f"{sign}lt", low).choose(code.constant(x.kind, low), x)
    x = x.test(f"{sign}gt", high).choose(code.constant(x.kind, high), x)
    if to.bits == source.bits:
        return x
    if to.bits < source.bits:
        return x.cast("trunc", whole(to))
    return x.cast("sext" if source.kind == "int" else "zext", whole(to))
