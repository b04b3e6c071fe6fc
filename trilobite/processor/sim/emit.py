"""LLVM text of scalar instructions: what `translate` emits.

Enters: decoded scalar instructions. Leaves: lines of LLVM text with the meaning of their rows, bit for bit.
Arithmetic is that of `routines.vector` on one element; integers stand extended in 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from trilobite.native.host import features
from trilobite.native.llvm.functions import Functions
from trilobite.native.llvm.types import Value
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import Format
from trilobite.processor.isa.rows.scalar import from_immediate
from trilobite.processor.sim.access import locate_text
from trilobite.processor.sim.native_state import EXECUTED, FIELDS, LIMIT, PC, STEP, TENSORS
from trilobite.processor.sim.routines.elements import finish, is_handy, wide
from trilobite.processor.sim.routines.text import Code
from trilobite.processor.sim.routines.text import Value as Number
from trilobite.processor.sim.routines.vector import OPERATIONS, can_convert, converted, holds

REGISTER_FORMATS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "f16", "bf16")
PLAIN = ("SLI", "SLIH", "SMOVE", "SSEL")
COMPARE = {"SGT": "gt", "SGE": "ge", "SE": "eq", "SNE": "ne", "SLT": "lt", "SLE": "le"}
# The vector instruction that does the same to each element. Those that state an algorithm are long: they are
# the interpreter's.
ELEMENTWISE = {"SADD": "VAV", "SSUB": "VSV", "SMUL": "VMV", "SDIV": "VDV", "SREM": "VREM", "SMAX": "VGTM",
               "SMIN": "VLTM", "SAND": "VBAND", "SOR": "VBOR", "SXOR": "VBXOR", "SSHL": "VSHL",
               "SSHR": "VSHR", "SNOT": "VBNOT", "SNEG": "VNEG", "SABS": "VABS", "SCTZ": "VCTZ",
               "SCLZ": "VCLZ", "SPOPC": "VPOPC", "SSQRT": "VSQRT", "SRSQRT": "VRSQRT", "SFLOOR": "VFLOOR",
               "SCEIL": "VCEIL", "SFMA": "VFMA"}  # fmt: skip


def can_emit(name: str, formats: Sequence[Format], flags: Sequence[str]) -> bool:
    """Whether an instruction can be translated; what cannot stays with the interpreter."""
    if name == "SCVT":
        (to, source), (rounding,) = formats, flags
        return can_convert(to, source, rounding)
    return name in PLAIN or ((name in ELEMENTWISE or name in COMPARE) and is_handy(formats[0]))


class Writer(Functions):
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

    def check_entry_point(self, register: int, place: int, entry_points: Sequence[int]) -> None:
        """Leaves before a jump to a register that holds no entry point."""
        target, out, on = self.get(register), self.fresh("x"), self.fresh("y")
        self.line(f"switch i64 {target}, label %{out} [")
        for point in entry_points:
            self.line(f"i64 {point}, label %{on}")
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
        values = [self.get(register) for register in sources]
        if instruction.row.immediate:
            word = from_immediate(instruction.formats[0], instruction.immediate)
            values.append(self.constant("i64", word))
        self.set(target, self._element(instruction, values))

    def _element(self, instruction: Instruction, values: Sequence[Value]) -> Value:
        """What the vector unit does, to one element."""
        name, code = instruction.mnemonic, Code(self)
        to, source = instruction.formats[0], instruction.formats[-1]
        bits = [Number(code, self._trunc(value, source.bits)) for value in values]
        if name in COMPARE:
            return self.convert("zext", holds(COMPARE[name], code, to, *bits).of, "i64")
        if name == "SCVT":
            found = converted(code, to, source, wide(code, source, bits[0]), *instruction.flags)
        else:
            found = OPERATIONS[ELEMENTWISE[name]](code, to, *bits)
        return self._extend(finish(to, found).of, to)

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
