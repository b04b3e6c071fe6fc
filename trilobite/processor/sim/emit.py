"""LLVM text of scalar instructions: the writing hand of `translate`.

Enters: decoded scalar instructions. Leaves: lines of LLVM text with the meaning of their rows, bit for bit:
integers wrap in their width and stand extended in 64 bits, a NaN result is the canonical one, division has
no traps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from trilobite.native.host import features
from trilobite.native.llvm.memory import Memory
from trilobite.native.llvm.types import Value
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import Format
from trilobite.processor.isa.rows.scalar import from_immediate
from trilobite.processor.sim.access import locate_text
from trilobite.processor.sim.native_state import (
    EXECUTED,
    FIELDS,
    LIMIT,
    PC,
    STEP,
    TENSORS,
)

REGISTER_FORMATS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "f16", "bf16")
WHOLE = {"SADD": Memory.add, "SSUB": Memory.sub, "SMUL": Memory.mul,
         "SAND": Memory.and_, "SOR": Memory.or_, "SXOR": Memory.xor}  # fmt: skip
REAL = {"SADD": Memory.fadd, "SSUB": Memory.fsub, "SMUL": Memory.fmul, "SDIV": Memory.fdiv}
COMPARE = {"SGT": "gt", "SGE": "ge", "SE": "eq", "SNE": "ne", "SLT": "lt", "SLE": "le"}
MERGE = {"SMAX": "gt", "SMIN": "lt"}
COUNT = {"SCTZ": "cttz", "SCLZ": "ctlz", "SPOPC": "ctpop"}
PLAIN = ("SLI", "SLIH", "SMOVE", "SSEL")
NAN = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8000000000000}
TYPE = {"f32": "float", "f64": "double", "f16": "float", "bf16": "float"}  # what a format is computed in
NARROW = ("f16", "bf16")


def can_emit(name: str, formats: Sequence[Format], flags: Sequence[str]) -> bool:
    """Whether an instruction can be translated; what cannot stays with the interpreter."""
    if name in PLAIN:
        return True
    if not formats or (any(fmt.name == "f16" for fmt in formats) and not features().f16c):
        return False
    if name == "SCVT":
        return _can_convert(formats, flags)
    if formats[0].name in NARROW:
        return name in (*REAL, *COMPARE, *MERGE, "SNEG", "SABS", "SSQRT")
    if formats[0].kind == "float":
        return name in (*REAL, *COMPARE, *MERGE, "SNEG", "SABS", "SSQRT", "SFMA")
    return name in (*WHOLE, *COMPARE, *MERGE, "SNOT", "SNEG", "SABS", "SSHL", "SSHR", "SDIV", "SREM", *COUNT)


def _can_convert(formats: Sequence[Format], flags: Sequence[str]) -> bool:
    """Integers to floats, between floats, and floats to integers towards zero; to 16 bits from what a float32
    holds, so that there is one rounding."""
    to, source = formats
    if to.name in NARROW:
        is_exact = source.bits <= 16 or source.name == "f32" or (to.name == "f16" and source.kind != "float")
        return flags == ("rn",) and is_exact
    if to.kind == "float":
        return flags == ("rn",)
    return source.kind == "float" and flags == ("rz",)


class Writer(Memory):
    """Collects the lines of one function `run(state, counts)`."""

    does_tensors: ClassVar[bool] = True  # whether tensor instructions are steps of this code

    def __init__(self, used: Sequence[int], promoted: bool, inlined: bool) -> None:
        super().__init__(features())
        self.used, self.promoted, self.inlined = used, promoted, inlined
        self.exits: set[int] = set()
        self.state, self.counts = Value("%s", "ptr"), Value("%counts", "ptr")

    def label(self, name: str) -> None:
        self.line(f"{name}:")

    def get(self, register: int) -> Value:
        return self.load_type("i64", Value(f"%r{register}", "ptr"))

    def set(self, register: int, value: Value) -> None:
        self.store_type(value, Value(f"%r{register}", "ptr"))

    def word(self, number: int) -> Value:
        """Where a word of the state is."""
        return self.address(self.state, 8 * number)

    def leave(self, place: int) -> None:
        self.go_to_register(self.constant("i64", place), "leave")

    def leave_if(self, bad: Value, place: int) -> None:
        """To the interpreter, which judges this instruction, where the condition holds; else on."""
        out, on = self.fresh("x"), self.fresh("y")
        self.line(f"br i1 {bad}, label %{out}, label %{on}")
        self.label(out)
        self.leave(place)
        self.label(on)

    def enough(self, place: int, length: int) -> None:
        """Leaves before the block if the limit would be passed within it."""
        after = self.add(self.load_type("i64", Value("%executed", "ptr")), length)
        self.leave_if(self.icmp("sgt", after, Value("%limit", "i64")), place)

    def _increase(self, place: Value, count: int) -> None:
        self.store_type(self.add(self.load_type("i64", place), count), place)

    def count_trip(self, counts: Sequence[int], length: int) -> None:
        """A block was passed: so many scalar instructions of each class, so many in all."""
        for number, count in enumerate(counts):
            if count:
                self._increase(self.address(self.counts, 8 * number), count)
        self._increase(Value("%executed", "ptr"), length)

    def condition(self, test: str, registers: Sequence[int]) -> Value:
        left = self.get(registers[0])
        return self.icmp(test, left, self.get(registers[1]) if len(registers) > 1 else 0)

    def _destination(self, place: int, entry: Mapping[int, object]) -> str:
        """The label of a block, or of a way out for an instruction that is not translated."""
        if place in entry:
            return f"b{place}"
        self.exits.add(place)
        return f"out{place}" if place >= 0 else f"outm{-place}"

    def branch(self, test: Value, yes: int, no: int, entry: Mapping[int, object]) -> None:
        to, other = self._destination(yes, entry), self._destination(no, entry)
        self.line(f"br i1 {test}, label %{to}, label %{other}")

    def go(self, place: int, entry: Mapping[int, object]) -> None:
        self.line(f"br label %{self._destination(place, entry)}")

    def check_door(self, register: int, place: int, doors: Sequence[int]) -> None:
        """Leaves before a jump to a register that holds no door."""
        target, out, on = self.get(register), self.fresh("x"), self.fresh("y")
        self.line(f"switch i64 {target}, label %{out} [")
        for door in doors:
            self.line(f"i64 {door}, label %{on}")
        self.line("]")
        self.label(out)
        self.leave(place)
        self.label(on)

    def go_to_register(self, value: Value, label: str = "dispatch") -> None:
        self.store_type(value, Value("%pc", "ptr"))
        self.line(f"br label %{label}")

    def access(self, instruction: Instruction, place: int, is_store: bool) -> None:
        """A scalar load or store: through `locate`, which gives 0 for what the interpreter must judge."""
        fmt = instruction.formats[0]
        address = self.add(self.get(instruction.registers[1]), instruction.immediate)
        size = fmt.bits // 8
        host = self.define(
            "i64", f"call i64 @locate(ptr %s, {address.typed}, i64 {size}, i64 {int(is_store)})"
        )
        self.leave_if(self.icmp("eq", host, 0), place)
        pointer = self.define("ptr", f"inttoptr i64 {host} to ptr")
        if is_store:
            self.store_type(self._trunc(self.get(instruction.registers[0]), fmt.bits), pointer, size)
        else:
            value = self.load_type(f"i{fmt.bits}", pointer, size)
            self.set(instruction.registers[0], self._extend(value, fmt))

    def tensor(self, site: int, registers: Sequence[int], immediate: int | None, place: int) -> None:
        """A tensor instruction: its operands to where the step looks for them; what it refuses is left."""
        for number, register in enumerate(registers):
            self.store_type(self.get(register), self.word(FIELDS + number))
        if immediate is not None:
            self.store_type(self.constant("i64", immediate), self.word(FIELDS + len(registers)))
        code, tensors = (self.load_type("ptr", self.word(word)) for word in (STEP, TENSORS))
        done = self.define("i64", f"call i64 {code}(ptr {tensors}, i64 {site})")
        self.leave_if(self.icmp("eq", done, 0), place)

    def take_result(self, register: int, field: int) -> None:
        """The register that a tensor instruction writes, from where its routine left it."""
        self.set(register, self.load_type("i64", self.word(FIELDS + field)))

    def _trunc(self, value: Value, bits: int) -> Value:
        return self.convert("trunc", value, f"i{bits}")

    def _extend(self, value: Value, fmt: Format) -> Value:
        return self.convert("sext" if fmt.kind == "int" else "zext", value, "i64")

    def compute(self, instruction: Instruction) -> None:
        """Any other scalar instruction."""
        name = instruction.mnemonic
        target, *sources = instruction.registers
        if name in PLAIN:
            self.set(target, self._plain(instruction, sources))
            return
        fmt = instruction.formats[0]
        if name == "SCVT":
            self.set(target, self._convert(instruction, sources[0]))
            return
        values = [self.get(register) for register in sources]
        if instruction.row.immediate:
            values.append(self.constant("i64", from_immediate(fmt, instruction.immediate)))
        emitted = self._real(name, fmt, values) if fmt.kind == "float" else self._whole(name, fmt, values)
        self.set(target, emitted)

    def _plain(self, instruction: Instruction, sources: Sequence[int]) -> Value:
        name = instruction.mnemonic
        if name == "SLI":
            return self.constant("i64", instruction.immediate)
        if name == "SLIH":
            low = self.and_(self.get(sources[0]), 0xFFFFFFFF)
            return self.or_(low, (instruction.immediate & 0xFFFFFFFF) << 32)
        if name == "SSEL":
            p, a, b = (self.get(register) for register in sources)
            return self.select(self.icmp("ne", p, 0), a, b)
        if not instruction.row.immediate:
            return self.get(sources[0])
        return self.constant("i64", from_immediate(instruction.formats[0], instruction.immediate))

    def _whole(self, name: str, fmt: Format, raw: Sequence[Value]) -> Value:
        values = [self._trunc(value, fmt.bits) for value in raw]
        sign = "s" if fmt.kind == "int" else "u"
        if name in COMPARE:
            test = COMPARE[name] if name in ("SE", "SNE") else sign + COMPARE[name]
            return self.convert("zext", self.icmp(test, *values), "i64")
        if name in MERGE:
            return self._extend(self.select(self.icmp(sign + MERGE[name], *values), *values), fmt)
        return self._extend(self._arithmetic(name, fmt, values), fmt)

    def _arithmetic(self, name: str, fmt: Format, values: Sequence[Value]) -> Value:
        a = values[0]
        if name in WHOLE:
            return WHOLE[name](self, *values)
        if name in ("SSHL", "SSHR"):
            amount = self.and_(values[1], fmt.bits - 1)
            shift = self.shl if name == "SSHL" else self.ashr if fmt.kind == "int" else self.lshr
            return shift(a, amount)
        if name in COUNT:
            flag = () if name == "SPOPC" else (self.constant("i1", 0),)
            return self.intrinsic(COUNT[name], a.type, a, *flag)
        if name in ("SDIV", "SREM"):
            return self._divide(name, fmt, *values)
        if name == "SNOT":
            return self.xor(a, -1)
        if name == "SNEG":
            return self.sub(0, a)
        return a if fmt.kind == "uint" else self.select(self.icmp("slt", a, 0), self.sub(0, a), a)

    def _divide(self, name: str, fmt: Format, a: Value, b: Value) -> Value:
        zero = avoid = self.icmp("eq", b, 0)
        if fmt.kind == "int":
            least, minus = self.icmp("eq", a, -(1 << (fmt.bits - 1))), self.icmp("eq", b, -1)
            avoid = self.or_(zero, self.and_(least, minus))
        safe = self.select(avoid, self.constant(b.type, 1), b)
        signed, unsigned = (self.sdiv, self.udiv) if name == "SDIV" else (self.srem, self.urem)
        result = (signed if fmt.kind == "int" else unsigned)(a, safe)
        # by 1, an overflowing quotient is a itself and its remainder 0, as defined
        return self.select(zero, self.constant(a.type, -1) if name == "SDIV" else a, result)

    def _real(self, name: str, fmt: Format, raw: Sequence[Value]) -> Value:
        bits = [self._trunc(value, fmt.bits) for value in raw]
        if name in ("SNEG", "SABS"):
            mask = 1 << (fmt.bits - 1)
            changed = self.xor(bits[0], mask) if name == "SNEG" else self.and_(bits[0], mask - 1)
            return self._extend(changed, fmt)
        values = [self._widened(value, fmt) for value in bits]
        if name in COMPARE:
            test = "une" if name == "SNE" else "o" + COMPARE[name]
            return self.convert("zext", self.fcmp(test, *values), "i64")
        if name in MERGE:
            return self._extend(self.select(self.fcmp("o" + MERGE[name], *values), *bits), fmt)
        if name in REAL:
            return self._canonical(REAL[name](self, *values), fmt)
        function = "fma" if name == "SFMA" else "sqrt"
        return self._canonical(self.intrinsic(function, values[0].type, *values), fmt)

    def _widened(self, bits: Value, fmt: Format) -> Value:
        """What a number is computed as: a 16-bit float as its float32."""
        if fmt.name == "bf16":
            return self.as_float(self.shl(self.convert("zext", bits, "i32"), 16))
        return self.convert("fpext", self.as_float(bits), TYPE[fmt.name])

    def _rounded(self, value: Value, fmt: Format) -> Value:
        """The bits of a computed number, to nearest even."""
        if fmt.name == "f16":
            return self.bits(self.convert("fptrunc", value, "half"))
        word = self.bits(value)
        if fmt.name != "bf16":
            return word
        odd = self.and_(self.lshr(word, 16), 1)
        nearer = self.add(self.add(word, 32767), odd)
        return self._trunc(self.lshr(nearer, 16), 16)

    def _canonical(self, value: Value, fmt: Format) -> Value:
        nan = self.fcmp("uno", value, value)
        bits = self._rounded(value, fmt)
        # chosen as bits, for LLVM may take any NaN for another
        return self._extend(self.select(nan, self.constant(bits.type, NAN[fmt.name]), bits), fmt)

    def _convert(self, instruction: Instruction, register: int) -> Value:
        to, source = instruction.formats
        value = self._trunc(self.get(register), source.bits)
        if source.kind != "float":
            operation = "sitofp" if source.kind == "int" else "uitofp"
            return self._canonical(self.convert(operation, value, TYPE[to.name]), to)
        real = self._widened(value, source)
        if to.kind == "float":
            wanted = TYPE[to.name]
            return self._canonical(
                self.convert("fpext" if wanted == "double" else "fptrunc", real, wanted), to
            )
        sat = "fptosi" if to.kind == "int" else "fptoui"
        name = f"{sat}.sat.i{to.bits}.f{max(source.bits, 32)}"
        return self._extend(self.intrinsic(name, f"i{to.bits}", real, suffix=""), to)

    def module(self, places: Sequence[int]) -> str:
        """The whole module: state in, blocks, state out; it can be entered at these places."""
        head = [*self.declared.values(), locate_text(self.inlined)]
        head += ["define void @run(ptr %s, ptr %counts) {", "entry:"]
        names = {"pc": PC, "executed": EXECUTED}
        head += [f"  %{name} = alloca i64" for name in names]
        head += [f"  %{name}p = getelementptr i64, ptr %s, i64 {word}" for name, word in names.items()]
        tail = ["leave:"]
        for name in names:
            head += [f"  %{name}i = load i64, ptr %{name}p", f"  store i64 %{name}i, ptr %{name}"]
            tail += [f"  %{name}o = load i64, ptr %{name}", f"  store i64 %{name}o, ptr %{name}p"]
        for register in self.used:
            where = f"getelementptr i64, ptr %s, i64 {register}"
            if not self.promoted:
                head.append(f"  %r{register} = {where}")
                continue
            head += [
                f"  %r{register} = alloca i64",
                f"  %p{register} = {where}",
                f"  %i{register} = load i64, ptr %p{register}",
                f"  store i64 %i{register}, ptr %r{register}",
            ]
            tail += [
                f"  %o{register} = load i64, ptr %r{register}",
                f"  store i64 %o{register}, ptr %p{register}",
            ]
        head += [
            f"  %limitp = getelementptr i64, ptr %s, i64 {LIMIT}",
            "  %limit = load i64, ptr %limitp",
            "  br label %dispatch",
            "dispatch:",
            "  %at = load i64, ptr %pc",
            "  switch i64 %at, label %leave [",
        ]
        head += [f"    i64 {place}, label %b{place}" for place in places] + ["  ]"]
        outs = []
        for place in sorted(self.exits):
            name = f"out{place}" if place >= 0 else f"outm{-place}"
            outs += [f"{name}:", f"  store i64 {place}, ptr %pc", "  br label %leave"]
        return "\n".join([*head, *self.lines, *outs, *tail, "  ret void", "}", ""])
