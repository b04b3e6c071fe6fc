"""What windows give back to an image, as routines: VCOL2IM, VUNPOOL, VUNPOOLA.

Enters: an instruction and its sizes. Leaves: the text of its routine, and tables that list, in the order of
the meaning, which element is added where.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import Operands
from trilobite.processor.isa.rows.window import im2col, pooled, taps
from trilobite.processor.sim.routines.elements import computed_in, put, read
from trilobite.processor.sim.routines.text import Code

GIVING = ("VCOL2IM", "VUNPOOL", "VUNPOOLA")
COUNT, SOURCES, TARGETS, TAPS, IMAGE, WINDOW, GIVEN = range(7)


def numbered(o: Operands) -> Array:
    """Every element of the image [h][w][c] by its place, from 1 on."""
    return np.arange(1, o.h * o.w * o.c + 1, dtype=np.int64).reshape(o.h, o.w, o.c)


def window_places(o: Operands) -> Array:
    """[tap][window and channel]: the place of each in the image."""
    p, q, _ = pooled(o)
    image = numbered(o)
    views = [image[rows, cols].reshape(-1) for rows, cols in taps(o.kh, o.kw, o.sh, o.sw, 1, 1, p, q)]
    return np.ascontiguousarray(np.stack(views) - 1, np.int32)


def giving_facts(instruction: Instruction, o: Operands) -> Sequence[int | Array]:
    if instruction.row.mnemonic == "VCOL2IM":
        columns = im2col(o, numbered(o)).reshape(-1, o.kh * o.kw, o.c)
        targets = np.swapaxes(columns, 0, 1) - 1
        sources = np.swapaxes(np.arange(columns.size).reshape(columns.shape), 0, 1)
    else:
        targets = window_places(o)
        sources = np.broadcast_to(np.arange(targets.shape[1]), targets.shape)
    numbers = np.broadcast_to(np.arange(len(targets)).reshape(-1, *[1] * (targets.ndim - 1)), targets.shape)
    kept = targets >= 0
    tables = [np.ascontiguousarray(table[kept], np.int32) for table in (sources, targets, numbers)]
    return [int(kept.sum()), *tables, o.h * o.w * o.c, o.kh * o.kw, int(targets[0].size)]


def giving_text(instruction: Instruction) -> str:
    fmt, name = instruction.formats[0], instruction.row.mnemonic
    code = Code()
    kind, scratch, size = computed_in(fmt), code.argument("scratch"), code.fact(IMAGE)
    source, window = code.operand(0), code.fact(WINDOW)
    index = code.operand(1) if name == "VUNPOOL" else None
    target = code.operand(1 if index is None else 2)
    sources, targets, numbers = (code.fact_pointer(table) for table in (SOURCES, TARGETS, TAPS))
    if index is not None:  # an index outside its window is a fault, which is the interpreter's to raise
        wrong = code.slot("i1", 0)
        with code.loop(code.fact(GIVEN)) as i:
            tap = code.load("i32", index, i).cast("sext", "i64")
            wrong.set(wrong.get() | tap.test("uge", window))
        code.refuse(wrong.get())
    with code.loop(size, is_parallel=True) as i:
        code.store(scratch, i, code.constant(kind, 0))
    with code.loop(code.fact(COUNT)) as i:
        place = code.load("i32", sources, i).cast("sext", "i64")
        at = code.load("i32", targets, i).cast("sext", "i64")
        part = read(code, fmt, source, place)
        if name == "VUNPOOLA":
            part = part / window.cast("sitofp", kind)
        elif index is not None:
            is_here = code.load("i32", index, place).test("eq", code.load("i32", numbers, i))
            part = is_here.choose(part, 0)
        code.store(scratch, at, code.load(kind, scratch, at) + part)
    with code.loop(size, is_parallel=True) as i:
        put(code, fmt, target, i, code.load(kind, scratch, i))
    return code.text()
