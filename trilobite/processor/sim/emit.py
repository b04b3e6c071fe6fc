"""LLVM text of scalar instructions: the writing hand of `translate`.

Enters: decoded scalar instructions. Leaves: lines of LLVM text with the meaning of their rows, bit for bit:
integers wrap in their width and stand extended in 64 bits, a NaN result is the canonical one, division has
no traps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from trilobite.native.host import features
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import Format
from trilobite.processor.isa.rows.scalar import from_immediate
from trilobite.processor.sim.native_state import (
    DECLARATIONS,
    EXECUTED,
    FIELDS,
    LIMIT,
    LOCATE,
    PC,
    STEP,
    TENSORS,
)

REGISTER_FORMATS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "f16", "bf16")
WHOLE = {"SADD": "add", "SSUB": "sub", "SMUL": "mul", "SAND": "and", "SOR": "or", "SXOR": "xor"}
REAL = {"SADD": "fadd", "SSUB": "fsub", "SMUL": "fmul", "SDIV": "fdiv"}
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


class Writer:
    """Collects the lines of one function `run(state, counts)`."""

    does_tensors: ClassVar[bool] = True  # whether tensor instructions are steps of this code

    def __init__(self, used: Sequence[int], promoted: bool, inlined: bool) -> None:
        self.used, self.promoted, self.inlined = used, promoted, inlined
        self.lines: list[str] = []
        self.exits: set[int] = set()
        self.names = 0

    def new(self, text: str) -> str:
        self.names += 1
        name = f"%v{self.names}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def get(self, register: int) -> str:
        return self.new(f"load i64, ptr %r{register}")

    def set(self, register: int, value: str) -> None:
        self.do(f"store i64 {value}, ptr %r{register}")

    def leave(self, place: int) -> None:
        self.do(f"store i64 {place}, ptr %pc")
        self.do("br label %leave")

    def enough(self, place: int, length: int) -> None:
        """Leaves before the block if the limit would be passed within it."""
        after = self.new("load i64, ptr %executed")
        after = self.new(f"add i64 {after}, {length}")
        over = self.new(f"icmp sgt i64 {after}, %limit")
        self.names += 1
        self.do(f"br i1 {over}, label %x{self.names}, label %y{self.names}")
        number = self.names
        self.label(f"x{number}")
        self.leave(place)
        self.label(f"y{number}")

    def count_trip(self, counts: Sequence[int], length: int) -> None:
        """A block was passed: so many scalar instructions of each class, so many in all."""
        for number, count in enumerate(counts):
            if count:
                at = self.new(f"getelementptr i64, ptr %counts, i64 {number}")
                old = self.new(f"load i64, ptr {at}")
                self.do(f"store i64 {self.new(f'add i64 {old}, {count}')}, ptr {at}")
        done = self.new("load i64, ptr %executed")
        self.do(f"store i64 {self.new(f'add i64 {done}, {length}')}, ptr %executed")

    def condition(self, test: str, registers: Sequence[int]) -> str:
        left = self.get(registers[0])
        right = self.get(registers[1]) if len(registers) > 1 else "0"
        return self.new(f"icmp {test} i64 {left}, {right}")

    def _destination(self, place: int, entry: Mapping[int, object]) -> str:
        """The label of a block, or of a way out for an instruction that is not translated."""
        if place in entry:
            return f"b{place}"
        self.exits.add(place)
        return f"out{place}" if place >= 0 else f"outm{-place}"

    def branch(self, test: str, yes: int, no: int, entry: Mapping[int, object]) -> None:
        self.do(
            f"br i1 {test}, label %{self._destination(yes, entry)}, label %{self._destination(no, entry)}"
        )

    def go(self, place: int, entry: Mapping[int, object]) -> None:
        self.do(f"br label %{self._destination(place, entry)}")

    def check_door(self, register: int, place: int, doors: Sequence[int]) -> None:
        """Leaves before a jump to a register that holds no door."""
        target = self.get(register)
        self.names += 1
        number = self.names
        self.do(f"switch i64 {target}, label %x{number} [")
        self.lines += [f"    i64 {door}, label %y{number}" for door in doors]
        self.do("]")
        self.label(f"x{number}")
        self.leave(place)
        self.label(f"y{number}")

    def go_to_register(self, value: str) -> None:
        self.do(f"store i64 {value}, ptr %pc")
        self.do("br label %dispatch")

    def leave_if(self, bad: str, place: int) -> None:
        """To the interpreter, which judges this instruction, where the condition holds; else on."""
        self.names += 1
        number = self.names
        self.do(f"br i1 {bad}, label %x{number}, label %y{number}")
        self.label(f"x{number}")
        self.leave(place)
        self.label(f"y{number}")

    def access(self, instruction: Instruction, place: int, is_store: bool) -> None:
        """A scalar load or store: through `locate`, which gives 0 for what the interpreter must judge."""
        fmt = instruction.formats[0]
        base = self.get(instruction.registers[1])
        address = self.new(f"add i64 {base}, {instruction.immediate}")
        size = fmt.bits // 8
        host = self.new(f"call i64 @locate(ptr %s, i64 {address}, i64 {size}, i64 {int(is_store)})")
        bad = self.new(f"icmp eq i64 {host}, 0")
        self.leave_if(bad, place)
        pointer = self.new(f"inttoptr i64 {host} to ptr")
        kind = f"i{fmt.bits}"
        if is_store:
            value = self.get(instruction.registers[0])
            self.do(f"store {kind} {self._trunc(value, fmt.bits)}, ptr {pointer}, align {size}")
        else:
            value = self.new(f"load {kind}, ptr {pointer}, align {size}")
            self.set(instruction.registers[0], self._extend(value, fmt))

    def tensor(self, site: int, registers: Sequence[int], immediate: int | None, place: int) -> None:
        """A tensor instruction: its operands to where the step looks for them; what it refuses is left."""
        for number, register in enumerate(registers):
            self._word(FIELDS + number, self.get(register))
        if immediate is not None:
            self._word(FIELDS + len(registers), str(immediate - (1 << 64) if immediate >> 63 else immediate))
        code, tensors = (
            self.new(f"load ptr, ptr {self.new(f'getelementptr i64, ptr %s, i64 {word}')}")
            for word in (STEP, TENSORS)
        )
        done = self.new(f"call i64 {code}(ptr {tensors}, i64 {site})")
        bad = self.new(f"icmp eq i64 {done}, 0")
        self.leave_if(bad, place)

    def take_result(self, register: int, field: int) -> None:
        """The register that a tensor instruction writes, from where its routine left it."""
        place = self.new(f"getelementptr i64, ptr %s, i64 {FIELDS + field}")
        self.set(register, self.new(f"load i64, ptr {place}"))

    def _word(self, word: int, value: str) -> None:
        self.do(f"store i64 {value}, ptr {self.new(f'getelementptr i64, ptr %s, i64 {word}')}")

    def _trunc(self, value: str, bits: int) -> str:
        return value if bits == 64 else self.new(f"trunc i64 {value} to i{bits}")

    def _extend(self, value: str, fmt: Format) -> str:
        if fmt.bits == 64:
            return value
        return self.new(f"{'sext' if fmt.kind == 'int' else 'zext'} i{fmt.bits} {value} to i64")

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
            bits = from_immediate(fmt, instruction.immediate)
            values.append(str(bits - (1 << 64) if bits >> 63 else bits))
        emitted = self._real(name, fmt, values) if fmt.kind == "float" else self._whole(name, fmt, values)
        self.set(target, emitted)

    def _plain(self, instruction: Instruction, sources: Sequence[int]) -> str:
        name = instruction.mnemonic
        if name == "SLI":
            return str(instruction.immediate)
        if name == "SLIH":
            low = self.new(f"and i64 {self.get(sources[0])}, 4294967295")
            high = (instruction.immediate & 0xFFFFFFFF) << 32
            return self.new(f"or i64 {low}, {high - (1 << 64) if high >> 63 else high}")
        if name == "SSEL":
            p, a, b = (self.get(register) for register in sources)
            test = self.new(f"icmp ne i64 {p}, 0")
            return self.new(f"select i1 {test}, i64 {a}, i64 {b}")
        if not instruction.row.immediate:
            return self.get(sources[0])
        bits = from_immediate(instruction.formats[0], instruction.immediate)
        return str(bits - (1 << 64) if bits >> 63 else bits)

    def _whole(self, name: str, fmt: Format, raw: Sequence[str]) -> str:
        values = [self._trunc(value, fmt.bits) for value in raw]
        kind, sign = f"i{fmt.bits}", "s" if fmt.kind == "int" else "u"
        if name in COMPARE:
            test = COMPARE[name] if name in ("SE", "SNE") else sign + COMPARE[name]
            return self.new(f"zext i1 {self.new(f'icmp {test} {kind} {values[0]}, {values[1]}')} to i64")
        if name in MERGE:
            test = self.new(f"icmp {sign}{MERGE[name]} {kind} {values[0]}, {values[1]}")
            return self._extend(self.new(f"select i1 {test}, {kind} {values[0]}, {kind} {values[1]}"), fmt)
        return self._extend(self._arithmetic(name, fmt, values), fmt)

    def _arithmetic(self, name: str, fmt: Format, values: Sequence[str]) -> str:
        kind = f"i{fmt.bits}"
        if name in WHOLE:
            return self.new(f"{WHOLE[name]} {kind} {values[0]}, {values[1]}")
        if name in ("SSHL", "SSHR"):
            amount = self.new(f"and {kind} {values[1]}, {fmt.bits - 1}")
            operation = "shl" if name == "SSHL" else "ashr" if fmt.kind == "int" else "lshr"
            return self.new(f"{operation} {kind} {values[0]}, {amount}")
        if name in COUNT:
            flag = "" if name == "SPOPC" else ", i1 false"
            return self.new(f"call {kind} @llvm.{COUNT[name]}.{kind}({kind} {values[0]}{flag})")
        if name in ("SDIV", "SREM"):
            return self._divide(name, fmt, values)
        if name == "SNOT":
            return self.new(f"xor {kind} {values[0]}, -1")
        negative = self.new(f"sub {kind} 0, {values[0]}")
        if name == "SNEG" or fmt.kind == "uint":
            return negative if name == "SNEG" else values[0]
        below = self.new(f"icmp slt {kind} {values[0]}, 0")
        return self.new(f"select i1 {below}, {kind} {negative}, {kind} {values[0]}")

    def _divide(self, name: str, fmt: Format, values: Sequence[str]) -> str:
        kind, (a, b) = f"i{fmt.bits}", values
        zero = self.new(f"icmp eq {kind} {b}, 0")
        avoid = zero
        if fmt.kind == "int":
            least = self.new(f"icmp eq {kind} {a}, {-(1 << (fmt.bits - 1))}")
            minus = self.new(f"icmp eq {kind} {b}, -1")
            over = self.new(f"and i1 {least}, {minus}")
            avoid = self.new(f"or i1 {zero}, {over}")
        safe = self.new(f"select i1 {avoid}, {kind} 1, {kind} {b}")
        operation = ("s" if fmt.kind == "int" else "u") + ("div" if name == "SDIV" else "rem")
        result = self.new(f"{operation} {kind} {a}, {safe}")
        # by 1, an overflowing quotient is a itself and its remainder 0, as defined
        return self.new(f"select i1 {zero}, {kind} {'-1' if name == 'SDIV' else a}, {kind} {result}")

    def _real(self, name: str, fmt: Format, raw: Sequence[str]) -> str:
        kind, whole = TYPE[fmt.name], f"i{fmt.bits}"
        bits = [self._trunc(value, fmt.bits) for value in raw]
        if name in ("SNEG", "SABS"):
            mask = 1 << (fmt.bits - 1)
            text = (
                f"xor {whole} {bits[0]}, {-mask}" if name == "SNEG" else f"and {whole} {bits[0]}, {mask - 1}"
            )
            return self._extend(self.new(text), fmt)
        values = [self._widened(value, fmt) for value in bits]
        if name in COMPARE:
            test = "une" if name == "SNE" else "o" + COMPARE[name]
            return self.new(f"zext i1 {self.new(f'fcmp {test} {kind} {values[0]}, {values[1]}')} to i64")
        if name in MERGE:
            test = self.new(f"fcmp o{MERGE[name]} {kind} {values[0]}, {values[1]}")
            return self._extend(self.new(f"select i1 {test}, {whole} {bits[0]}, {whole} {bits[1]}"), fmt)
        if name in REAL:
            result = self.new(f"{REAL[name]} {kind} {values[0]}, {values[1]}")
        else:
            function = "fma" if name == "SFMA" else "sqrt"
            arguments = ", ".join(f"{kind} {value}" for value in values)
            result = self.new(f"call {kind} @llvm.{function}.f{max(fmt.bits, 32)}({arguments})")
        return self._canonical(result, fmt)

    def _widened(self, bits: str, fmt: Format) -> str:
        """What a number is computed as: a 16-bit float as its float32."""
        if fmt.name == "bf16":
            wide = self.new(f"shl i32 {self.new(f'zext i16 {bits} to i32')}, 16")
            return self.new(f"bitcast i32 {wide} to float")
        if fmt.name == "f16":
            return self.new(f"fpext half {self.new(f'bitcast i16 {bits} to half')} to float")
        return self.new(f"bitcast i{fmt.bits} {bits} to {TYPE[fmt.name]}")

    def _rounded(self, value: str, fmt: Format) -> str:
        """The bits of a computed number, to nearest even."""
        if fmt.name == "f16":
            return self.new(f"bitcast half {self.new(f'fptrunc float {value} to half')} to i16")
        if fmt.name != "bf16":
            return self.new(f"bitcast {TYPE[fmt.name]} {value} to i{fmt.bits}")
        word = self.new(f"bitcast float {value} to i32")
        odd = self.new(f"and i32 {self.new(f'lshr i32 {word}, 16')}, 1")
        nearer = self.new(f"add i32 {self.new(f'add i32 {word}, 32767')}, {odd}")
        return self.new(f"trunc i32 {self.new(f'lshr i32 {nearer}, 16')} to i16")

    def _canonical(self, value: str, fmt: Format) -> str:
        kind = TYPE[fmt.name]
        nan = self.new(f"fcmp uno {kind} {value}, {value}")
        bits = self._rounded(value, fmt)
        # chosen as bits, for LLVM may take any NaN for another
        which = f"select i1 {nan}, i{fmt.bits} {NAN[fmt.name]}, i{fmt.bits} {bits}"
        return self._extend(self.new(which), fmt)

    def _convert(self, instruction: Instruction, register: int) -> str:
        to, source = instruction.formats
        value = self._trunc(self.get(register), source.bits)
        if source.kind != "float":
            kind = TYPE[to.name]
            operation = "sitofp" if source.kind == "int" else "uitofp"
            return self._canonical(self.new(f"{operation} i{source.bits} {value} to {kind}"), to)
        given = TYPE[source.name]
        real = self._widened(value, source)
        if to.kind == "float":
            wanted = TYPE[to.name]
            if wanted != given:
                real = self.new(f"{'fpext' if wanted == 'double' else 'fptrunc'} {given} {real} to {wanted}")
            return self._canonical(real, to)
        sat = "fptosi" if to.kind == "int" else "fptoui"
        result = self.new(
            f"call i{to.bits} @llvm.{sat}.sat.i{to.bits}.f{max(source.bits, 32)}({given} {real})"
        )
        return self._extend(result, to)

    def module(self, places: Sequence[int]) -> str:
        """The whole module: state in, blocks, state out; it can be entered at these places."""
        locate = LOCATE if self.inlined else LOCATE.replace("alwaysinline", "noinline")
        head = [*DECLARATIONS, locate, "define void @run(ptr %s, ptr %counts) {", "entry:"]
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
