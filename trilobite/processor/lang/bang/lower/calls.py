"""Calls: to intrinsics of the table, to LLVM's own, to the C library, to the source's functions, assembly."""

from __future__ import annotations

import re
from collections.abc import Callable

from trilobite.processor.isa.formats import F64, I64, Format
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.llvm.types import Vector, Void
from trilobite.processor.lang.bang.llvm.values import Assembly, Global, Text, constant_bytes
from trilobite.processor.lang.bang.lower.assembly import assembly
from trilobite.processor.lang.bang.lower.control import call_defined
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.library import library_rule
from trilobite.processor.lang.bang.lower.memory import copy_bytes, fill_bytes
from trilobite.processor.lang.bang.lower.pointers import call_pointer
from trilobite.processor.lang.bang.lower.scalars import UNSIGNED, bits_of, canonical, leaves, word
from trilobite.processor.lang.bang.lower.tensor import lower_intrinsic
from trilobite.processor.lang.ir import Constant, Value
from trilobite.processor.lang.types import is_float

_NOTHING = tuple(
    f"llvm.{name}"
    for name in "lifetime dbg assume experimental.noalias donothing prefetch stacksave stackrestore "
    "invariant var.annotation".split()
)


def call(f: FunctionLowering, i: Instruction) -> Lowered:
    callee = i.extra["callee"].value
    if isinstance(callee, Assembly):
        return assembly(f, i, callee)
    if not isinstance(callee, Global):
        return call_pointer(f, i)
    name = callee.name.removeprefix("\x01")
    if name.startswith("bang."):
        return lower_intrinsic(f, i, name)
    if name.startswith("llvm."):
        return _llvm(f, i, name)
    if f.owner.llvm.function(name) is not None and not name.startswith("_ZTW"):
        return call_defined(f, i, name)
    return _library(f, i, name)


def _llvm(f: FunctionLowering, i: Instruction, name: str) -> Lowered:
    if name.startswith(_NOTHING):
        return f.dummy(i.type)
    family = name.split(".")[1]
    special = _FAMILIES.get(family)
    if special is not None:
        return special(f, i)
    rule = library_rule(name)
    if rule is not None:
        columns = [f.value(arg) for arg in i.args]
        return tuple(rule(f, lane) for lane in zip(*columns, strict=True))
    if ".with.overflow" in name:
        return _overflow(f, i, name)
    f.refuse(f"the LLVM function {name} is not supported")
    return f.dummy(i.type)


def _each(
    rule: Callable[[FunctionLowering, list[Value], int], Value],
) -> Callable[[FunctionLowering, Instruction], Lowered]:
    """A rule for scalars, for every lane."""

    def lowered(f: FunctionLowering, i: Instruction) -> Lowered:
        lanes = leaves(i.args[0].type)
        columns = [f.value(arg) for arg in i.args]
        wide = [column if len(column) == len(lanes) else column * len(lanes) for column in columns]
        return tuple(rule(f, [column[n] for column in wide], bits_of(lane)) for n, lane in enumerate(lanes))

    return lowered


def _format(value: Value) -> Format:
    assert isinstance(value.type, Format)
    return value.type


def _extreme(opcode: str, is_signed: bool) -> Callable[[FunctionLowering, list[Value], int], Value]:
    def rule(f: FunctionLowering, a: list[Value], bits: int) -> Value:
        fmt = _format(a[0])
        if is_signed:
            return f.builder.arithmetic(opcode, fmt, a[0], a[1])
        compare = "lt" if opcode == "min" else "gt"
        plain = [
            Constant(UNSIGNED[fmt], v.integer & ((1 << fmt.bits) - 1)) if isinstance(v, Constant) else v
            for v in a
        ]
        return f.builder.select(f.builder.arithmetic(compare, UNSIGNED[fmt], *plain), a[0], a[1])

    return rule


def _count(opcode: str) -> Callable[[FunctionLowering, list[Value], int], Value]:
    def rule(f: FunctionLowering, a: list[Value], bits: int) -> Value:
        fmt = _format(a[0])
        made = f.builder.arithmetic(opcode, UNSIGNED[fmt], a[0])
        return f.builder.cast(made, fmt)

    return rule


def _absolute(f: FunctionLowering, a: list[Value], bits: int) -> Value:
    return f.builder.arithmetic("abs", _format(a[0]), a[0])


def _funnel(is_left: bool) -> Callable[[FunctionLowering, list[Value], int], Value]:
    """The upper (or lower) word of two, shifted; a shift by 0 gives the first (or second)."""

    def rule(f: FunctionLowering, a: list[Value], bits: int) -> Value:
        b, fmt = f.builder, _format(a[0])
        plain = UNSIGNED[fmt]
        amount = b.arithmetic("and", fmt, a[2], Constant(fmt, bits - 1))
        back = b.arithmetic("sub", fmt, Constant(fmt, bits), amount)
        left, right = (amount, back) if is_left else (back, amount)
        high = b.arithmetic("shl", fmt, a[0], left)
        low = b.cast(b.arithmetic("shr", plain, a[1], right), fmt)
        made = b.arithmetic("or", fmt, high, low)
        none = b.arithmetic("eq", fmt, amount, Constant(fmt, 0))
        return b.select(none, a[0] if is_left else a[1], made)

    return rule


def _swap(f: FunctionLowering, a: list[Value], bits: int) -> Value:
    b, fmt = f.builder, _format(a[0])
    made: Value = Constant(fmt, 0)
    for place in range(bits // 8):
        byte = b.arithmetic(
            "and",
            fmt,
            b.cast(b.arithmetic("shr", UNSIGNED[fmt], a[0], Constant(UNSIGNED[fmt], 8 * place)), fmt),
            Constant(fmt, 255),
        )
        made = b.arithmetic(
            "or", fmt, made, b.arithmetic("shl", fmt, byte, Constant(fmt, bits - 8 - 8 * place))
        )
    return made


def _saturate(opcode: str, is_signed: bool) -> Callable[[FunctionLowering, list[Value], int], Value]:
    def rule(f: FunctionLowering, a: list[Value], bits: int) -> Value:
        b, fmt = f.builder, _format(a[0])
        wide = b.arithmetic(opcode, I64, word(b, a[0], is_signed), word(b, a[1], is_signed))
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
        held = b.arithmetic("min", I64, b.arithmetic("max", I64, wide, b.integer(low)), b.integer(high))
        return b.cast(held, fmt) if fmt is not I64 else held

    return rule


def _three_way(is_signed: bool) -> Callable[[FunctionLowering, list[Value], int], Value]:
    def rule(f: FunctionLowering, a: list[Value], bits: int) -> Value:
        from trilobite.processor.isa.formats import I8

        b = f.builder
        fmt = _format(a[0]) if is_signed else UNSIGNED[_format(a[0])]
        above, below = b.arithmetic("gt", fmt, a[0], a[1]), b.arithmetic("lt", fmt, a[0], a[1])
        return b.cast(b.arithmetic("sub", I64, above, below), I8)

    return rule


def _overflow(f: FunctionLowering, i: Instruction, name: str) -> Lowered:
    """Sum, difference or product, and whether it did not fit; up to 32 bits."""
    b = f.builder
    left, right = f.one(i.args[0]), f.one(i.args[1])
    bits, is_signed = bits_of(i.args[0].type), name.split(".")[1][0] == "s"
    if bits > 32:
        f.refuse(f"{name}: a test for overflow of {bits} bits")
        return f.dummy(i.type)
    wide = b.arithmetic(name.split(".")[1][1:4], I64, word(b, left, is_signed), word(b, right, is_signed))
    made = canonical(b, b.cast(wide, _format(left)), bits)
    return (made, b.arithmetic("ne", I64, word(b, made, is_signed), wide))


def _threadlocal(f: FunctionLowering, i: Instruction) -> Lowered:
    return f.value(i.args[0])


def _memory(f: FunctionLowering, i: Instruction) -> Lowered:
    copy_bytes(f, f.one(i.args[0]), f.one(i.args[1]), f.one(i.args[2]))
    return ()


def _set(f: FunctionLowering, i: Instruction) -> Lowered:
    fill_bytes(f, f.one(i.args[0]), f.one(i.args[1]), f.one(i.args[2]))
    return ()


def _trap(f: FunctionLowering, i: Instruction) -> Lowered:
    from trilobite.processor.lang.bang.lower.composite import trap_here

    trap_here(f, "the kernel stopped itself")
    return f.dummy(i.type)


def _expected(f: FunctionLowering, i: Instruction) -> Lowered:
    return f.value(i.args[0])


def _class(f: FunctionLowering, i: Instruction) -> Lowered:
    """is.fpclass: NaN, infinities and zero, told by comparison."""
    b, x = f.builder, f.one(i.args[0])
    fmt, mask = _format(x), int(getattr(i.args[1].value, "value", 0))
    infinite = Constant(fmt, float("inf"))
    size = b.arithmetic("abs", fmt, x)
    tests = [
        (0x003, b.arithmetic("ne", fmt, x, x)),
        (0x204, b.arithmetic("eq", fmt, size, infinite)),
        (0x060, b.arithmetic("eq", fmt, x, Constant(fmt, 0.0))),
        (
            0x198,
            b.arithmetic(
                "and",
                I64,
                b.arithmetic("lt", fmt, size, infinite),
                b.arithmetic("ne", fmt, x, Constant(fmt, 0.0)),
            ),
        ),
    ]
    made: Value = b.integer(0)
    for bits, truth in tests:
        if mask & bits not in (0, bits):
            f.refuse("a test of one sign of a class of floating-point numbers")
        if mask & bits:
            made = b.arithmetic("or", I64, made, truth)
    return (made,)


_FAMILIES: dict[str, Callable[[FunctionLowering, Instruction], Lowered]] = {
    "smin": _each(_extreme("min", True)), "smax": _each(_extreme("max", True)),
    "umin": _each(_extreme("min", False)), "umax": _each(_extreme("max", False)),
    "abs": _each(_absolute), "ctpop": _each(_count("popc")), "ctlz": _each(_count("clz")),
    "cttz": _each(_count("ctz")),
    "fshl": _each(_funnel(True)), "fshr": _each(_funnel(False)), "bswap": _each(_swap),
    "uadd": lambda f, i: _saturated(f, i, "add", False), "usub": lambda f, i: _saturated(f, i, "sub", False),
    "sadd": lambda f, i: _saturated(f, i, "add", True), "ssub": lambda f, i: _saturated(f, i, "sub", True),
    "scmp": _each(_three_way(True)), "ucmp": _each(_three_way(False)),
    "threadlocal": _threadlocal, "memcpy": _memory, "memmove": _memory, "memset": _set, "trap": _trap,
    "ubsantrap": _trap, "debugtrap": _trap, "expect": _expected, "is": _class, "launder": _expected,
    "strip": _expected, "ptrmask": lambda f, i: _mask(f, i), "readcyclecounter": lambda f, i: _cycles(f),
}  # fmt: skip


def _cycles(f: FunctionLowering) -> Lowered:
    return (f.builder.emit("clock", results=[I64]).result,)


def _saturated(f: FunctionLowering, i: Instruction, opcode: str, is_signed: bool) -> Lowered:
    name = str(i.extra["callee"].value.name)
    if ".sat." not in name:
        return _overflow(f, i, name)
    if bits_of(leaves(i.type)[0]) == 64:
        f.refuse(f"{name}: saturation of 64 bits")
        return f.dummy(i.type)
    return _each(_saturate(opcode, is_signed))(f, i)


def _mask(f: FunctionLowering, i: Instruction) -> Lowered:
    from trilobite.processor.lang.types import ANY

    b = f.builder
    return (b.cast(b.arithmetic("and", I64, b.cast(f.one(i.args[0]), I64), f.one(i.args[1])), ANY),)


# the C library
def _library(f: FunctionLowering, i: Instruction, name: str) -> Lowered:
    if name in ("printf", "__bang_printf"):
        return _printf(f, i)
    if name in ("memcpy", "memmove"):
        _memory(f, i)
        return f.value(i.args[0])
    if name == "memset":
        fill_bytes(f, f.one(i.args[0]), f.one(i.args[1]), f.one(i.args[2]))
        return f.value(i.args[0])
    if name in ("abort", "__assert_fail", "exit", "_exit", "__assert", "_ZSt9terminatev"):
        return _trap(f, i)
    if name == "gettimeofday":
        return _time(f, i)
    if name.startswith("_ZTW"):
        return (f.owner.address(f, name[4:].lstrip("0123456789") or name),)
    if name in ("puts", "putchar"):
        return _put(f, i, name)
    rule = library_rule(name)
    if rule is not None and not isinstance(i.type, Void | Vector):
        return (rule(f, [f.one(arg) for arg in i.args]),)
    f.refuse(f"the function {_readable(name)} has no body here and is no intrinsic")
    return f.dummy(i.type)


def _readable(name: str) -> str:
    """A mangled name's own words, as far as they are plain."""
    found = re.findall(r"(\d+)([A-Za-z_]\w*)", name)
    if name.startswith("_Z") and found:
        length, rest = found[0]
        return str(rest)[: int(length)]
    return name


def _format_text(f: FunctionLowering, i: Instruction) -> str | None:
    value = i.args[0].value
    variable = f.owner.llvm.variable(value.name) if isinstance(value, Global) else None
    if variable is None or variable.init is None:
        return None
    content = (
        constant_bytes(variable.init)
        if not isinstance(variable.init.value, Text)
        else variable.init.value.content
    )
    return content.split(b"\0")[0].decode("latin-1") if content is not None else None


def _printf(f: FunctionLowering, i: Instruction) -> Lowered:
    form = _format_text(f, i)
    if form is None:
        f.refuse("printf with a format that is no literal")
        return f.dummy(i.type)
    values: list[Value] = []
    for arg in i.args[1:]:
        value = f.one(arg)
        values.append(
            f.builder.convert(value, F64) if is_float(value.type) and value.type is not F64 else value
        )
    f.builder.print(form, *values)
    return f.dummy(i.type)


def _put(f: FunctionLowering, i: Instruction, name: str) -> Lowered:
    if name == "putchar":
        f.builder.print("%c", f.one(i.args[0]))
    else:
        form = _format_text(f, i)
        if form is None:
            f.builder.print("%s\n", f.one(i.args[0]))
        else:
            f.builder.print(form.replace("%", "%%") + "\n")
    return f.dummy(i.type)


def _time(f: FunctionLowering, i: Instruction) -> Lowered:
    """Sources use it as a timer: seconds 0, microseconds the clock."""
    b, at = f.builder, f.one(i.args[0])
    clock = b.emit("clock", results=[I64]).result
    b.store(I64, b.integer(0), at)
    b.store(I64, clock, at, 8)
    return f.dummy(i.type)
