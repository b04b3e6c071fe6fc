"""Intrinsics of the table to tensor rows.

The name of the called function says which form with which types was meant. `how` of the form is either a
sequence of rows with operands named as the parameters, or `@name`, a function of `composite.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trilobite.processor.isa.formats import BY_NAME, I64, Format
from trilobite.processor.isa.row import VALUE_FIELDS, value_format
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.scalars import word
from trilobite.processor.lang.bang.table import FORMS, Intrinsic
from trilobite.processor.lang.bounds import CALL
from trilobite.processor.lang.intrinsics import contract
from trilobite.processor.lang.ir import Constant, Value
from trilobite.processor.lang.types import is_float


@dataclass(eq=False)
class Call:
    """One use of an intrinsic: its form, the formats of its letters, its arguments by name."""

    form: Intrinsic
    formats: dict[str, Format]
    args: dict[str, Value]

    def format_of(self, name: str) -> Format:
        """The format of a letter, of a parameter's elements, or by its own name."""
        if name in self.formats:
            return self.formats[name]
        if name in BY_NAME:
            return BY_NAME[name]
        kind = next(p.type for p in self.form.parameters if p.name == name)
        return self.formats.get(kind) or BY_NAME[kind]


def lower_intrinsic(f: FunctionLowering, i: Instruction, label: str) -> Lowered:
    from trilobite.processor.lang.bang.lower.composite import COMPOSITES
    from trilobite.processor.lang.bang.lower.contracts import check_contract

    found = read_label(label)
    if found is None:
        f.refuse(f"the built-in {label} is not a function")
        return f.dummy(i.type)
    form, formats = found
    values = [f.one(arg) for arg in i.args]
    args = {p.name: _argument(f, p.sign, v) for p, v in zip(form.parameters, values, strict=True)}
    call = Call(form, formats, args)
    check_contract(f, call)
    first, at = f.builder.block, len(f.builder.block.ops)
    if form.how.startswith("@"):
        name, *flags = form.how[1:].split(".")
        made = COMPOSITES[name](f, call, flags)
    else:
        made = rows(f, call, form.how)
    last = f.builder.block
    for op in [*first.ops[at:], *(last.ops if last is not first else ())]:
        if op.opcode == "tensor" and CALL not in op.attrs:
            op.attrs[CALL] = (form.name, (), not form.in_place, form.in_order)
        elif op.opcode in ("load", "store"):
            op.attrs[CALL] = (form.name, (), False, "")
    return _returned(f, i, made)


def read_label(label: str) -> tuple[Intrinsic, dict[str, Format]] | None:
    parts = label.split(".", 3)
    if len(parts) != 4 or not parts[1].isdigit():
        return None
    form = FORMS[parts[3]][int(parts[1])]
    types = parts[2].split("-") if parts[2] != "none" else []
    return form, {letter: BY_NAME[name] for letter, name in zip(form.letters, types, strict=True)}


def _argument(f: FunctionLowering, sign: str, value: Value) -> Value:
    return word(f.builder, value) if sign in "#%:?" else value


def _returned(f: FunctionLowering, i: Instruction, made: Value | None) -> Lowered:
    if made is None or not f.owner.returns(i):
        return f.dummy(i.type)
    kind = f.scalar(i.type)
    if made.type == kind or is_float(made.type):
        return (made,)
    return (f.builder.cast(made, kind),)


_ROW = re.compile(r"(\w+)((?:\.\w+)*)((?::\w+)*)$")


def rows(f: FunctionLowering, call: Call, how: str) -> Value | None:
    """Every row of the template; what the last one defines."""
    made: list[Value] = []
    for step in how.split(";"):
        head, *operands = step.split()
        found = _ROW.match(head)
        assert found is not None
        flags = tuple(found[2].split(".")[1:])
        names = found[3].split(":")[1:] or _letters(call)
        formats = tuple(call.format_of(name) for name in names)
        made = emit(f, call, found[1], operands, formats, flags)
    return made[0] if made else None


def _letters(call: Call) -> list[str]:
    return list(call.form.letters[:1])


def emit(
    f: FunctionLowering,
    call: Call,
    mnemonic: str,
    operands: list[str],
    formats: tuple[Format, ...],
    flags: tuple[str, ...],
) -> list[Value]:
    promise = contract(mnemonic)
    values = []
    for field, text in zip(promise.fields, operands, strict=True):
        scalar = value_format(field, formats) if field in VALUE_FIELDS and formats else None
        values.append(_operand(f, call, text, scalar))
    given = flags or tuple(flag.choices[0] for flag in promise.row.flags)
    made = f.builder.tensor(mnemonic, values, formats, given)
    named = tuple(zip(promise.fields, operands, strict=True))
    f.builder.block.ops[-1].attrs[CALL] = (call.form.name, named, not call.form.in_place, call.form.in_order)
    return made


def _operand(f: FunctionLowering, call: Call, text: str, scalar: Format | None) -> Value:
    if "*" in text:
        left, right = (_operand(f, call, part, None) for part in text.split("*"))
        return f.builder.arithmetic("mul", I64, left, right)
    if text.lstrip("-").isdigit():
        return (
            Constant(scalar, float(text) if is_float(scalar) else int(text))
            if scalar
            else Constant(I64, int(text))
        )
    return call.args[text]
