"""Locals, loads, stores, addresses, and the copies that LLVM writes itself.

An alloca that is only loaded and stored whole becomes a variable of kernel IR (what the debugger shows at
-O0); any other is a buffer in the core's frame. Structs are loaded and stored scalar by scalar.
"""

from __future__ import annotations

from trilobite.processor.isa.formats import I8, I16, I32, I64, Format
from trilobite.processor.lang.bang.llvm.described import members
from trilobite.processor.lang.bang.llvm.instructions import DebugRecord, Instruction
from trilobite.processor.lang.bang.llvm.types import (
    Array,
    Int,
    LType,
    Ptr,
    Struct,
    Vector,
    size_of,
    struct_offset,
)
from trilobite.processor.lang.bang.llvm.values import Expression, Global, Local, Number, Operand, Zero
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.scalars import (
    canonical,
    is_aggregate,
    is_odd,
    leaf_offsets,
    leaves,
    type_of,
    unsigned,
    word,
)
from trilobite.processor.lang.ir import Buffer, Constant, Value
from trilobite.processor.lang.types import ANY, is_pointer

REGISTER = 128  # what is aligned so is a vector register and lies in NRAM, wherever the stack is
SMALL = 64  # bytes that are copied by loads and stores rather than by an instruction


def plan_locals(f: FunctionLowering) -> None:
    """Decides for every alloca whether it is a variable."""
    f.bit_fields = _with_bit_fields(f)
    found: dict[str, LType] = {}
    for block in f.source.blocks:
        for i in block.instructions:
            if (
                i.opcode == "alloca"
                and not i.args
                and not is_aggregate(i.extra["type"])
                and type_of(i.extra["type"])
            ):
                found[i.result] = i.extra["type"]
    for block in f.source.blocks:
        for i in block.instructions:
            for name in _escapes(i, found):
                found.pop(name, None)
    names = f.owner.declared[f.function] = _declared(f)
    for name, kind in found.items():
        number = names.get(name)
        scalar = f.scalar(kind)
        if number is None:
            f.variables[name] = f.function.add_variable(name, scalar, "", f.function.location)
        else:
            f.variables[name] = f.variable_of(number, scalar)


def _declared(f: FunctionLowering) -> dict[str, int]:
    records = [r for block in f.source.blocks for r in block.items if isinstance(r, DebugRecord)]
    return {
        r.value.value.name: r.variable
        for r in records
        if r.kind == "declare" and isinstance(r.value.value, Local)
    }


def _escapes(i: Instruction, known: dict[str, LType]) -> list[str]:
    """Allocas that the instruction does more with than to load or store them whole."""
    if i.opcode == "load" and isinstance(i.args[0].value, Local):
        name = i.args[0].value.name
        return [name] if name in known and known[name] != i.type else []
    if i.opcode == "call" and getattr(getattr(i.extra["callee"].value, "name", None), "startswith", bool)(
        "llvm.lifetime"
    ):
        return []
    used = [a.value.name for a in i.args if isinstance(a.value, Local)]
    if i.opcode == "store":
        used = [a.value.name for a in i.args[:1] if isinstance(a.value, Local)]
        place = i.args[1].value
        if isinstance(place, Local) and place.name in known and known[place.name] != i.type:
            used.append(place.name)
    return [name for name in used if name in known]


def alloca(f: FunctionLowering, i: Instruction) -> Lowered:
    if i.result in f.variables:
        return (Constant(ANY, 0),)
    count = i.args[0].value if i.args else Number(1)
    if not isinstance(count, Number):
        from trilobite.processor.lang.bang.lower.arrays import array_of_run_time

        return array_of_run_time(f, i)
    size, name, align = size_of(i.extra["type"]) * int(count.value), i.result or "local", i.extra["align"]
    if align >= REGISTER:
        made = Buffer(name, "nram", size, align, f.builder.location, anywhere=True)
        buffer = f.owner.module.add_buffer(made)
    else:
        buffer = f.stack(size, name, align)
    number = f.owner.declared[f.function].get(name)
    if number is not None:
        buffer.local = (f.debug.scope_name(number), f.debug.name(number))
        buffer.members = members(f.debug, f.debug.reference(number, "type"))
        if len(buffer.members) == 1:
            buffer.element, buffer.shape = buffer.members[0].format, buffer.members[0].shape
    place = f.builder.address(buffer)
    if name in f.bit_fields:  # a field is written with the bits beside it, which have no value yet
        repeat(f, place, I8, Constant(I8, 0), f.builder.integer(size))
    return (place,)


def _with_bit_fields(f: FunctionLowering) -> set[str]:
    """Locals of which clang loads words to change some of their bits."""
    instructions = [i for block in f.source.blocks for i in block.instructions]
    bases = {
        i.result: i.args[0].value.name
        for i in instructions
        if i.opcode == "getelementptr" and isinstance(i.args[0].value, Local)
    }
    found = set()
    for i in instructions:
        if (
            i.opcode == "load"
            and (i.result or "").startswith("bf.load")
            and isinstance(i.args[0].value, Local)
        ):
            name = i.args[0].value.name
            while name in bases:
                name = bases[name]
            found.add(name)
    return found


def _variable(f: FunctionLowering, pointer: Operand) -> str | None:
    if isinstance(pointer.value, Local) and pointer.value.name in f.variables:
        return pointer.value.name
    return None


def load(f: FunctionLowering, i: Instruction) -> Lowered:
    name = _variable(f, i.args[0])
    if name is not None:
        return (f.builder.get(f.variables[name]),)
    if isinstance(i.args[0].value, Global):
        special = f.owner.special(f, i.args[0].value.name, i.type)
        if special is not None:
            return special
    return load_leaves(f, i.type, f.one(i.args[0]))


def load_leaves(f: FunctionLowering, kind: LType, pointer: Value) -> Lowered:
    pairs = zip(leaves(kind), leaf_offsets(kind), strict=True)
    return tuple(_load(f, leaf, pointer, offset) for leaf, offset in pairs)


def _load(f: FunctionLowering, kind: LType, pointer: Value, offset: int) -> Value:
    b = f.builder
    scalar = f.scalar(kind)
    if is_pointer(scalar):
        return b.cast(b.load(I64, pointer, offset), ANY)
    assert isinstance(scalar, Format)
    if isinstance(kind, Int) and kind.bits == 1:
        return b.arithmetic("and", I64, b.cast(b.load(I8, pointer, offset), I64), b.integer(1))
    value = b.load(scalar, pointer, offset)
    return canonical(b, value, kind.bits) if isinstance(kind, Int) and is_odd(kind.bits) else value


def store(f: FunctionLowering, i: Instruction) -> Lowered:
    values = f.value(i.args[0])
    name = _variable(f, i.args[1])
    if name is not None:
        f.builder.set(f.variables[name], values[0])
        return ()
    if isinstance(i.args[1].value, Global) and is_guard(i.args[1].value.name):
        return ()
    store_leaves(f, i.type, values, f.one(i.args[1]))
    return ()


def is_guard(name: str) -> bool:
    """Of the initialiser of a static: it runs every time."""
    return name.startswith("_ZGV") or name == "__tls_guard"


def store_leaves(f: FunctionLowering, kind: LType, values: Lowered, pointer: Value) -> None:
    for leaf, offset, value in zip(leaves(kind), leaf_offsets(kind), values, strict=True):
        _store(f, leaf, value, pointer, offset)


def _store(f: FunctionLowering, kind: LType, value: Value, pointer: Value, offset: int) -> None:
    b = f.builder
    if is_pointer(value.type):
        value = Constant(I64, value.integer) if isinstance(value, Constant) else b.cast(value, I64)
    elif isinstance(kind, Int) and kind.bits == 1:
        value = Constant(I8, value.integer) if isinstance(value, Constant) else b.cast(value, I8)
    elif isinstance(kind, Int) and is_odd(kind.bits):
        value = unsigned(b, value, kind.bits)
    assert isinstance(value.type, Format)
    b.store(value.type, value, pointer, offset)


def through_memory(f: FunctionLowering, source: LType, values: Lowered, target: LType) -> Lowered:
    """The same bytes read as another type."""
    pointer = f.builder.address(f.stack(max(size_of(source), size_of(target)), "bits"))
    store_leaves(f, source, values, pointer)
    return load_leaves(f, target, pointer)


# addresses
def gep(f: FunctionLowering, i: Instruction) -> Lowered:
    if isinstance(i.args[0].type, Vector):
        f.refuse("an address of several lanes at once")
        return f.dummy(i.args[0].type)
    return (_displaced(f, f.one(i.args[0]), i.extra["type"], i.args[1:]),)


def _displaced(f: FunctionLowering, pointer: Value, base: LType, indices: list[Operand]) -> Value:
    b = f.builder
    fixed, current, moving = 0, base, pointer
    for place, item in enumerate(indices):
        if place and isinstance(current, Struct):
            number = int(item.value.value) if isinstance(item.value, Number) else 0
            fixed += struct_offset(current, number)
            current = current.fields[number]
            continue
        if place:
            assert isinstance(current, Array | Vector)
            current = current.element
        step = size_of(current)
        if isinstance(item.value, Number | Zero):
            fixed += step * (int(item.value.value) if isinstance(item.value, Number) else 0)
        else:
            index = word(b, f.one(item))
            moving = b.offset(
                moving, index if step == 1 else b.arithmetic("mul", I64, index, b.integer(step))
            )
    return b.offset(moving, b.integer(fixed)) if fixed else moving


def constant_expression(f: FunctionLowering, item: Operand) -> Lowered:
    made = item.value
    assert isinstance(made, Expression)
    if made.opcode == "getelementptr":
        return (_displaced(f, f.one(made.args[0]), made.type, list(made.args[1:])),)
    from trilobite.processor.lang.bang.lower.arithmetic import binary, cast

    if made.opcode in ("bitcast", "inttoptr", "ptrtoint", "addrspacecast", "trunc", "zext", "sext"):
        return cast(f, Instruction(made.opcode, made.type, list(made.args)))
    return binary(f, Instruction(made.opcode, made.args[0].type, list(made.args)))


# copies that LLVM writes
def copy_bytes(f: FunctionLowering, target: Value, source: Value, size: Value) -> None:
    """memcpy and memmove: small ones by loads and stores, all loads first."""
    b = f.builder
    if isinstance(size, Constant) and size.integer <= SMALL:
        pieces = _pieces(size.integer)
        loaded = [(fmt, at, b.load(fmt, source, at)) for fmt, at in pieces]
        for fmt, at, value in loaded:
            b.store(fmt, value, target, at)
        return
    b.tensor("COPY", [target, source, word(b, size, False)])


def _pieces(size: int) -> list[tuple[Format, int]]:
    found: list[tuple[Format, int]] = []
    at = 0
    for fmt in (I64, I32, I16, I8):
        while size - at >= fmt.bits // 8:
            found.append((fmt, at))
            at += fmt.bits // 8
    return found


def fill_bytes(f: FunctionLowering, target: Value, value: Value, size: Value) -> None:
    """memset."""
    b = f.builder
    if isinstance(size, Constant) and isinstance(value, Constant) and size.integer <= 4 * SMALL:
        byte = value.integer & 0xFF
        for fmt, at in _pieces(size.integer):
            pattern = int.from_bytes(bytes([byte]) * (fmt.bits // 8), "little", signed=True)
            b.store(fmt, Constant(fmt, pattern), target, at)
        return
    byte_value = Constant(I8, value.integer) if isinstance(value, Constant) else value
    if byte_value.type is not I8:
        byte_value = b.cast(byte_value, I8)  # the C library's memset takes an int
    repeat(f, target, I8, byte_value, word(b, size, False))


def repeat(f: FunctionLowering, target: Value, fmt: Format, value: Value, count: Value) -> None:
    """count elements of one value at any address: a copy whose source does not move."""
    b = f.builder
    cell = b.address(f.stack(8, "cell"))
    b.store(fmt, value, cell)
    step = b.integer(fmt.bits // 8)
    b.tensor("COPY2", [target, cell, step, step, b.integer(0), count])


# undivided accesses
_RMW = {"add": "add", "xchg": "exch", "and": "and", "or": "or", "xor": "xor", "max": "max", "min": "min",
        "umax": "max", "umin": "min", "fadd": "add"}  # fmt: skip


def atomicrmw(f: FunctionLowering, i: Instruction) -> Lowered:
    from trilobite.processor.lang.bang.lower.scalars import UNSIGNED

    operation = _RMW.get(i.extra["op"])
    value = f.one(i.args[1])
    if operation is None or not isinstance(value.type, Format) or value.type.bits < 32:
        f.refuse(f"an atomic {i.extra['op']}")
        return f.dummy(i.type)
    fmt = UNSIGNED[value.type] if i.extra["op"][0] == "u" else value.type
    made = f.builder.atomic(operation, fmt, f.one(i.args[0]), value)
    return (f.builder.cast(made, value.type) if fmt is not value.type else made,)


def cmpxchg(f: FunctionLowering, i: Instruction) -> Lowered:
    pointer, expected, value = (f.one(arg) for arg in i.args[:3])
    if expected.type not in (I32, I64):
        f.refuse("a compare-and-swap of a width other than 32 and 64 bits")
        return (expected, f.builder.integer(0))
    assert isinstance(expected.type, Format)
    old = f.builder.cas(expected.type, pointer, expected, value)
    return (old, f.builder.arithmetic("eq", expected.type, old, expected))


POINTER = Ptr()
