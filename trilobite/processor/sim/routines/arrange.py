"""Instructions that move elements as routines: by a table of the site, or by indices in memory.

Enters: an instruction. Leaves: the text of its routine, and for those that only depend on sizes the table:
the meaning itself, run once on the numbers of the elements, says where each result comes from.
"""

from __future__ import annotations

import numpy as np

from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import I64, Array, Format
from trilobite.processor.isa.row import Operands, Row
from trilobite.processor.sim.routines.elements import computed_in, is_handy, put, raw, read, whole
from trilobite.processor.sim.routines.text import Code, Value

MOVED = ("VTRANS", "VPAD", "VMIRROR", "VRSHF", "VIM2COL")
COUNT, TABLE = range(2)  # facts of a table


def origins(row: Row, o: Operands) -> Array:
    """For each element of the result the place of its source, or -1 where it has none."""
    assert row.meaning is not None and row.reads is not None
    (source,) = row.reads(o)
    numbers = np.arange(1, source.count + 1, dtype=np.int64).reshape(source.shape)
    (moved,) = row.meaning(Operands({**o.values, "f0": I64, "value": 0}), numbers)
    return np.ascontiguousarray(moved.reshape(-1) - 1, np.int32)


def moving_text(instruction: Instruction) -> str:
    """dst[i] = a[table[i]]; where there is no source, VPAD's value, or zero."""
    fmt = instruction.formats[0]
    code = Code()
    source, target, table = code.operand(0), code.operand(1), code.fact_pointer(TABLE)
    is_framed = instruction.row.mnemonic in ("VPAD", "VIM2COL")
    fill = code.constant(whole(fmt), 0)
    if instruction.row.mnemonic == "VPAD":
        fill = raw(code, fmt, code.argument("scalars"), 0)
    with code.loop(code.fact(COUNT), is_parallel=True) as i:
        place = code.load("i32", table, i).cast("sext", "i64")
        is_inside = place.test("sge", 0)
        found = raw(code, fmt, source, is_inside.choose(place, 0) if is_framed else place)
        code.store(target, i, is_inside.choose(found, fill) if is_framed else found)
    return code.text()


def _refuse_outside(code: Code, fmt: Format, index: Value, count: Value, limit: Value) -> None:
    """Indices that name no element are a fault, which is the interpreter's to raise."""
    found = code.slot("i1", 0)
    with code.loop(count) as i:
        place = _place(code, fmt, index, i)
        found.set(found.get() | place.test("uge", limit))
    code.refuse(found.get())


def _place(code: Code, fmt: Format, index: Value, i: Value) -> Value:
    return raw(code, fmt, index, i).cast("sext" if fmt.kind == "int" else "zext", "i64")


def gather_text(instruction: Instruction) -> str:
    fmt, index_format = instruction.formats
    code = Code()
    table, index, target = (code.operand(place) for place in range(3))
    n = code.argument("n")
    m = code.argument("m")
    if instruction.flags != ("zero",):
        _refuse_outside(code, index_format, index, n, m)
    with code.loop(n, is_parallel=True) as i:
        place = _place(code, index_format, index, i)
        if instruction.flags == ("zero",):
            is_inside = place.test("ult", m)
            found = raw(code, fmt, table, is_inside.choose(place, 0))
            code.store(target, i, is_inside.choose(found, code.constant(whole(fmt), 0)))
        else:
            code.store(target, i, raw(code, fmt, table, place))
    return code.text()


def scatter_text(instruction: Instruction, index_format: Format) -> str | None:
    """In ascending order of the source. Sums of floats are kept wide until all are added."""
    (fmt,), (op,) = instruction.formats, instruction.flags
    if not is_handy(fmt):
        return None
    code = Code()
    table, values, index = (code.operand(place) for place in range(3))
    n, m, scratch, kind = code.argument("n"), code.argument("m"), code.argument("scratch"), computed_in(fmt)
    _refuse_outside(code, index_format, index, n, m)
    is_wide = op == "add" and fmt.kind == "float"
    if is_wide:
        with code.loop(m, is_parallel=True) as i:
            code.store(scratch, i, read(code, fmt, table, i))
    with code.loop(n) as i:
        place = _place(code, index_format, index, i)
        if is_wide:
            code.store(scratch, place, code.load(kind, scratch, place) + read(code, fmt, values, i))
        elif op == "add":
            code.store(table, place, raw(code, fmt, table, place) + raw(code, fmt, values, i))
        else:
            code.store(table, place, raw(code, fmt, values, i))
    if is_wide:
        with code.loop(m, is_parallel=True) as i:
            put(code, fmt, table, i, code.load(kind, scratch, i))
    return code.text()


def filter_text(instruction: Instruction) -> str | None:
    """VFILT and VPACK: the kept elements in front, zeros or what was there behind; how many were kept is left
    where scalars lie."""
    keeps = instruction.row.mnemonic == "VPACK"
    fmt = instruction.formats[0]
    if not is_handy(fmt):
        return None
    code = Code()
    source, mask, target = (code.operand(place) for place in ((0, 1, 3) if keeps else (0, 1, 2)))
    kept, n = code.slot("i64", 0), code.argument("n")
    with code.loop(n) as i:
        flag = read(code, fmt, mask, i)
        with code.when(flag.test("une" if fmt.kind == "float" else "ne", 0)):
            code.store(target, kept.get(), raw(code, fmt, source, i))
            kept.set(kept.get() + 1)
    count = kept.get()
    if not keeps:
        with code.loop(n - count, is_parallel=True) as i:
            code.store(target, count + i, code.constant(whole(fmt), 0))
    code.store(code.argument("scalars"), 0, count)
    return code.text()


def outer_text(instruction: Instruction) -> str | None:
    """OP: every product of two vectors."""
    fmt = instruction.formats[0]
    if not is_handy(fmt):
        return None
    code = Code()
    a, b, target = (code.operand(place) for place in range(3))
    with code.loop(code.fact(0)) as row:
        left = read(code, fmt, a, row)
        first = row * code.fact(1)
        with code.loop(code.fact(1), is_parallel=True) as column:
            put(code, fmt, target, first + column, left * read(code, fmt, b, column))
    return code.text()


# Facts of a strided copy: bytes of a piece, then for both axes count, step of the target, step of the source.
OUTER, INNER = 1, 4


def copy_text() -> str:
    """Bytes that may overlap, all in one piece."""
    code = Code()
    code.copy(code.operand(1), code.operand(0), code.argument("n"))
    return code.text()


def pieces_text() -> str:
    """COPY2 and COPY3, between bytes that do not overlap."""
    code = Code()
    source, target = code.operand(0), code.operand(1)
    size, *facts = (code.fact(place) for place in range(INNER + 3))
    outer, inner = facts[:3], facts[3:]
    with code.loop(outer[0]) as i, code.loop(inner[0]) as j:
        to, where = (i * outer[side] + j * inner[side] for side in (1, 2))
        code.copy(code.at("i8", target, to), code.at("i8", source, where), size)
    return code.text()
