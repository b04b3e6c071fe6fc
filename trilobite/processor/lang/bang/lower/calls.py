"""Calls: to intrinsics of the table, to LLVM's own, to the C library, to the source's functions, assembly."""

from __future__ import annotations

from collections.abc import Callable

from trilobite.processor.isa.formats import F64, I64
from trilobite.processor.lang.bang import device_library
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.llvm.types import Vector, Void
from trilobite.processor.lang.bang.llvm.values import Assembly, Global, Local, Operand, Text, constant_bytes
from trilobite.processor.lang.bang.lower import wide
from trilobite.processor.lang.bang.lower.arrays import restore, save
from trilobite.processor.lang.bang.lower.assembly import assembly
from trilobite.processor.lang.bang.lower.classes import float_class
from trilobite.processor.lang.bang.lower.control import call_defined
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.integers import (
    absolute,
    count,
    each,
    extreme,
    format_of,
    funnel,
    overflow,
    reverse,
    saturated,
    swap,
    three_way,
)
from trilobite.processor.lang.bang.lower.library import library_rule
from trilobite.processor.lang.bang.lower.memory import copy_bytes, fill_bytes
from trilobite.processor.lang.bang.lower.numbers import parts, split
from trilobite.processor.lang.bang.lower.pointers import call_pointer
from trilobite.processor.lang.bang.lower.scalars import element, is_wide
from trilobite.processor.lang.bang.lower.tensor import lower_intrinsic
from trilobite.processor.lang.ir import Value
from trilobite.processor.lang.types import is_float

HANDS = 8  # through how many locals the format of a printf is followed
_NOTHING = tuple(
    f"llvm.{name}"
    for name in "lifetime dbg assume experimental.noalias donothing prefetch invariant var.annotation".split()
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
    if i.args and is_wide(element(i.args[0].type)):
        made = wide.call(f, i, name)
        if made is None:
            f.refuse(f"the LLVM function {name} is not supported")
        return f.dummy(i.type) if made is None else made
    special = _FAMILIES.get(family)
    if special is not None:
        return special(f, i)
    rule = library_rule(name)
    if rule is not None:
        columns = [f.value(arg) for arg in i.args]
        return tuple(rule(f, lane) for lane in zip(*columns, strict=True))
    if ".with.overflow" in name:
        return overflow(f, i, name)
    f.refuse(f"the LLVM function {name} is not supported")
    return f.dummy(i.type)


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


def _failed_assertion(f: FunctionLowering, i: Instruction) -> Lowered:
    from trilobite.processor.lang.bang.lower.composite import trap_here

    trap_here(f, f"assertion failed: {_format_text(f, i) or 'false'}")
    return f.dummy(i.type)


def _expected(f: FunctionLowering, i: Instruction) -> Lowered:
    return f.value(i.args[0])


_FAMILIES: dict[str, Callable[[FunctionLowering, Instruction], Lowered]] = {
    "smin": each(extreme("min", True)), "smax": each(extreme("max", True)),
    "umin": each(extreme("min", False)), "umax": each(extreme("max", False)),
    "abs": each(absolute), "ctpop": each(count("popc")), "ctlz": each(count("clz")),
    "cttz": each(count("ctz")),
    "fshl": each(funnel(True)), "fshr": each(funnel(False)), "bswap": each(swap),
    "bitreverse": each(reverse),
    "uadd": lambda f, i: saturated(f, i, "add", False), "usub": lambda f, i: saturated(f, i, "sub", False),
    "sadd": lambda f, i: saturated(f, i, "add", True), "ssub": lambda f, i: saturated(f, i, "sub", True),
    "scmp": each(three_way(True)), "ucmp": each(three_way(False)),
    "threadlocal": _threadlocal, "memcpy": _memory, "memmove": _memory, "memset": _set, "trap": _trap,
    "frexp": lambda f, i: split(f, f.one(i.args[0])), "modf": lambda f, i: parts(f, f.one(i.args[0])),
    "stacksave": save, "stackrestore": restore, "sincos": lambda f, i: _sincos(f, i),
    "ubsantrap": _trap, "debugtrap": _trap, "expect": _expected, "is": float_class, "launder": _expected,
    "strip": _expected, "ptrmask": lambda f, i: _mask(f, i), "readcyclecounter": lambda f, i: _cycles(f),
}  # fmt: skip


def _sincos(f: FunctionLowering, i: Instruction) -> Lowered:
    x = f.one(i.args[0])
    return tuple(f.builder.arithmetic(name, format_of(x), x) for name in ("sin", "cos"))


def _cycles(f: FunctionLowering) -> Lowered:
    return (f.builder.emit("clock", results=[I64]).result,)


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
    if name in ("__assert_fail", "__assert"):
        return _failed_assertion(f, i)
    if name in ("abort", "exit", "_exit", "_ZSt9terminatev"):
        return _trap(f, i)
    if name == "gettimeofday":
        return _time(f, i)
    if name.startswith("_ZTW"):
        f.owner.computing.add(f.function)
        return (f.owner.address(f, _wrapped(f, name)),)
    if name in ("puts", "putchar"):
        return _put(f, i, name)
    rule = library_rule(name)
    gives_none = isinstance(i.type, Void)  # sincos writes both where it is told
    if rule is None or isinstance(i.type, Vector) or (gives_none and not name.startswith("sincos")):
        return _bodiless(f, i, name)
    made = rule(f, [f.one(arg) for arg in i.args])
    return f.dummy(i.type) if gives_none else (made,)


def _bodiless(f: FunctionLowering, i: Instruction, name: str) -> Lowered:
    """A function that the library keeps in its binary, or that there is no such thing as on the processor."""
    if f.owner.llvm.function(device_library.PREFIX + name) is not None:
        return call_defined(f, i, device_library.PREFIX + name)
    if device_library.gives_nothing(name):
        return f.dummy(i.type)
    from trilobite.processor.lang.bang.lower.composite import trap_here

    allocating, error = device_library.allocates(name), device_library.stops(name)
    if allocating:
        f.refuse(f"dynamic allocation ({allocating}): there is no heap; an array of constant size serves")
    elif error:
        trap_here(f, f"the library stopped: {(i.args and _format_text(f, i)) or error}")
    else:
        f.refuse(f"the function {device_library.readable(name)} has no body here and is no intrinsic")
    return f.dummy(i.type)


def _wrapped(f: FunctionLowering, name: str) -> str:
    """The variable that a function `_ZTW...` gives the address of: mangled, or a plain name."""
    mangled = f"_Z{name[4:]}"
    return mangled if f.owner.llvm.variable(mangled) is not None else name[4:].lstrip("0123456789")


def _format_text(f: FunctionLowering, i: Instruction) -> str | None:
    value = _handed_on(f, i.args[0])
    variable = f.owner.llvm.variable(value.name) if isinstance(value, Global) else None
    if variable is None or variable.init is None:
        return None
    content = (
        constant_bytes(variable.init)
        if not isinstance(variable.init.value, Text)
        else variable.init.value.content
    )
    return content.split(b"\0")[0].decode("latin-1") if content is not None else None


def _handed_on(f: FunctionLowering, operand: Operand) -> object:
    """The value, or what was stored in the local that it is loaded from, if one thing was."""
    instructions = [i for block in f.source.blocks for i in block.instructions]
    loads = {i.result: i.args[0].value for i in instructions if i.opcode == "load" and i.result}
    stores = [(i.args[1].value, i.args[0]) for i in instructions if i.opcode == "store"]
    value: object = operand.value
    for _ in range(HANDS):
        place = loads.get(value.name) if isinstance(value, Local) else None
        kept = [stored.value for at, stored in stores if isinstance(place, Local) and at == place]
        if len(kept) != 1:
            return value
        value = kept[0]
    return value


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
