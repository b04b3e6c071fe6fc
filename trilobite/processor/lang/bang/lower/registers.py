"""The registers of one inline assembly: what its operands hold from statement to statement.

Enters: the constraints of an assembly and the arguments of its call. Leaves: the value of an operand `$3` at
any point, and what the outputs hold in the end. Scalar statements (`add.gpr.u48 $0, $1, 32`) are done here; a
register is 64 bits wide whatever its C variable is.
"""

from __future__ import annotations

import re

from trilobite.processor.isa.formats import BF16, F16, F32, I8, I16, I32, I64, U8, U16, U32, U64, Format
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.llvm.values import Assembly
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.scalars import leaves, word
from trilobite.processor.lang.ir import Constant, Value
from trilobite.processor.lang.types import is_float

_TYPES = {
    "s8": I8, "s16": I16, "s32": I32, "s48": I64, "s64": I64, "u8": U8, "u16": U16, "u32": U32, "u48": U64,
    "u64": U64, "b8": U8, "b16": U16, "b32": U32, "b48": U64, "b64": U64, "ptr": U64, "f16": F16,
    "bf16": BF16, "f32": F32,
}  # fmt: skip
_SIGNED = {U8: I8, U16: I16, U32: I32, U64: I64}
_UNSIGNED = {signed: fmt for fmt, signed in _SIGNED.items()}
_TWO = dict.fromkeys("add sub mul div rem and or xor max min eq ne lt le gt ge".split()) | {
    "sll": "shl", "srl": "shr", "sra": "shr",
}  # fmt: skip
_ONE = {"not": "not", "neg": "neg", "abs": "abs", "mv": ""}
_STATEMENT = re.compile(r"(\w+)\.gpr\.(\w+)\s+\$(\d+),\s*([^,]+?)(?:,\s*([^,]+?))?$")


_GUARDED = re.compile(r"@(!?)%?(\w+)\s+(.+)$", re.DOTALL)
_PREDICATE = re.compile(r"setp?\.(eq|ne|lt|le|gt|ge)\.(?:gpr\.)?(\w+)\s+%?(\w+),\s*([^,]+?),\s*([^,]+?)$")


class Registers:
    """Operands by their number: outputs first, then inputs."""

    def __init__(self, f: FunctionLowering, i: Instruction, callee: Assembly) -> None:
        self._f, self._type = f, i.type
        self._held: dict[int, Value] = {}
        self._truths: dict[str, Value] = {}  # predicate registers
        parts = [part for part in callee.constraints.split(",") if not part.startswith("~")]
        given = iter(i.args)
        self.outputs = 0
        for number, part in enumerate(parts):
            if part.startswith("=") and "*" not in part:
                self.outputs += 1
                continue
            value = f.one(next(given))
            self._held[number] = value
            if part.isdigit():  # an operand that is read and written
                self._held[int(part)] = value

    def read(self, number: int) -> Value | None:
        return self._held.get(number)

    def write(self, number: int, value: Value) -> None:
        self._held[number] = value

    def results(self) -> Lowered:
        """What the outputs hold, each as wide as its variable."""
        f = self._f
        made: list[Value] = []
        for number, kind in enumerate(leaves(self._type)):
            value, wanted = self._held.get(number), f.scalar(kind)
            if value is None:
                made.extend(f.dummy(kind))
            elif value.type == wanted or (is_float(value.type) and is_float(wanted)):
                made.append(value)
            else:
                made.append(f.builder.cast(value, wanted))
        return tuple(made)

    def scalar(self, text: str) -> bool:
        """Does a statement on scalar registers, if it is one that is known."""
        guarded = _GUARDED.match(text)
        if guarded:
            return self._guarded(guarded[3], guarded[2], bool(guarded[1]))
        return self._predicate(text) or self._plain(text)

    def _predicate(self, text: str) -> bool:
        """`setp.lt.s32 %p0, $1, $2`: a comparison whose truth later statements are guarded by."""
        found = _PREDICATE.match(text)
        if not found or found[2] not in _TYPES:
            return False
        fmt = _TYPES[found[2]]
        left, right = (self._value(part.strip(), fmt) for part in (found[4], found[5]))
        if left is None or right is None:
            return False
        self._truths[found[3]] = self._f.builder.arithmetic(found[1], fmt, left, right)
        return True

    def _guarded(self, text: str, name: str, is_opposite: bool) -> bool:
        """`@%p0 add.gpr.s32 ...`: done where the predicate holds, else its result stays as it was."""
        found, truth = _STATEMENT.match(text), self._truths.get(name)
        before = self.read(int(found[3])) if found else None
        if found is None or truth is None or before is None or not self._plain(text):
            return False
        b, made = self._f.builder, self._held[int(found[3])]
        kept = before if before.type == made.type else b.cast(before, made.type)
        self.write(int(found[3]), b.select(truth, *((kept, made) if is_opposite else (made, kept))))
        return True

    def _plain(self, text: str) -> bool:
        found = _STATEMENT.match(text)
        if not found or found[2] not in _TYPES or int(found[3]) >= self.outputs:
            return False
        name, fmt = found[1], _TYPES[found[2]]
        texts = [text for text in found.groups()[3:] if text is not None]
        if name not in (_TWO if len(texts) == 2 else _ONE):
            return False
        if name in ("srl", "sra"):
            fmt = (_UNSIGNED if name == "srl" else _SIGNED).get(fmt, fmt)
        values = [self._value(part.strip(), fmt) for part in texts]
        if any(value is None for value in values):
            return False
        opcode = (_TWO.get(name) or name) if len(texts) == 2 else _ONE[name]
        known = [value for value in values if value is not None]
        self.write(int(found[3]), self._f.builder.arithmetic(opcode, fmt, *known) if opcode else known[0])
        return True

    def _value(self, text: str, fmt: Format) -> Value | None:
        b = self._f.builder
        if not text.startswith("$"):
            try:
                return Constant(fmt, float(text) if is_float(fmt) else int(text, 0))
            except ValueError:
                return None
        value = self.read(int(text[1:])) if text[1:].isdigit() else None
        if value is None or value.type == fmt:
            return value
        if is_float(fmt) or is_float(value.type):
            return b.cast(value, fmt)
        return b.cast(word(b, value, fmt in _UNSIGNED), fmt)
