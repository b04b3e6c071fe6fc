"""Instructions that touch memory: addresses, loads and stores of scalars and vectors, partial ones for tails.

Enters: pointers, element numbers, dtypes. Leaves: `Value`s in register form, or memory written. What a dtype
is in memory and how it changes on the way stands in `types` and `formats`. It plans no buffer.
"""

from __future__ import annotations

from trilobite.base.dtypes import DType
from trilobite.native.llvm import formats
from trilobite.native.llvm.arithmetic import Arithmetic
from trilobite.native.llvm.types import (
    Index,
    Value,
    constant,
    element_of,
    iota,
    lanes_constant,
    lanes_of,
    memory_type,
    vector,
    width,
)


def _bytes(type: str) -> int:
    return max(width(type) // 8, 1)


class Memory(Arithmetic):
    """The part of `Text` that reads and writes memory."""

    def address(self, pointer: Value, index: Index, dtype: DType | None = None) -> Value:
        """Where element `index` of `dtype` stands after `pointer`; without a dtype, byte `index`."""
        i = index if isinstance(index, Value) else constant("i64", index)
        if i.number == 0:
            return pointer
        element = "i8" if dtype is None else memory_type(dtype)
        return self.define("ptr", f"getelementptr {element}, ptr {pointer}, i64 {i}")

    # -- as bits in memory ---------------------------------------------------------------------------------

    def load_type(self, type: str, pointer: Value, align: int | None = None) -> Value:
        """A value of an LLVM type as it stands; aligned to its element unless `align` says more."""
        return self.define(type, f"load {type}, ptr {pointer}, align {align or _bytes(type)}")

    def store_type(self, value: Value, pointer: Value, align: int | None = None) -> None:
        self.line(f"store {value.typed}, ptr {pointer}, align {align or _bytes(value.type)}")

    # -- by dtype ------------------------------------------------------------------------------------------

    def load(self, dtype: DType, pointer: Value, lanes: int = 0, align: int | None = None) -> Value:
        """`lanes` consecutive elements, in register form."""
        return formats.to_register(self, dtype, self.load_type(memory_type(dtype, lanes), pointer, align))

    def store(self, dtype: DType, value: Value, pointer: Value, align: int | None = None) -> None:
        """Consecutive elements from register form; floats smaller than 32 bits are rounded here."""
        self.store_type(formats.to_memory(self, dtype, value), pointer, align)

    def load_splat(self, dtype: DType, pointer: Value, lanes: int) -> Value:
        """One element in every lane."""
        return self.splat(self.load(dtype, pointer), lanes)

    def load_strided(self, dtype: DType, pointer: Value, stride: Index, lanes: int) -> Value:
        """Elements `stride` apart (negative goes back), one per lane."""
        if not lanes:
            return self.load(dtype, pointer)
        out = Value("poison", memory_type(dtype, lanes))
        at = pointer
        for lane in range(lanes):
            at = self.address(at, stride, dtype) if lane else pointer
            out = self.insert(out, self.load_type(memory_type(dtype), at), lane)
        return formats.to_register(self, dtype, out)

    def store_strided(self, dtype: DType, value: Value, pointer: Value, stride: Index) -> None:
        """Lanes to elements `stride` apart, in lane order."""
        out, at = formats.to_memory(self, dtype, value), pointer
        for lane in range(lanes_of(value.type)):
            at = self.address(at, stride, dtype) if lane else pointer
            self.store_type(self.extract(out, lane), at)
        if not lanes_of(value.type):
            self.store_type(out, pointer)

    # -- tails ---------------------------------------------------------------------------------------------

    def mask(self, count: Index, lanes: int, bits: int = 32) -> Value:
        """True in the first `count` lanes. `bits` is the width of the elements it will stand beside: lanes
        compared at that width need no reshuffling.
        """
        if isinstance(count, int):
            return lanes_constant(vector("i1", lanes), tuple(int(i < count) for i in range(lanes)))
        # Clamped first: a large count must not wrap around in narrow lanes.
        few = self.convert("trunc", self.smin(count, lanes), f"i{bits}")
        numbers = iota(vector(f"i{bits}", lanes))
        return self.icmp("ult", numbers, self.splat(few, lanes))

    def load_masked(self, dtype: DType, pointer: Value, mask: Value, align: int | None = None) -> Value:
        """Consecutive elements where `mask` is true; other lanes are zero, their memory not read."""
        type = memory_type(dtype, lanes_of(mask.type))
        raw = self._masked_load(type, pointer, mask, align or _bytes(type))
        return formats.to_register(self, dtype, raw)

    def store_masked(
        self, dtype: DType, value: Value, pointer: Value, mask: Value, align: int | None = None
    ) -> None:
        """Consecutive elements where `mask` is true; other memory is not written."""
        raw = formats.to_memory(self, dtype, value)
        self._masked_store(raw, pointer, mask, align or _bytes(raw.type))

    def load_partial(self, dtype: DType, pointer: Value, count: Index | None, lanes: int) -> Value:
        """The first `count` of `lanes` consecutive elements (None: all); zero in the other lanes, whose
        memory is not read. One instruction for 32 and 64 bits with AVX, else lane by lane.
        """
        if count is None:
            return self.load(dtype, pointer, lanes)
        mask = self.mask(count, lanes, max(8 * dtype.itemsize, 8))
        return self.load_masked(dtype, pointer, mask)

    def store_partial(self, dtype: DType, value: Value, pointer: Value, count: Index | None) -> None:
        if count is None:
            self.store(dtype, value, pointer)
            return
        mask = self.mask(count, lanes_of(value.type), max(8 * dtype.itemsize, 8))
        self.store_masked(dtype, value, pointer, mask)

    def _masked_load(self, type: str, pointer: Value, mask: Value, align: int) -> Value:
        name = f"@llvm.masked.load.v{lanes_of(type)}{_word(type)}.p0"
        self.declared.setdefault(name, f"declare {type} {name}(ptr, {mask.type}, {type})")
        zero = f"{type} zeroinitializer"
        return self.define(type, f"call {type} {name}(ptr align {align} {pointer}, {mask.typed}, {zero})")

    def _masked_store(self, value: Value, pointer: Value, mask: Value, align: int) -> None:
        name = f"@llvm.masked.store.v{lanes_of(value.type)}{_word(value.type)}.p0"
        self.declared.setdefault(name, f"declare void {name}({value.type}, ptr, {mask.type})")
        self.line(f"call void {name}({value.typed}, ptr align {align} {pointer}, {mask.typed})")

    # -- other ---------------------------------------------------------------------------------------------

    def prefetch(self, pointer: Value, *, write: bool = False, locality: int = 3) -> None:
        """Ask for a cache line; locality 3 keeps it in every cache, 0 in none for long."""
        words = (constant("i32", int(write)), constant("i32", locality), constant("i32", 1))
        self.intrinsic("prefetch", "void", pointer, *words, suffix="p0")

    def copy(self, target: Value, source: Value, bytes: Index) -> None:
        """Bytes that do not overlap; a constant, small number only, for else it is a library call."""
        self._block("memcpy", f"ptr {target}, ptr {source}", "ptr, ptr", bytes)

    def _block(self, name: str, args: str, types: str, bytes: Index) -> None:
        full = f"@llvm.{name}.inline.p0.p0.i64"
        self.declared.setdefault(full, f"declare void {full}({types}, i64 immarg, i1 immarg)")
        self.line(f"call void {full}({args}, i64 {bytes}, i1 false)")


def _word(type: str) -> str:
    element = element_of(type)
    return {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}.get(element, element)
