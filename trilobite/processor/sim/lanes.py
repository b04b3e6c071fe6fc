"""Element-by-element instructions as machine code: a fast path for vectors, in one call an instruction.

Enters: a decoded instruction and its operands in memory. Leaves: a call that does what the row's meaning
does, bit for bit, or None where there is no such code: transcendental functions, narrow floats, operands that
overlap in part (their sources would have to be read whole first). Deleting this module changes only speed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from trilobite.native.jit import INT64, POINTER, NativeModule
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import Array, Format
from trilobite.processor.isa.row import Operands
from trilobite.processor.isa.rows.scalar import from_immediate

LONGEST_CYCLE = 4096  # elements; longer rows that repeat are NumPy's
FORMATS = ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
SCALARS = {"VAS": "VAV", "VSS": "VSV", "VMS": "VMV", "VDS": "VDV", "VRSS": "VSV", "VRDS": "VDV",
           "VGTMS": "VGTM", "VLTMS": "VLTM", "VGTS": "VGT", "VGES": "VGE", "VES": "VE", "VNES": "VNE",
           "VLTS": "VLT", "VLES": "VLE", "VBANDS": "VBAND", "VBORS": "VBOR", "VBXORS": "VBXOR",
           "VSHLS": "VSHL", "VSHRS": "VSHR", "VROLS": "VROL"}  # fmt: skip
REVERSED = ("VRSS", "VRDS")
CYCLIC = {"VCAV": "VAV", "VCSV": "VSV", "VCMV": "VMV", "VCDV": "VDV", "VCGTM": "VGTM", "VCLTM": "VLTM",
          "VCGT": "VGT", "VCGE": "VGE", "VCE": "VE", "VCNE": "VNE", "VCLT": "VLT", "VCLE": "VLE",
          "VCAND": "VAND", "VCOR": "VOR"}  # fmt: skip
REAL = {"VAV": "fadd", "VSV": "fsub", "VMV": "fmul", "VDV": "fdiv"}
WHOLE = {"VAV": "add", "VSV": "sub", "VMV": "mul"}
BITS = {"VBAND": "and", "VBOR": "or", "VBXOR": "xor"}
COMPARE = {"VGT": "gt", "VGE": "ge", "VE": "eq", "VNE": "ne", "VLT": "lt", "VLE": "le"}
MERGE = {"VGTM": "gt", "VLTM": "lt"}
TRUTH = {"VAND": "and", "VOR": "or", "VXOR": "xor"}
SHIFT = ("VSHL", "VSHR", "VROL")
COUNT = {"VPOPC": "ctpop", "VCLZ": "ctlz", "VCTZ": "cttz"}
UNARY = ("VABS", "VNEG", "VRELU", "VNOT", "VBNOT", "VRECIP", *COUNT)
NAN = {32: 0x7FC00000, 64: 0x7FF8000000000000}


class _Lane:
    """The text of one element's computation."""

    def __init__(self, fmt: Format) -> None:
        self.fmt = fmt
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.whole = f"i{fmt.bits}"
        self.real = {"f32": "float", "f64": "double"}.get(fmt.name, "")
        self.kind = self.real or self.whole

    def new(self, text: str) -> str:
        self.lines.append(f"  %v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def call(self, name: str, kind: str, *arguments: str) -> str:
        given = ", ".join(a if " " in a else f"{kind} {a}" for a in arguments)
        types = ", ".join(a.split()[0] if " " in a else kind for a in arguments)
        suffix = f"f{self.fmt.bits}" if kind == self.real else self.whole
        self.declared.add(f"declare {kind} @llvm.{name}.{suffix}({types})")
        return self.new(f"call {kind} @llvm.{name}.{suffix}({given})")

    def bits_of(self, x: str) -> str:
        return self.new(f"bitcast {self.real} {x} to {self.whole}") if self.real else x

    def from_bits(self, x: str) -> str:
        return self.new(f"bitcast {self.whole} {x} to {self.real}") if self.real else x

    def canonical(self, x: str) -> str:
        """NaN results are the one canonical NaN; chosen as bits, for LLVM may take any NaN for another."""
        nan = self.new(f"fcmp uno {self.kind} {x}, {x}")
        bits = self.bits_of(x)
        return self.from_bits(
            self.new(f"select i1 {nan}, {self.whole} {NAN[self.fmt.bits]}, {self.whole} {bits}")
        )

    def test(self, name: str, a: str, b: str) -> str:
        if self.real:
            return self.new(f"fcmp {'une' if name == 'ne' else 'o' + name} {self.kind} {a}, {b}")
        sign = "" if name in ("eq", "ne") else ("s" if self.fmt.kind == "int" else "u")
        return self.new(f"icmp {sign}{name} {self.kind} {a}, {b}")

    def truth(self, test: str) -> str:
        return self.new(f"{'uitofp' if self.real else 'zext'} i1 {test} to {self.kind}")

    @property
    def zero(self) -> str:
        return "0.0" if self.real else "0"

    def choose(self, test: str, a: str, b: str) -> str:
        return self.new(f"select i1 {test}, {self.kind} {a}, {self.kind} {b}")

    def divide(self, a: str, b: str) -> str:
        """To zero; by 0 all ones; the one overflow gives a itself."""
        zero = self.new(f"icmp eq {self.kind} {b}, 0")
        avoid = zero
        if self.fmt.kind == "int":
            least = self.new(f"icmp eq {self.kind} {a}, {-(1 << (self.fmt.bits - 1))}")
            minus = self.new(f"icmp eq {self.kind} {b}, -1")
            over = self.new(f"and i1 {least}, {minus}")
            avoid = self.new(f"or i1 {zero}, {over}")
        safe = self.choose(avoid, "1", b)
        result = self.new(f"{'s' if self.fmt.kind == 'int' else 'u'}div {self.kind} {a}, {safe}")
        return self.choose(zero, "-1", result)

    def shift(self, name: str, a: str, b: str) -> str:
        amount = self.new(f"and {self.kind} {b}, {self.fmt.bits - 1}")
        if name == "VROL":
            return self.call("fshl", self.kind, a, a, amount)
        left = "shl" if name == "VSHL" else ("ashr" if self.fmt.kind == "int" else "lshr")
        return self.new(f"{left} {self.kind} {a}, {amount}")

    def binary(self, name: str, a: str, b: str) -> str:
        if name in COMPARE:
            return self.truth(self.test(COMPARE[name], a, b))
        if name in MERGE:
            return self.choose(self.test(MERGE[name], a, b), a, b)
        if name in TRUTH:
            p, q = self.test("ne", a, self.zero), self.test("ne", b, self.zero)
            return self.truth(self.new(f"{TRUTH[name]} i1 {p}, {q}"))
        if name in BITS:
            return self.from_bits(self.new(f"{BITS[name]} {self.whole} {self.bits_of(a)}, {self.bits_of(b)}"))
        if self.real:
            return self.canonical(self.new(f"{REAL[name]} {self.kind} {a}, {b}"))
        if name in SHIFT:
            return self.shift(name, a, b)
        return self.divide(a, b) if name == "VDV" else self.new(f"{WHOLE[name]} {self.kind} {a}, {b}")

    def unary(self, name: str, a: str) -> str:
        if name == "VNOT":
            return self.truth(self.test("eq", a, self.zero))
        if name == "VBNOT":
            return self.from_bits(self.new(f"xor {self.whole} {self.bits_of(a)}, -1"))
        if name in COUNT:
            extra = () if name == "VPOPC" else ("i1 0",)
            return self.call(COUNT[name], self.kind, a, *extra)
        return self._real_unary(name, a) if self.real else self._whole_unary(name, a)

    def _whole_unary(self, name: str, a: str) -> str:
        if name == "VRELU":
            return self.choose(self.test("gt", a, "0"), a, "0")
        negative = self.new(f"sub {self.kind} 0, {a}")
        return negative if name == "VNEG" else self.choose(self.test("lt", a, "0"), negative, a)

    def _real_unary(self, name: str, a: str) -> str:
        if name == "VRELU":
            above, nan = self.test("gt", a, "0.0"), self.new(f"fcmp uno {self.kind} {a}, {a}")
            return self.choose(self.new(f"or i1 {above}, {nan}"), a, "0.0")
        if name == "VRECIP":
            return self.canonical(self.new(f"fdiv {self.kind} 1.0, {a}"))
        top = 1 << (self.fmt.bits - 1)
        text = f"xor {self.whole} {{}}, {-top}" if name == "VNEG" else f"and {self.whole} {{}}, {top - 1}"
        return self.from_bits(self.new(text.format(self.bits_of(a))))


def has_lane(name: str, fmt: Format) -> bool:
    """Whether an element-by-element instruction of this base name has machine code in the format."""
    if fmt.name not in FORMATS:
        return False
    common = name == "VSEL" or name in COMPARE or name in MERGE or name in TRUTH or name in BITS
    if common or name in ("VABS", "VNEG", "VRELU", "VNOT", "VBNOT", "VAV", "VSV", "VMV", "VDV"):
        return True
    if fmt.kind == "float":
        return name == "VRECIP" or (name == "VFMA" and fmt.bits == 32)
    return name in SHIFT or name in COUNT


def _text(name: str, fmt: Format, mode: str) -> str:
    """`run(dst, a, b, c, n, m)`: mode "scalar" reads b once, "cyclic" begins it again every m elements."""
    lane = _Lane(fmt)
    loads = []
    for source in "abc":
        index = {"scalar": "0", "cyclic": "%j"}.get(mode, "%i") if source == "b" else "%i"
        loads += [f"  %p{source} = getelementptr {lane.kind}, ptr %{source}, i64 {index}",
                  f"  %{source}v = load {lane.kind}, ptr %p{source}, align 1"]  # fmt: skip
    if name == "VSEL":
        result = lane.choose(lane.test("ne", "%av", lane.zero), "%bv", "%cv")
        used = "abc"
    elif name == "VFMA":
        result, used = lane.canonical(lane.call("fma", lane.kind, "%av", "%bv", "%cv")), "abc"
    elif name in UNARY:
        result, used = lane.unary(name, "%av"), "a"
    else:
        first, second = ("%bv", "%av") if mode == "reversed" else ("%av", "%bv")
        result, used = lane.binary(name, first, second), "ab"
    kept = [line for line in loads if line.split()[0][1:].strip("pv") in used]
    scalar = [line for line in kept if mode in ("scalar", "reversed") and "b" in line.split()[0]]
    scalar = [line.replace("i64 %i", "i64 0") for line in scalar]
    inner = [line for line in kept if line.split()[0] not in {s.split()[0] for s in scalar}]
    return "\n".join([
        *sorted(lane.declared),
        "define void @run(ptr %d, ptr %a, ptr %b, ptr %c, i64 %n, i64 %m) {", "entry:", *scalar,
        "  br label %loop", "loop:", "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        "  %j = phi i64 [ 0, %entry ], [ %wrap, %loop ]", *inner, *lane.lines,
        f"  %pd = getelementptr {lane.kind}, ptr %d, i64 %i",
        f"  store {lane.kind} {result}, ptr %pd, align 1",
        "  %next = add i64 %i, 1", "  %jn = add i64 %j, 1", "  %full = icmp eq i64 %jn, %m",
        "  %wrap = select i1 %full, i64 0, i64 %jn", "  %more = icmp slt i64 %next, %n",
        "  br i1 %more, label %loop, label %done", "done:", "  ret void", "}", ""])  # fmt: skip


@lru_cache(maxsize=512)
def lane_function(name: str, fmt: Format, mode: str) -> tuple[NativeModule, Callable[..., object]]:
    """`run` of an element function; the code lives as long as the module."""
    signature = (None, (POINTER, POINTER, POINTER, POINTER, INT64, INT64))
    module = NativeModule(_text(name, fmt, mode), {"run": signature})
    return module, module["run"]


def base_name(mnemonic: str) -> tuple[str, str]:
    """The instruction whose element function this one has, and how its second operand is read."""
    if mnemonic in SCALARS:
        return SCALARS[mnemonic], "reversed" if mnemonic in REVERSED else "scalar"
    if mnemonic in CYCLIC:
        return CYCLIC[mnemonic], "cyclic"
    return mnemonic, "plain"


def lane_call(
    instruction: Instruction, o: Operands, targets: Sequence[Array], arrays: Sequence[Array]
) -> Callable[[], object] | None:
    """The whole instruction as one call, or None."""
    name, mode = base_name(instruction.row.mnemonic)
    if not instruction.formats or not has_lane(name, instruction.formats[0]):
        return None
    fmt, target = instruction.formats[0], targets[0]
    if not _apart(target, arrays) or (mode == "cyclic" and o.m > LONGEST_CYCLE):
        return None
    places = [array.ctypes.data for array in arrays]
    second: Any = places[1] if len(places) > 1 else 0
    if mode in ("scalar", "reversed"):  # the call holds the scalar's own memory as long as it lives
        word = o.s if "s" in o.values else from_immediate(fmt, o.imm)
        second = ctypes.cast(ctypes.pointer(ctypes.c_uint64(word)), ctypes.c_void_p)
    first, third = places[0] if places else 0, places[2] if len(places) > 2 else 0
    function = lane_function(name, fmt, mode)[1]
    return partial(function, target.ctypes.data, first, second, third, o.n, o.m if mode == "cyclic" else 0)


def _apart(target: Array, arrays: Sequence[Array]) -> bool:
    """Every source is the target itself, or touches none of it."""
    first, last = target.ctypes.data, target.ctypes.data + target.nbytes
    for array in arrays:
        start, size = array.ctypes.data, array.nbytes
        same = start == first and size == last - first
        if not same and start < last and first < start + size:
            return False
    return all(array.flags.c_contiguous for array in arrays) and target.flags.c_contiguous
