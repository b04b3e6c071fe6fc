"""Arithmetic, comparisons, conversions, selections and the values inside vectors and structs."""

from __future__ import annotations

from trilobite.processor.isa.formats import I64, Format
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.llvm.types import Array, LType, Vector
from trilobite.processor.lang.bang.llvm.values import Group, Number, Zero
from trilobite.processor.lang.bang.lower import wide
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.scalars import (
    UNSIGNED,
    bits_of,
    canonical,
    element,
    is_odd,
    is_wide,
    leaf_range,
    leaves,
    unsigned,
    word,
)
from trilobite.processor.lang.ir import Constant, Value
from trilobite.processor.lang.types import ANY, is_pointer

_SIGNED = {"add": "add", "sub": "sub", "mul": "mul", "sdiv": "div", "srem": "rem", "shl": "shl",
           "ashr": "shr", "and": "and", "or": "or", "xor": "xor"}  # fmt: skip
_UNSIGNED = {"udiv": "div", "urem": "rem", "lshr": "shr"}
_FLOATS = {"fadd": "add", "fsub": "sub", "fmul": "mul", "fdiv": "div"}
_PREDICATES = {"eq": "eq", "ne": "ne", "gt": "gt", "ge": "ge", "lt": "lt", "le": "le"}


def binary(f: FunctionLowering, i: Instruction) -> Lowered:
    if is_wide(element(i.type)):
        return wide.binary(f, i)
    left, right = f.value(i.args[0]), f.value(i.args[1])
    kinds = leaves(i.type)
    return tuple(_binary(f, i.opcode, kind, a, b) for kind, a, b in zip(kinds, left, right, strict=True))


def _binary(f: FunctionLowering, opcode: str, kind: LType, left: Value, right: Value) -> Value:
    b = f.builder
    if opcode in _FLOATS:
        return float_operation(f, _FLOATS[opcode], left, right)
    if opcode == "frem":
        from trilobite.processor.lang.bang.lower.library import remainder

        return remainder(f, left, right)
    fmt = left.type if isinstance(left.type, Format) else I64
    bits = bits_of(kind)
    if opcode in _UNSIGNED:
        return _unsigned(f, _UNSIGNED[opcode], fmt, bits, left, right)
    if bits == 1 and opcode in ("add", "sub"):
        opcode = "xor"
    made = b.arithmetic(_SIGNED[opcode], fmt, left, right)
    return canonical(b, made, bits) if opcode in ("add", "sub", "mul", "shl") or bits == 1 else made


def _unsigned(f: FunctionLowering, opcode: str, fmt: Format, bits: int, left: Value, right: Value) -> Value:
    b = f.builder
    plain = UNSIGNED[fmt]
    left = unsigned(b, left, bits)
    if opcode != "shr":
        right = unsigned(b, right, bits)
    made = b.arithmetic(opcode, plain, _as(f, left, plain), _as(f, right, plain))
    back = b.cast(made, fmt)
    return canonical(b, back, bits) if is_odd(bits) else back


def _as(f: FunctionLowering, value: Value, fmt: Format) -> Value:
    """A constant read without sign must be written without sign."""
    if isinstance(value, Constant):
        return Constant(fmt, value.integer & ((1 << fmt.bits) - 1))
    return value


def float_operation(f: FunctionLowering, opcode: str, left: Value, right: Value) -> Value:
    assert isinstance(left.type, Format)
    return f.builder.arithmetic(opcode, left.type, left, right)


def negate(f: FunctionLowering, i: Instruction) -> Lowered:
    found = []
    for value in f.value(i.args[0]):
        assert isinstance(value.type, Format)
        found.append(f.builder.arithmetic("neg", value.type, value))
    return tuple(found)


def freeze(f: FunctionLowering, i: Instruction) -> Lowered:
    return f.value(i.args[0])


def icmp(f: FunctionLowering, i: Instruction) -> Lowered:
    if is_wide(element(i.args[0].type)):
        return wide.compare(f, i)
    left, right = f.value(i.args[0]), f.value(i.args[1])
    kind = leaves(i.type)[0]
    return tuple(
        _icmp(f, i.extra["predicate"], bits_of(kind), a, b) for a, b in zip(left, right, strict=True)
    )


def _icmp(f: FunctionLowering, predicate: str, bits: int, left: Value, right: Value) -> Value:
    b = f.builder
    if is_pointer(left.type) or is_pointer(right.type):
        left, right = _integer(f, left), _integer(f, right)
    fmt = left.type
    assert isinstance(fmt, Format)
    if predicate in ("eq", "ne"):
        return b.arithmetic(predicate, fmt, left, right)
    opcode = _PREDICATES[predicate[1:]]
    if predicate[0] == "s":
        return b.arithmetic(opcode, fmt, left, right)
    plain = UNSIGNED[fmt]
    left, right = unsigned(b, left, bits), unsigned(b, right, bits)
    return b.arithmetic(opcode, plain, _as(f, left, plain), _as(f, right, plain))


def _integer(f: FunctionLowering, value: Value) -> Value:
    if isinstance(value, Constant):
        return Constant(I64, value.integer)
    return f.builder.cast(value, I64) if is_pointer(value.type) else value


def fcmp(f: FunctionLowering, i: Instruction) -> Lowered:
    left, right = f.value(i.args[0]), f.value(i.args[1])
    return tuple(_fcmp(f, i.extra["predicate"], a, b) for a, b in zip(left, right, strict=True))


def _fcmp(f: FunctionLowering, predicate: str, left: Value, right: Value) -> Value:
    """Ordered comparisons are false with NaN, unordered ones are true: the negation of the opposite."""
    b = f.builder
    fmt = left.type
    assert isinstance(fmt, Format)
    if predicate in ("true", "false"):
        return b.integer(int(predicate == "true"))
    if predicate in ("ord", "uno"):
        numbers = b.arithmetic(
            "and", I64, b.arithmetic("eq", fmt, left, left), b.arithmetic("eq", fmt, right, right)
        )
        return numbers if predicate == "ord" else b.arithmetic("xor", I64, numbers, b.integer(1))
    if predicate == "one":
        above = b.arithmetic("gt", fmt, left, right)
        return b.arithmetic("or", I64, above, b.arithmetic("lt", fmt, left, right))
    if predicate[0] == "o" or predicate == "une":
        return b.arithmetic(_PREDICATES[predicate[1:]], fmt, left, right)
    if predicate == "ueq":
        return b.arithmetic("xor", I64, _fcmp(f, "one", left, right), b.integer(1))
    opposite = {"ugt": "le", "uge": "lt", "ult": "ge", "ule": "gt"}[predicate]
    return b.arithmetic("xor", I64, b.arithmetic(opposite, fmt, left, right), b.integer(1))


def cast(f: FunctionLowering, i: Instruction) -> Lowered:
    values = f.value(i.args[0])
    if i.opcode == "bitcast":
        return _bitcast(f, i, values)
    if is_wide(element(i.args[0].type)) or is_wide(element(i.type)):
        return wide.convert(f, i)
    sources, targets = leaves(i.args[0].type), leaves(i.type)
    return tuple(convert(f, i.opcode, v, s, t) for v, s, t in zip(values, sources, targets, strict=True))


def convert(f: FunctionLowering, opcode: str, value: Value, source: LType, target: LType) -> Value:
    b = f.builder
    kind, from_bits, to_bits = f.scalar(target), bits_of(source), bits_of(target)
    if opcode == "trunc":
        return _truncate(f, value, kind, to_bits)
    if opcode == "zext":
        if from_bits == 1:
            return value if kind is I64 else b.cast(value, kind)
        return _narrowed(f, word(b, unsigned(b, value, from_bits), False), kind)
    if opcode == "sext":
        if from_bits == 1:
            value = b.arithmetic("neg", I64, value)
        return _narrowed(f, word(b, value), kind)
    if opcode in ("inttoptr", "ptrtoint", "addrspacecast"):
        return _address(f, opcode, value, kind)
    assert isinstance(kind, Format)
    return _number(f, opcode, value, kind, from_bits, to_bits)


def _truncate(f: FunctionLowering, value: Value, kind: object, to_bits: int) -> Value:
    b = f.builder
    if to_bits == 1:
        return b.arithmetic("and", I64, word(b, value), b.integer(1))
    assert isinstance(kind, Format)
    made = value if value.type is kind else b.cast(value, kind)
    return canonical(b, made, to_bits) if is_odd(to_bits) else made


def _narrowed(f: FunctionLowering, value: Value, kind: object) -> Value:
    assert isinstance(kind, Format)
    return value if value.type is kind else f.builder.cast(value, kind)


def _address(f: FunctionLowering, opcode: str, value: Value, kind: object) -> Value:
    b = f.builder
    if opcode == "inttoptr":
        return (
            Constant(ANY, value.integer)
            if isinstance(value, Constant)
            else b.cast(word(b, value, False), ANY)
        )
    if opcode == "ptrtoint":
        whole = Constant(I64, value.integer) if isinstance(value, Constant) else b.cast(value, I64)
        return _narrowed(f, whole, kind)
    return value


def _number(
    f: FunctionLowering, opcode: str, value: Value, kind: Format, from_bits: int, to_bits: int
) -> Value:
    b = f.builder
    if opcode in ("fptrunc", "fpext"):
        return _float(f, value, kind)
    if opcode in ("sitofp", "uitofp"):
        if from_bits == 1:
            wide = b.arithmetic("neg", I64, value) if opcode == "sitofp" else value
        elif opcode == "uitofp":
            plain = unsigned(b, value, from_bits)
            assert isinstance(plain.type, Format)
            wide = b.cast(plain, UNSIGNED[plain.type])
        else:
            wide = value
        return b.convert(wide, kind)
    target = UNSIGNED[kind] if opcode == "fptoui" else kind
    made = b.convert(value, target, "rz")
    whole = b.cast(made, kind) if target is not kind else made
    return canonical(b, whole, to_bits) if to_bits != 1 else b.arithmetic("and", I64, whole, b.integer(1))


def _float(f: FunctionLowering, value: Value, kind: Format) -> Value:
    return value if value.type is kind else f.builder.convert(value, kind)


def _bitcast(f: FunctionLowering, i: Instruction, values: Lowered) -> Lowered:
    source, target = i.args[0].type, i.type
    kinds = [f.scalar(leaf) for leaf in leaves(target)]
    if len(kinds) == len(values):
        pairs = zip(values, kinds, strict=True)
        return tuple(v if v.type == k else f.builder.cast(v, k) for v, k in pairs)
    from trilobite.processor.lang.bang.lower.memory import through_memory

    return through_memory(f, source, values, target)


def select(f: FunctionLowering, i: Instruction) -> Lowered:
    truth, yes, no = (f.value(arg) for arg in i.args)
    truths = truth if len(truth) == len(yes) else truth * len(yes)
    return tuple(choose(f, t, a, b) for t, a, b in zip(truths, yes, no, strict=True))


def choose(f: FunctionLowering, truth: Value, yes: Value, no: Value) -> Value:
    """Of two pointers into different memories, the result is a pointer into any."""
    if is_pointer(yes.type) and yes.type != no.type:
        return f.builder.emit("select", [truth, yes, no], {"type": ANY}, [ANY]).result
    return f.builder.select(truth, yes, no)


def extract_value(f: FunctionLowering, i: Instruction) -> Lowered:
    first, behind = leaf_range(i.args[0].type, i.extra["indices"])
    return f.value(i.args[0])[first:behind]


def insert_value(f: FunctionLowering, i: Instruction) -> Lowered:
    first, behind = leaf_range(i.args[0].type, i.extra["indices"])
    whole = f.value(i.args[0])
    return (*whole[:first], *f.value(i.args[1]), *whole[behind:])


def extract_element(f: FunctionLowering, i: Instruction) -> Lowered:
    _refuse_wide_lanes(f, i)
    lanes, place = f.value(i.args[0]), i.args[1].value
    if isinstance(place, Number | Zero):
        return (lanes[int(place.value) if isinstance(place, Number) else 0],)
    chosen, index = lanes[0], f.one(i.args[1])
    for number, lane in enumerate(lanes[1:], 1):
        chosen = f.builder.select(_is(f, index, number), lane, chosen)
    return (chosen,)


def insert_element(f: FunctionLowering, i: Instruction) -> Lowered:
    _refuse_wide_lanes(f, i)
    lanes, item, place = f.value(i.args[0]), f.one(i.args[1]), i.args[2].value
    if isinstance(place, Number | Zero):
        at = int(place.value) if isinstance(place, Number) else 0
        return (*lanes[:at], item, *lanes[at + 1 :])
    index = f.one(i.args[2])
    return tuple(f.builder.select(_is(f, index, number), item, lane) for number, lane in enumerate(lanes))


def _is(f: FunctionLowering, index: Value, number: int) -> Value:
    assert isinstance(index.type, Format)
    return f.builder.arithmetic("eq", index.type, index, Constant(index.type, number))


def _refuse_wide_lanes(f: FunctionLowering, i: Instruction) -> None:
    if is_wide(element(i.args[0].type)):
        f.refuse("a vector of 128-bit integers")


def shuffle(f: FunctionLowering, i: Instruction) -> Lowered:
    _refuse_wide_lanes(f, i)
    lanes = (*f.value(i.args[0]), *f.value(i.args[1]))
    mask, kind = i.args[2].value, i.args[2].type
    assert isinstance(kind, Vector | Array)
    places = [0] * kind.count
    if isinstance(mask, Group):
        places = [int(item.value.value) if isinstance(item.value, Number) else 0 for item in mask.items]
    return tuple(lanes[place] for place in places)
