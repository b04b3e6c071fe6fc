"""NumPy's own inner loops, many of them in one call of machine code.

Enters: rows, each one call of an inner loop (of a ufunc of NumPy's, or one of those below that copy, choose
and convert) with its operands as places in numbered memory. Leaves: a function of two lists of arrays, those
that are read and those that are filled; it gives 0, or 1 if an array is not aligned and row-major, and then
nothing was done. The loops are the ones that NumPy would call, so results have its bits; what is left out is
the way into NumPy, which for small arrays is nearly all of the time.

It runs with the interpreter's lock held: for small arrays only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from trilobite.native.cache import kernels
from trilobite.native.driver import builtin, described, words_of_method
from trilobite.native.loop_texts import CONVERSIONS, SIZES, lane_texts, texts
from trilobite.native.runtime import filled

Array = np.ndarray[Any, Any]
Walk = Callable[[list[Any], list[Any]], int]
MOST_OPERANDS = 4
_FAST = 0x80  # METH_FASTCALL: arguments as an array and their number
_HEADER = object.__basicsize__
_ROW_WORDS = 24
_DIMS, _STEPS = 4, 9  # of a row: those of a product of matrices are the most
_WELL = 0x101  # flags of an array: row-major and aligned
_FUNCTIONS, _DATA, _KINDS, _TYPES = 16, 24, 32, 48  # fields of a ufunc: bytes behind its header

_WALK = """
define internal i64 @bind(ptr %list, i64 %count, ptr %bases) {
start:
  %sizes = getelementptr i8, ptr %list, i64 $header
  %size = load i64, ptr %sizes
  %itemses = getelementptr i8, ptr %list, i64 $items
  %items = load ptr, ptr %itemses
  %as_many = icmp eq i64 %size, %count
  br i1 %as_many, label %test, label %unfit
test:
  %i = phi i64 [ 0, %start ], [ %after, %take ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %look, label %done
look:
  %at = getelementptr ptr, ptr %items, i64 %i
  %array = load ptr, ptr %at
  %flagses = getelementptr i8, ptr %array, i64 $flags
  %flags = load i32, ptr %flagses
  %some = and i32 %flags, $well
  %well = icmp eq i32 %some, $well
  br i1 %well, label %take, label %unfit
take:
  %datas = getelementptr i8, ptr %array, i64 $header
  %data = load ptr, ptr %datas
  %base = getelementptr ptr, ptr %bases, i64 %i
  store ptr %data, ptr %base
  %after = add i64 %i, 1
  br label %test
done:
  ret i64 0
unfit:
  ret i64 1
}
define internal void @place(ptr %row, ptr %bases, ptr %operands, i64 %i) {
  %in = add i64 %i, 2
  %by = add i64 %i, 6
  %indexes = getelementptr i64, ptr %row, i64 %in
  %offsets = getelementptr i64, ptr %row, i64 %by
  %index = load i64, ptr %indexes
  %offset = load i64, ptr %offsets
  %base = getelementptr ptr, ptr %bases, i64 %index
  %memory = load ptr, ptr %base
  %at = getelementptr i8, ptr %memory, i64 %offset
  %operand = getelementptr ptr, ptr %operands, i64 %i
  store ptr %at, ptr %operand
  ret void
}
; words: how to make a number, operands, results, rows, number of rows, bases
define internal ptr @walk(ptr %self, ptr %args, i64 %count) {
start:
  %operands = alloca ptr, i64 4
  %words_at = getelementptr i8, ptr %self, i64 $header
  %words = load ptr, ptr %words_at
  %make = load ptr, ptr %words
  %inputs_at = getelementptr i64, ptr %words, i64 1
  %inputs = load i64, ptr %inputs_at
  %outputs_at = getelementptr i64, ptr %words, i64 2
  %outputs = load i64, ptr %outputs_at
  %rows_at = getelementptr i64, ptr %words, i64 3
  %rows = load ptr, ptr %rows_at
  %many_at = getelementptr i64, ptr %words, i64 4
  %many = load i64, ptr %many_at
  %bases_at = getelementptr i64, ptr %words, i64 5
  %bases = load ptr, ptr %bases_at
  %first = load ptr, ptr %args
  %second_at = getelementptr ptr, ptr %args, i64 1
  %second = load ptr, ptr %second_at
  %behind = getelementptr ptr, ptr %bases, i64 %inputs
  %a = call i64 @bind(ptr %first, i64 %inputs, ptr %bases)
  %b = call i64 @bind(ptr %second, i64 %outputs, ptr %behind)
  %ab = or i64 %a, %b
  %fits = icmp eq i64 %ab, 0
  br i1 %fits, label %test, label %end
test:
  %i = phi i64 [ 0, %start ], [ %after, %step ]
  %left = icmp slt i64 %i, %many
  br i1 %left, label %step, label %end
step:
  %far = mul i64 %i, $row_words
  %row = getelementptr i64, ptr %rows, i64 %far
  %loop = load ptr, ptr %row
  %data_at = getelementptr i64, ptr %row, i64 1
  %data = load ptr, ptr %data_at
  call void @place(ptr %row, ptr %bases, ptr %operands, i64 0)
  call void @place(ptr %row, ptr %bases, ptr %operands, i64 1)
  call void @place(ptr %row, ptr %bases, ptr %operands, i64 2)
  call void @place(ptr %row, ptr %bases, ptr %operands, i64 3)
  %dims = getelementptr i64, ptr %row, i64 10
  %steps = getelementptr i64, ptr %row, i64 14
  call void %loop(ptr %operands, ptr %dims, ptr %steps, ptr %data)
  %after = add i64 %i, 1
  br label %test
end:
  %number = call ptr %make(i64 %ab)
  ret ptr %number
}
"""


class _Code:
    """Machine code of some functions, once for all."""

    def __init__(self, texts: dict[str, str]) -> None:
        stores = "".join(
            f"  %at{i} = getelementptr ptr, ptr %out, i64 {i}\n  store ptr @{name}, ptr %at{i}\n"
            for i, name in enumerate(texts)
        )
        told = (
            f"define void @entry(ptr %out, i64 %begin, i64 %end, ptr %scratch) {{\n{stores}  ret void\n}}\n"
        )
        self.kernels = kernels([("".join(texts.values()) + told, 1)])
        found = np.zeros(len(texts), np.int64)
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        tell = ctypes.CFUNCTYPE(None, pointer, integer, integer, pointer)(self.kernels.addresses[0])
        tell(found.ctypes.data, 0, 0, None)
        self.at = dict(zip(texts, map(int, found), strict=True))


@lru_cache(maxsize=1)
def _code() -> _Code:
    facts = {
        "header": _HEADER, "items": _HEADER + 8, "flags": _HEADER + 48, "well": _WELL,
        "row_words": _ROW_WORDS,
    }  # fmt: skip
    return _Code({"walk": filled(_WALK, facts), **texts()})


@lru_cache(maxsize=1)
def _lane_code() -> _Code:
    return _Code(lane_texts())  # fewer plans ask for it: compiled and loaded on its own


def _make_number() -> int:
    return ctypes.cast(ctypes.pythonapi.PyLong_FromLongLong, ctypes.c_void_p).value or 0


class Loop(NamedTuple):
    """An inner loop: the address of its code, and of what it is given besides operands."""

    code: int
    data: int


def copying(size: int) -> Loop | None:
    """Elements of so many bytes."""
    return Loop(_code().at[f"copy{size}"], 0) if size in SIZES else None


def choosing(size: int) -> Loop | None:
    """From the second operand where the first is true, else from the third."""
    return Loop(_code().at[f"choose{size}"], 0) if size in SIZES else None


def converting(source: np.dtype[Any], target: np.dtype[Any]) -> Loop | None:
    pair = source.char + target.char
    name = f"convert_{ord(pair[0])}_{ord(pair[1])}"
    return Loop(_code().at[name], 0) if pair in CONVERSIONS else None


def by_lanes(name: str, of: Any = "") -> Loop | None:
    """A loop of two levels (`loop_texts.py`): its name, and the bytes or dtype of its elements."""
    key = f"{name}_{ord(of.char)}" if isinstance(of, np.dtype) else f"{name}{of}"
    at = _lane_code().at.get(key)
    return None if at is None else Loop(at, 0)


@cache
def loop_of(ufunc: np.ufunc, dtypes: str) -> Loop | None:
    """The loop of a ufunc for operands and results of these characters: `ff->f`."""
    if dtypes not in ufunc.types:
        return None
    n, start = ufunc.types.index(dtypes), id(ufunc) + _HEADER
    told = (*(ctypes.c_int32 * 3).from_address(start), ctypes.c_int32.from_address(start + _KINDS).value)
    if told != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes):
        return None  # a NumPy that keeps its loops elsewhere
    numbers = bytes(np.dtype(c).num for c in dtypes.replace("->", ""))
    if ctypes.string_at(_word(start + _TYPES) + n * len(numbers), len(numbers)) != numbers:
        return None
    code = _word(_word(start + _FUNCTIONS) + 8 * n)
    return Loop(code, _word(_word(start + _DATA) + 8 * n)) if code else None


def _word(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


class Place(NamedTuple):
    """Where an operand of a row begins: a number of memory, and bytes from its start."""

    base: int
    offset: int


class Row(NamedTuple):
    """One call of a loop."""

    loop: Loop
    operands: tuple[Place, ...]
    dims: tuple[int, ...]
    steps: tuple[int, ...]


class Table:
    """Rows, ready to run. Memory is numbered: arrays that are read, arrays that are filled, `fixed` ones."""

    def __init__(self, rows: Sequence[Row], inputs: int, outputs: int, fixed: Sequence[Array]) -> None:
        code = _code()
        self._fixed = list(fixed)
        self._bases = np.zeros(inputs + outputs + len(self._fixed), np.int64)
        for i, array in enumerate(self._fixed):
            self._bases[inputs + outputs + i] = array.ctypes.data
        self._rows = np.array([_as_words(row, len(self._bases)) for row in rows], np.int64)
        words = words_of_method(6)
        words[:] = (
            _make_number(), inputs, outputs, self._rows.ctypes.data, len(rows), self._bases.ctypes.data,
        )  # fmt: skip
        self._method = described(words, b"walk", code.at["walk"], _FAST)
        self.walk: Walk = builtin(ctypes.byref(self._method), words, None)


def _as_words(row: Row, bases: int) -> list[int]:
    places = [*row.operands, *[Place(0, 0)] * (MOST_OPERANDS - len(row.operands))]
    assert all(0 <= p.base < bases for p in places), "a row reads memory that is not there"
    dims = [*row.dims, *[0] * (_DIMS - len(row.dims))]
    steps = [*row.steps, *[0] * (_STEPS - len(row.steps))]
    words = [row.loop.code, row.loop.data, *(p.base for p in places), *(p.offset for p in places)]
    return [*words, *dims, *steps, 0]
