"""Reductions as routines: the stated tree, dot products, arg-reductions, scans, pooling.

Enters: an instruction. Leaves: the text of its routine. Terms are gathered into scratch memory first, term by
term with the outputs side by side, so one loop combines the upper half with the lower for all of them, and
sources are read whole before anything is written. Which element is which term stands in a table of the site.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import F32, F64, I32, Format
from trilobite.processor.isa.numbers import integer_range
from trilobite.processor.sim.routines.elements import computed_in, is_handy, put, raw, read, whole, wide
from trilobite.processor.sim.routines.text import Code, Value

KINDS = {"VSUM": "sum", "VMAX": "max", "VMIN": "min", "VPROD": "prod", "VDP": "sum"}
ARGS = {"VARGMAX": "argmax", "VARGMIN": "argmin"}


def _signed_zero_tie(a: Value, b: Value, sign_of: Value) -> Value:
    """Of equal floats, where this one's sign bit is set."""
    bits = sign_of.cast("bitcast", "i32" if sign_of.kind == "float" else "i64")
    return a.test("oeq", b) & bits.test("slt", 0)


def _combined(kind: str, fmt: Format, a: Value, b: Value) -> Value:
    if kind == "sum":
        return a + b
    if kind == "prod":
        return a * b
    if fmt.kind == "float":  # NaN wins, and +0 is larger than -0
        first = a.test("ogt" if kind == "max" else "olt", b) | a.is_nan
        return (first | _signed_zero_tie(a, b, b if kind == "max" else a)).choose(a, b)
    sign = "s" if fmt.kind == "int" else "u"
    return a.test(f"{sign}gt" if kind == "max" else f"{sign}lt", b).choose(a, b)


def _neutral(kind: str, fmt: Format) -> float:
    if fmt.kind == "float":
        return {"sum": -0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}[kind]
    low, high = integer_range(fmt)
    return {"sum": 0, "prod": 1, "max": low, "min": high}[kind]


def tree(code: Code, kind: str, fmt: Format, terms: Value, outputs: Value, wide_kind: str) -> None:
    """Combines the terms in scratch memory until one is left for each output."""
    scratch = code.argument("scratch")
    below = terms - 1
    bits = 64 - code.call("llvm.ctlz.i64", "i64", (below,), True)
    steps = terms.test("sgt", 1).choose(bits, 0)
    width = code.constant("i64", 1) << steps
    filled, all_cells = terms * outputs, width * outputs
    with code.loop(all_cells - filled, is_parallel=True) as i:
        code.store(scratch, filled + i, code.constant(wide_kind, _neutral(kind, fmt)))
    size = code.slot("i64", all_cells)
    with code.loop(steps):
        half = code.new("i64", f"lshr i64 {size.get().name}, 1")
        size.set(half)
        with code.loop(half, is_parallel=True) as i:
            a, b = code.load(wide_kind, scratch, i), code.load(wide_kind, scratch, half + i)
            code.store(scratch, i, _combined(kind, fmt, a, b))


def reduction_text(instruction: Instruction) -> str | None:
    """VSUM, VMAX, VMIN, VPROD and VDP: n elements to one."""
    fmt, name = instruction.formats[0], instruction.row.mnemonic
    if not is_handy(fmt):
        return None
    code = Code()
    sources = [code.operand(place) for place in range(2 if name == "VDP" else 1)]
    target, n, kind = code.operand(len(sources)), code.argument("n"), computed_in(fmt)
    with code.loop(n, is_parallel=True) as i:
        terms = [read(code, fmt, source, i) for source in sources]
        code.store(code.argument("scratch"), i, terms[0] * terms[1] if len(terms) > 1 else terms[0])
    tree(code, KINDS[name], fmt, n, code.constant("i64", 1), kind)
    put(code, fmt, target, 0, code.load(kind, code.argument("scratch"), 0))
    return code.text()


def arg_text(instruction: Instruction) -> str | None:
    """VARGMAX and VARGMIN."""
    fmt = instruction.formats[0]
    if not is_handy(fmt):
        return None
    code = Code()
    source, target, n = code.operand(0), code.operand(1), code.argument("n")
    place = first_best(code, fmt, ARGS[instruction.row.mnemonic], n, lambda i: raw(code, fmt, source, i))
    code.store(target, 0, place.cast("trunc", "i32"))
    return code.text()


def first_best(code: Code, fmt: Format, kind: str, terms: Value, term: Callable[[Value], Value]) -> Value:
    """The first place of the largest or smallest of some elements; the first NaN, if there is one."""
    best = code.slot(whole(fmt), term(code.constant("i64", 0)))
    place = code.slot("i64", 0)
    with code.loop(terms) as i:
        bits = term(i)
        new, old = wide(code, fmt, bits), wide(code, fmt, best.get())
        up = kind == "argmax"
        if fmt.kind == "float":
            is_better = new.test("ogt" if up else "olt", old) | new.is_nan
            is_better = is_better & old.test("ord", old)
        else:
            sign = "s" if fmt.kind == "int" else "u"
            is_better = new.test(sign + ("gt" if up else "lt"), old)
        best.set(is_better.choose(bits, best.get()))
        place.set(is_better.choose(i, place.get()))
    return place.get()


def scan_text(instruction: Instruction) -> str | None:
    """VSCAN: sums from the left."""
    fmt = instruction.formats[0]
    if not is_handy(fmt):
        return None
    code = Code()
    source, target = code.operand(0), code.operand(1)
    total = code.slot(computed_in(fmt), _neutral("sum", fmt))
    with code.loop(code.argument("n")) as i:
        total.set(total.get() + read(code, fmt, source, i))
        put(code, fmt, target, i, total.get())
    return code.text()


# Facts of a table: outputs, terms, where the table is; then what an average is divided by.
OUTPUTS, TERMS, TABLE, DIVISOR = range(4)


def table_text(instruction: Instruction, op: str) -> str | None:
    """VREDUCE and VPOOL: outputs side by side, the terms of each by a table."""
    fmt = instruction.formats[0]
    if not is_handy(fmt):
        return None
    code = Code()
    source, target = code.operand(0), code.operand(1)
    outputs, terms, table = code.fact(OUTPUTS), code.fact(TERMS), code.fact_pointer(TABLE)
    if op.startswith("arg"):
        _args(code, fmt, op, outputs, terms, table)
        return code.text()
    kind = computed_in(fmt)
    average = op == "avg"
    with code.loop(outputs * terms, is_parallel=True) as i:
        term = read(code, fmt, source, code.load("i32", table, i).cast("sext", "i64"))
        code.store(code.argument("scratch"), i, term)
    added = (F64 if fmt is F64 else F32) if average else fmt
    tree(code, "sum" if average else op, added, terms, outputs, kind)
    divisor = code.fact(DIVISOR)
    with code.loop(outputs, is_parallel=True) as i:
        value = code.load(kind, code.argument("scratch"), i)
        put(code, fmt, target, i, value / divisor.cast("sitofp", kind) if average else value)
    return code.text()


def _args(code: Code, fmt: Format, op: str, outputs: Value, terms: Value, table: Value) -> None:
    """Arg-reductions; VPOOLX writes the element before its place."""
    source, is_pool = code.operand(0), op == "argpool"
    targets = [code.operand(1), code.operand(2)] if is_pool else [code.operand(1)]
    with code.loop(outputs) as output:

        def term(i: Value) -> Value:
            place = code.load("i32", table, i * outputs + output)
            return raw(code, fmt, source, place.cast("sext", "i64"))

        best = first_best(code, fmt, "argmax" if is_pool else op, terms, term)
        if is_pool:
            code.store(targets[0], output, term(best))
        code.store(targets[-1], output, best.cast("trunc", whole(I32)))


def table_scratch(fmt: Format, cells: int) -> int:
    """Bytes of scratch memory for so many terms, padded to a power of two."""
    return 8 * 2 * max(cells, 1) + 64 if fmt is F64 or fmt.bits == 64 else 4 * 2 * max(cells, 1) + 64
