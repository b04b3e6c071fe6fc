"""Inline assembly: the templates that public kernels contain; any other is refused by its text.

Copies (`ld`, `st`, `mv` between two memories) and divisions are read by the shape of their operands: what
stands in brackets is a place, destination first; the rest are numbers.
"""

from __future__ import annotations

import re

from trilobite.processor.isa.formats import F16, F32, I32, I64, U8, U16, U32, Format
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.llvm.values import Assembly
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.registers import Registers
from trilobite.processor.lang.bang.lower.scalars import word
from trilobite.processor.lang.ir import Block, Constant, Value
from trilobite.processor.lang.types import is_float

REGISTER_BYTES = 256  # of a vector register, as mlu.h declares it
_FORMATS = {"f32": F32, "f16": F16, "s32": I32, "u32": U32}
_FUSE = re.compile(r"fuse\.nram\.(\w+)\s+\[(\$\d+)\],\s*(\$\d+|\d+),\s*\[(\$\d+)\](.*)$", re.DOTALL)
_STEP = re.compile(r"\.(\w+)\(([^)]*)\)")
_FUNCTION = re.compile(r"(cos|abs|log2|pow2|sin|sqrt|rsqrt|exp)\.gpr\.(f32|f16)\s+(\$\d+),\s*(\$\d+)")
_COPY = re.compile(r"(?:ld|st|mv)((?:\.\w+)+)\s+(\[.*)$", re.DOTALL)
_SPACES = frozenset(("nram", "wram", "sram", "gdram", "ldram", "const"))
_DIVIDE = re.compile(r"div\.scalar\.nram\.(f32|f16)\s+(.*)$", re.DOTALL)
_GATHER = re.compile(
    r"gather(?:\.\w+)?\.nram\.nram\.nram(?:\.b(?P<bits>8|16|32))?\.[us]32\s+(?P<operands>\[.*)$", re.DOTALL
)
_INDEX = re.compile(r"index\.vvr\.(f32|f16|s32|u32)\s+(\$\d+),\s*(\$\d+),\s*(\S+)$")
_IGNORED = re.compile(r"(mv\.(sreg\.gpr|gpr\.sreg)|readperf\.\w+|pv\.[pv]\.\S+)\b")


def _rows(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split())


_SCALAR_ROWS = _rows(
    "add=VAS sub=VSS mul=VMS div=VDS max=VGTMS min=VLTMS eq=VES ne=VNES gt=VGTS ge=VGES lt=VLTS le=VLES "
    "and=VBANDS or=VBORS xor=VBXORS band=VBANDS bor=VBORS bxor=VBXORS sll=VSHLS srl=VSHRS sra=VSHRS"
)
_VECTOR_ROWS = _rows(
    "add=VAV sub=VSV mul=VMV div=VDV max=VGTM min=VLTM eq=VE ne=VNE gt=VGT ge=VGE lt=VLT le=VLE "
    "and=VBAND or=VBOR xor=VBXOR band=VBAND bor=VBOR bxor=VBXOR"
)
_UNARY_ROWS = _rows("abs=VABS relu=VRELU sqrt=VSQRT recip=VRECIP not=VNOT bnot=VBNOT neg=VNEG")


def assembly(f: FunctionLowering, i: Instruction, callee: Assembly) -> Lowered:
    statements = [part.strip() for part in re.split(r"[;\n]", callee.text) if part.strip()]
    held = Registers(f, i, callee)
    for statement in statements:
        if held.scalar(statement):
            continue
        found = _statement(f, statement, held)
        if found is None:
            f.refuse(f"the inline assembly {statement!r}")
        elif found:
            held.write(0, found[0])
    return held.results() if f.owner.returns(i) else ()


def _statement(f: FunctionLowering, text: str, held: Registers) -> Lowered | None:
    """What a statement defines; None if it is not known."""
    if text == "sync":
        f.builder.sync()
        return ()
    if text.startswith(("barrier.sync.local", "barrier.sync.global")):
        f.builder.sync()
        f.builder.barrier("cluster" if "local" in text else "chip", "")
        return ()
    if text == "exit":
        return _exit(f)
    if text == "nop":
        return ()
    if _IGNORED.match(text):
        return ()
    fused = _FUSE.match(text)
    if fused:
        return _fuse(f, fused, held)
    function = _FUNCTION.match(text)
    if function:
        return _function(f, function, held)
    shaped = _shaped(f, text, held)
    return shaped if shaped is not None else _last_bit(f, text, held)


def _exit(f: FunctionLowering) -> Lowered | None:
    """Ends the task; in a function that is called and not inlined there is no way out."""
    if not f.is_entry:
        return None
    f.builder.ret()
    following = Block("behind")
    f.function.blocks.insert(f.function.blocks.index(f.builder.block) + 1, following)
    f.builder.block = following
    return ()


def _shaped(f: FunctionLowering, text: str, held: Registers) -> Lowered | None:
    """Copies, divisions, ramps."""
    copied = _COPY.match(text)
    if copied:
        return _copy(f, copied, held)
    divided = _DIVIDE.match(text)
    if divided:
        return _divide(f, divided, held)
    gathered = _GATHER.match(text)
    if gathered:
        return _gather(f, gathered, held)
    index = _INDEX.match(text)
    if index is None:
        return None
    fmt = _FORMATS[index[1]]
    b, count = f.builder, REGISTER_BYTES * 8 // _FORMATS[index[1]].bits
    step = _number(f, index[4], held, fmt)
    place, start = _argument(f, index[2], held), _argument(f, index[3], held)
    b.tensor("VIOTA", [place, b.integer(count), start, step], [fmt])
    return ()


def _operands(f: FunctionLowering, text: str, held: Registers) -> tuple[list[Value], list[Value]]:
    """Places and numbers, each in their order."""
    places: list[Value] = []
    numbers: list[Value] = []
    for part in (part.strip() for part in text.split(",")):
        if part.startswith("["):
            places.append(_argument(f, part.strip("[] "), held))
        else:
            numbers.append(_number(f, part, held, I64))
    return places, numbers


def _number(f: FunctionLowering, text: str, held: Registers, fmt: Format) -> Value:
    if text.startswith("$"):
        return _argument(f, text, held)
    return Constant(fmt, float(text) if is_float(fmt) else int(text, 0))


def _copy(f: FunctionLowering, found: re.Match[str], held: Registers) -> Lowered | None:
    """n bytes; or pieces with two levels of strides, as `__memcpy` names them."""
    words = found[1].split(".")[1:]
    if len([word for word in words if word in _SPACES]) != 2:
        return None
    places, numbers = _operands(f, found[2], held)
    b, late = f.builder, "async" in words
    counts = [word(b, number) for number in numbers]
    if len(places) != 2 or len(counts) not in (1, 9):
        return None
    if len(counts) == 1:
        b.tensor("COPY", [*places, counts[0]], is_async=late)
        return ()
    n, d0, n1, d1, n2, s0, _, s1, _ = counts
    first, second = (b.arithmetic("add", I64, count, b.integer(1)) for count in (n1, n2))
    b.tensor("COPY3", [*places, n, d0, s0, first, d1, s1, second], is_async=late)
    return ()


def _divide(f: FunctionLowering, found: re.Match[str], held: Registers) -> Lowered | None:
    """A vector over a number, or a number over a vector: what comes first is divided."""
    fmt = _FORMATS[found[1]]
    places, numbers = _operands(f, found[2], held)
    scalars = [number for number in numbers if is_float(number.type)]
    counts = [number for number in numbers if not is_float(number.type)]
    if len(places) != 2 or len(scalars) != 1 or len(counts) != 1:
        return None
    is_vector_first = found[2].split(",")[1].strip().startswith("[")
    row = "VDS" if is_vector_first else "VRDS"
    f.builder.tensor(row, [places[0], word(f.builder, counts[0]), places[1], scalars[0]], [fmt])
    return ()


def _gather(f: FunctionLowering, found: re.Match[str], held: Registers) -> Lowered | None:
    """n elements, each from the source and as many bytes behind it as its offset says."""
    places, numbers = _operands(f, found["operands"], held)
    if len(places) != 3 or len(numbers) != 1:
        return None
    b, fmt = f.builder, {"8": U8, "16": U16}.get(found["bits"] or "", U32)
    dst, src, offsets = places
    n = word(b, numbers[0])
    loop, done = Block("gather"), Block("gathered")
    at = f.function.blocks.index(b.block) + 1
    f.function.blocks[at:at] = [loop, done]
    place = loop.add_argument(I64)
    b.branch(b.arithmetic("gt", I64, n, b.integer(0)), loop, done, [b.integer(0)])
    b.block = loop
    step = b.arithmetic("mul", I64, place, b.integer(U32.bits // 8))
    offset = b.convert(b.load(U32, b.offset(offsets, step)), I64)
    element = b.load(fmt, b.offset(src, offset))
    b.store(fmt, element, b.offset(dst, b.arithmetic("mul", I64, place, b.integer(fmt.bits // 8))))
    following = b.arithmetic("add", I64, place, b.integer(1))
    b.branch(b.arithmetic("lt", I64, following, n), loop, done, [following])
    b.block = done
    return ()


def _argument(f: FunctionLowering, name: str, held: Registers) -> Value:
    """What `$3` holds; an output that nothing was written to holds nothing."""
    found = held.read(int(name[1:])) if name[1:].isdigit() else None
    if found is None:
        f.refuse(f"inline assembly that reads {name}, which holds nothing yet")
    return found or f.builder.integer(0)


def _fuse(f: FunctionLowering, found: re.Match[str], held: Registers) -> Lowered | None:
    """A chain on one vector: the first step reads the source, the others the destination."""
    b = f.builder
    fmt = _FORMATS.get(found[1])
    steps = _STEP.findall(found[5])
    if fmt is None or re.sub(r"[\s,]", "", _STEP.sub("", found[5])):
        return None
    dst, now = _argument(f, found[2], held), _argument(f, found[4], held)
    n = word(b, _argument(f, found[3], held)) if found[3][0] == "$" else b.integer(int(found[3]))
    for name, operand in steps:
        if not _step(f, (name, operand.strip()), fmt, (dst, n, now), held):
            return None
        now = dst
    return ()


def _step(
    f: FunctionLowering,
    step: tuple[str, str],
    fmt: Format,
    places: tuple[Value, Value, Value],
    held: Registers,
) -> bool:
    name, operand = step
    dst, n, now = places
    if not operand and name in _UNARY_ROWS:
        f.builder.tensor(_UNARY_ROWS[name], [dst, n, now], [fmt])
        return True
    if operand.startswith("[") and name in _VECTOR_ROWS:
        f.builder.tensor(_VECTOR_ROWS[name], [dst, n, now, _argument(f, operand.strip("[]"), held)], [fmt])
        return True
    if name not in _SCALAR_ROWS or not operand:
        return False
    value: Value
    if operand.startswith("$"):
        value = _argument(f, operand, held)
    else:
        value = Constant(fmt, float(operand) if is_float(fmt) else int(operand, 0))
    f.builder.tensor(_SCALAR_ROWS[name], [dst, n, now, value], [fmt])
    return True


def _function(f: FunctionLowering, found: re.Match[str], held: Registers) -> Lowered:
    from trilobite.processor.lang.bang.lower.library import RULES

    name = {"pow2": "exp2", "abs": "fabs"}.get(found[1], found[1])
    return (RULES[name](f, [_argument(f, found[4], held)]),)


def _last_bit(f: FunctionLowering, text: str, held: Registers) -> Lowered | None:
    """findlast1.gpr.b32: the number of the highest set bit."""
    found = re.match(r"findlast1\.gpr\.b32\s+(\$\d+),\s*(\$\d+)", text)
    if not found:
        return None
    b = f.builder
    zeros = b.arithmetic("clz", U32, _argument(f, found[2], held))
    return (b.arithmetic("sub", I32, Constant(I32, 31), b.cast(zeros, I32)),)
