"""Products, convolutions and their backward passes as routines.

Enters: a matrix instruction and its sizes. Leaves: the text of its routine, and the facts that it reads. Both
operands become dense matrices in scratch memory, by strides or by a table of places (a convolution's
windows); one chain per output runs over them, k ascending; the drain reads the chains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trilobite.processor.isa import functions
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import F32, I32, I64, Array, Format
from trilobite.processor.isa.numbers import integer_range
from trilobite.processor.isa.row import Operands
from trilobite.processor.isa.rows.matrix import LANES, in_order
from trilobite.processor.isa.rows.window import im2col, unrolled
from trilobite.processor.sim.routines.chain import COLUMNS, chain_text
from trilobite.processor.sim.routines.elements import is_handy, put, read, whole
from trilobite.processor.sim.routines.text import Code, Value
from trilobite.processor.sim.routines.traced import traced
from trilobite.processor.sim.routines.vector import rounded, saturated

PRODUCTS = ("MM", "MMTOP", "MMV", "VMM", "CONV", "CONVDX", "CONVDW")
MOST_PLACES = 1 << 18  # of a table; larger convolutions keep NumPy busy long enough by themselves
# Facts: sizes, then element strides (row or depth, depth or column, group) of left, right, result, channels.
ROWS, COLS, DEPTH, WIDTH, GROUPS, LEFT, RIGHT, RESULT, CHANNEL, LEFT_TABLE, RIGHT_TABLE, PLACES, REACH = (
    0, 1, 2, 3, 4, 5, 8, 11, 14, 17, 18, 19, 20,
)  # fmt: skip
Strides = tuple[int, int, int]
FLAT: Strides = (0, 0, 0)


@dataclass(frozen=True)
class Shape:
    """A product of every group: sizes, strides, and tables where strides do not do."""

    rows: int
    cols: int
    depth: int
    left: Strides
    right: Strides
    result: Strides
    channel: Strides = FLAT
    groups: int = 1
    left_table: Array | None = None
    right_table: Array | None = None
    is_swapped: bool = False  # the second operand stands at the left

    def facts(self) -> list[int | Array]:
        width = -(-self.cols // COLUMNS) * COLUMNS
        none: Array = np.zeros(0, np.int32)
        left, right = (none if table is None else table for table in (self.left_table, self.right_table))
        return [self.rows, self.cols, self.depth, width, self.groups, *self.left, *self.right, *self.result,
                *self.channel, left, right, left.size // max(self.groups, 1)]  # fmt: skip

    def swapped(self) -> Shape:
        """The transposed product."""

        def right_first(strides: Strides) -> Strides:
            return strides[1], strides[0], strides[2]

        strides = (self.right, self.left, self.result, self.channel)
        left, right, result, channel = map(right_first, strides)
        return Shape(
            self.cols, self.rows, self.depth, left, right, result, channel, self.groups, is_swapped=True
        )

    @property
    def scratch(self) -> int:
        width = -(-self.cols // COLUMNS) * COLUMNS
        return 8 * (self.rows * self.depth + self.depth * width + 2 * self.rows * width) + 64


def shape_of(instruction: Instruction, o: Operands) -> Shape | None:
    """How an execution's operands lie, or None for one whose table would be too large."""
    name = instruction.row.mnemonic
    if name == "MMV":  # the vector from the left, so that outputs lie side by side
        return Shape(1, o.m, o.k, (0, 1, 0), (1, o.k, 0), (0, 1, 0), is_swapped=True)
    if name == "VMM":
        return Shape(1, o.n, o.k, (0, 1, 0), (o.n, 1, 0), (0, 1, 0))
    if name in ("MM", "MMTOP"):
        left = (1, o.m, 0) if o.ta else (o.k, 1, 0)
        right = (1, o.k, 0) if o.tb else (o.n, 1, 0)
        if name == "MMTOP":
            return Shape(o.m, o.n, o.k, left, right, (o.n, 1, 0), (0, 1, 0))
        if o.n * o.k > MOST_PLACES and _is_dealt(o, o.n):
            return None
        table = _dealt(o, o.n, o.k)
        shape = Shape(o.m, o.n, o.k, left, right, (o.n, 1, 0), (0, 1, 0), right_table=table)
        return shape.swapped() if o.n < o.m and o.n < COLUMNS else shape
    return _convolution(name, o)


def _convolution(name: str, o: Operands) -> Shape | None:
    p, q = unrolled(o)
    windows, each, outputs = p * q, o.kh * o.kw * o.ci // o.groups, o.co // o.groups
    if windows * each * o.groups > MOST_PLACES:
        return None
    table = _windows(o)
    if name == "CONV":
        if o.co * each > MOST_PLACES and _is_dealt(o, o.co):
            return None
        return Shape(windows, outputs, each, FLAT, (1, each, outputs * each), (o.co, 1, outputs),
                     (0, 1, outputs), o.groups, left_table=table,
                     right_table=_dealt(o, o.co, each, o.groups))  # fmt: skip
    if name == "CONVDW":
        return Shape(outputs, each, windows, (1, o.co, outputs), FLAT, (each, 1, outputs * each), FLAT,
                     o.groups, right_table=table)  # fmt: skip
    return Shape(windows, each, outputs, (o.co, 1, outputs), (each, 1, outputs * each), FLAT, FLAT, o.groups,
                 left_table=table)  # fmt: skip


def _is_dealt(o: Operands, count: int) -> bool:
    return bool(o.lanes) and count > LANES and count % LANES == 0


def _dealt(o: Operands, count: int, each: int, groups: int = 1) -> Array | None:
    """[group][term][output]: the places in filters that are dealt to lanes, where that is no stride."""
    if not _is_dealt(o, count):
        return None
    numbers = in_order(o, np.arange(count * each, dtype=np.int32).reshape(count, each))
    return np.ascontiguousarray(np.swapaxes(numbers.reshape(groups, -1, each), 1, 2))


def _windows(o: Operands) -> Array:
    """[group][window][tap and channel]: the place of each in the image, -1 in its frame."""
    numbers = np.arange(1, o.h * o.w * o.ci + 1, dtype=np.int64).reshape(o.h, o.w, o.ci)
    parts = [im2col(o, part) for part in np.split(numbers, o.groups, axis=2)]
    return np.ascontiguousarray(np.stack(parts) - 1, np.int32)


def can_multiply(instruction: Instruction) -> bool:
    return is_handy(instruction.formats[0]) and all(
        fmt.kind != "float" or fmt.bits != 16 or is_handy(fmt) for fmt in instruction.formats[1:]
    )


class _Product:
    """Writes one routine."""

    def __init__(self, instruction: Instruction, shape: Shape) -> None:
        self.code = code = Code()
        self.name = instruction.row.mnemonic
        self.result, *operands = instruction.formats
        flags = dict(zip((flag.name for flag in instruction.row.flags), instruction.flags, strict=True))
        self.activation = flags.get("activation", "")
        self.is_real = operands[0].kind == "float"
        self.is_by_table = shape.left_table is not None, shape.right_table is not None
        pointers = [code.operand(0), code.operand(1)]
        if shape.is_swapped:
            operands.reverse()
            pointers.reverse()
        self.formats, self.pointers = operands, pointers
        place = 2
        self.extra: dict[str, Value] = {}
        for wanted in ("acc", "bias", "scale"):
            if flags.get(wanted):
                self.extra[wanted] = code.operand(place)
                place += 1
        self.top = code.operand(place) if self.name == "MMTOP" else None
        self.target = code.operand(place + (self.top is not None))
        self.sizes = [code.fact(number) for number in (ROWS, COLS, DEPTH, WIDTH)]
        rows, _, depth, width = self.sizes
        self.kind = "float" if self.is_real else "i32"
        self.chain = "float" if self.is_real else "i32" if self._is_short() else "i64"
        left = code.argument("scratch")
        right = code.at("i64", left, rows * depth)
        self.dense = left, right, code.at("i64", right, depth * width)

    def _is_short(self) -> bool:
        """Products of up to 8 bits: 2^16 of them fit 32 bits."""
        return max(fmt.bits for fmt in self.formats) <= 8

    def text(self) -> str:
        code = self.code
        if not self.is_real and self._is_short():
            code.refuse(self.sizes[2].test("sgt", 1 << 16))
        image = self._image() if self.name == "CONVDX" else None
        with code.loop(code.fact(GROUPS)) as group:
            self._pack(group)
            self._begin(group)
            self._multiply()
            if self.top is not None:
                self._drain_scores(self.top)
            elif image is None:
                self._drain(group)
            else:
                self._add_windows(group, image)
        if image is not None:
            self._drain_image(image)
        extra = chain_text() if self.is_real else ""
        return extra + code.text()

    def _strides(self, first: int) -> list[Value]:
        return [self.code.fact(first + axis) for axis in range(3)]

    def _pack(self, group: Value) -> None:
        """Both operands as the multipliers see them."""
        code = self.code
        rows, cols, depth, width = self.sizes
        step, inner, outer = self._strides(LEFT)
        places = code.fact(PLACES) if self.is_by_table[0] and self.name == "CONV" else None
        with code.loop(rows) as i, code.loop(depth, is_parallel=True) as k:
            at = None if places is None else group * places + i * depth + k
            value = self._element(0, at, LEFT_TABLE, i * step + k * inner + group * outer)
            code.store(self.dense[0], i * depth + k, value)
        step, inner, outer = self._strides(RIGHT)
        with code.loop(depth) as k:
            with code.loop(cols, is_parallel=True) as j:
                at = group * (depth * cols) + k * cols + j if self.is_by_table[1] else None
                value = self._element(1, at, RIGHT_TABLE, k * step + j * inner + group * outer)
                code.store(self.dense[1], k * width + j, value)
            with code.loop(width - cols, is_parallel=True) as j:
                code.store(self.dense[1], k * width + cols + j, code.constant(self.kind, 0))

    def _element(self, side: int, at: Value | None, table: int, place: Value) -> Value:
        code, fmt = self.code, self.formats[side]
        is_inside = None
        if at is not None:
            found = code.load("i32", code.fact_pointer(table), at).cast("sext", "i64")
            is_inside = found.test("sge", 0)
            place = is_inside.choose(found, 0)
        value = read(code, fmt, self.pointers[side], place)
        if not self.is_real and whole(fmt) != "i32":
            value = value.cast("sext", "i32")
        return value if is_inside is None else is_inside.choose(value, 0)

    def _begin(self, group: Value) -> None:
        """Chains begin at the destination when accumulating (CONVDX adds it last), else at 0."""
        code = self.code
        rows, cols, _, width = self.sizes
        acc = self.extra.get("acc") if self.is_real and self.name != "CONVDX" else None
        row, column, outer = self._strides(RESULT)
        with code.loop(rows * width, is_parallel=True) as i:
            code.store(self.dense[2], i, code.constant(self.chain, 0))
        if acc is not None:
            with code.loop(rows) as i, code.loop(cols, is_parallel=True) as j:
                start = read(code, self.result, acc, i * row + j * column + group * outer)
                code.store(self.dense[2], i * width + j, start)

    def _multiply(self) -> None:
        code = self.code
        rows, _, depth, width = self.sizes
        left, right, total = self.dense
        if self.is_real:
            sizes = ", ".join(f"i64 {size.name}" for size in (rows, width, depth))
            code.do(f"call void @gemm(ptr {left.name}, ptr {right.name}, ptr {total.name}, {sizes})")
            return
        with code.loop(rows) as i, code.loop(depth) as k:
            a = code.load("i32", left, i * depth + k)
            with code.loop(width, is_parallel=True) as j:
                product = a * code.load("i32", right, k * width + j)
                if self.chain == "i64":
                    product = product.cast("sext", "i64")
                old = code.load(self.chain, total, i * width + j)
                code.store(total, i * width + j, old + product)

    def _drain(self, group: Value) -> None:
        code = self.code
        rows, cols, _, width = self.sizes
        row, column, outer = self._strides(RESULT)
        channel_row, channel_column, channel_outer = self._strides(CHANNEL)
        with code.loop(rows) as i, code.loop(cols, is_parallel=True) as j:
            total = code.load(self.chain, self.dense[2], i * width + j)
            place = i * row + j * column + group * outer
            channel = i * channel_row + j * channel_column + group * channel_outer
            put(code, self.result, self.target, place, self._drained(total, place, channel))

    def _drain_scores(self, top: Value) -> None:
        """What a row reaches, and the largest of each column; the rest is -inf."""
        code, reach = self.code, self.code.fact(REACH)
        rows, cols, _, width = self.sizes
        with code.loop(rows) as i, code.loop(cols, is_parallel=True) as j:
            total = self._real(code.load("float", self.dense[2], i * width + j), j)
            total = i.test("sgt", j + reach).choose(code.constant("float", -np.inf), total)
            put(code, F32, self.target, i * cols + j, total)
            largest = code.load("float", top, j)
            code.store(top, j, total.test("ogt", largest).choose(total, largest))

    def _drained(self, total: Value, place: Value, channel: Value) -> Value:
        if self.is_real:
            return self._real(total, channel)
        code, result = self.code, self.result
        total = total if total.kind == "i64" else total.cast("sext", "i64")
        if "acc" in self.extra:
            start = read(code, result, self.extra["acc"], place)
            total = total + (start if start.kind == "i64" else start.cast("sext", "i64"))
        if result is not I64 and result.kind != "float":
            total = total.cast("trunc", "i32").cast("sext", "i64")
        if "bias" in self.extra:
            total = total + read(code, I32, self.extra["bias"], channel).cast("sext", "i64")
        if "scale" in self.extra:
            factor = read(code, F32, self.extra["scale"], channel).cast("fpext", "double")
            total = total.cast("sitofp", "double") * factor
        return self._rounded(self._activated(total))

    def _real(self, total: Value, channel: Value) -> Value:
        if "bias" in self.extra:
            total = total + read(self.code, F32, self.extra["bias"], channel)
        if "scale" in self.extra:
            total = total * read(self.code, F32, self.extra["scale"], channel)
        return self._activated(total)

    def _activated(self, x: Value) -> Value:
        if self.activation == "relu":
            if x.kind == "i64":
                return x.test("sgt", 0).choose(x, 0)
            return (x.test("ogt", 0.0) | x.is_nan).choose(x, 0.0)
        if self.activation == "":
            return x
        curve = functions.sigmoid if self.activation == "sigmoid" else functions.tanh
        result = traced(curve, x.cast("fpext", "double") if x.kind == "float" else x)
        return result.cast("fptrunc", "float") if x.kind == "float" else result

    def _rounded(self, total: Value) -> Value:
        """An integer product's result: floats are finished by `put`, whole numbers saturate or wrap."""
        fmt = self.result
        if fmt.kind == "float":
            return total.cast("sitofp", "float") if total.kind == "i64" else total
        if total.kind == "double":
            return saturated(self.code, fmt, rounded(self.code, total, "rn"))
        if fmt in (I32, I64):
            return total if fmt is I64 else total.cast("trunc", "i32")
        return _within(self.code, fmt, total)

    def _image(self) -> Value:
        """CONVDX adds what every tap gives back in memory behind the matrices."""
        code = self.code
        rows, _, _, width = self.sizes
        image = code.at("i64", self.dense[2], rows * width)
        with code.loop(code.fact(RESULT), is_parallel=True) as i:
            code.store(image, i, code.constant("float", 0.0))
        return image

    def _add_windows(self, group: Value, image: Value) -> None:
        code = self.code
        rows, cols, _, width = self.sizes
        table, channels, places = code.fact_pointer(LEFT_TABLE), code.fact(RESULT + 1), code.fact(PLACES)
        taps = code.new("i64", f"sdiv i64 {cols.name}, {channels.name}")
        with code.loop(taps) as tap, code.loop(rows) as i, code.loop(channels) as c:
            column = tap * channels + c
            place = code.load("i32", table, group * places + i * cols + column).cast("sext", "i64")
            with code.when(place.test("sge", 0)):
                part = code.load("float", self.dense[2], i * width + column)
                code.store(image, place, code.load("float", image, place) + part)

    def _drain_image(self, image: Value) -> None:
        code = self.code
        with code.loop(code.fact(RESULT), is_parallel=True) as i:
            total = code.load("float", image, i)
            if "acc" in self.extra:
                total = read(code, self.result, self.extra["acc"], i) + total
            put(code, self.result, self.target, i, total)


def _within(code: Code, fmt: Format, total: Value) -> Value:
    low, high = integer_range(fmt)
    total = total.test("slt", low).choose(code.constant("i64", low), total)
    return total.test("sgt", high).choose(code.constant("i64", high), total).cast("trunc", whole(fmt))


def product_form(instruction: Instruction, o: Operands) -> tuple[str, Sequence[int | Array], int] | None:
    """Text, facts and bytes of scratch memory of an execution."""
    shape = shape_of(instruction, o)
    if shape is None:
        return None
    facts, scratch = shape.facts(), shape.scratch
    if instruction.row.mnemonic == "CONVDX":  # the image instead of strides of a result
        facts[RESULT : RESULT + 2] = [o.h * o.w * o.ci, o.ci // o.groups]
        scratch += 8 * o.h * o.w * o.ci
    if instruction.row.mnemonic == "MMTOP":
        facts.append(o.reach)
    return _Product(instruction, shape).text(), facts, scratch
