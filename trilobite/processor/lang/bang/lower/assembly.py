"""Inline assembly: the few templates that public kernels contain; any other is refused by its text."""

from __future__ import annotations

import re

from trilobite.processor.isa.formats import F16, F32, I32, U32, Format
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.llvm.values import Assembly
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.scalars import word
from trilobite.processor.lang.ir import Value

_FORMATS = {"f32": F32, "f16": F16, "s32": I32, "u32": U32}
_FUSE = re.compile(r"fuse\.nram\.(\w+)\s+\[(\$\d+)\],\s*(\$\d+|\d+),\s*\[(\$\d+)\](.*)$", re.DOTALL)
_STEP = re.compile(r"\.(\w+)\(([^)]*)\)")
_FUNCTION = re.compile(r"(cos|abs|log2|pow2|sin|sqrt|rsqrt|exp)\.gpr\.(f32|f16)\s+(\$\d+),\s*(\$\d+)")
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
    made: Lowered = f.dummy(i.type) if f.owner.returns(i) else ()
    outputs = callee.constraints.count("=")
    for statement in statements:
        found = _statement(f, i, statement, outputs)
        if found is None:
            f.refuse(f"the inline assembly {statement!r}")
        elif found:
            made = found
    return made


def _statement(f: FunctionLowering, i: Instruction, text: str, outputs: int) -> Lowered | None:
    """What a statement defines; None if it is not known."""
    if text == "sync":
        f.builder.sync()
        return ()
    if text.startswith(("barrier.sync.local", "barrier.sync.global")):
        f.builder.sync()
        f.builder.barrier("cluster" if "local" in text else "chip", "")
        return ()
    if text in ("exit", "nop"):
        return () if text == "nop" else None
    if _IGNORED.match(text):
        return ()
    fused = _FUSE.match(text)
    if fused:
        return _fuse(f, i, fused, outputs)
    function = _FUNCTION.match(text)
    if function:
        return _function(f, i, function, outputs)
    return _last_bit(f, i, text, outputs)


def _argument(f: FunctionLowering, i: Instruction, name: str, outputs: int) -> Value:
    """`$3` is the operand behind the outputs."""
    return f.one(i.args[int(name[1:]) - outputs])


def _fuse(f: FunctionLowering, i: Instruction, found: re.Match[str], outputs: int) -> Lowered | None:
    """A chain on one vector: the first step reads the source, the others the destination."""
    b = f.builder
    fmt = _FORMATS.get(found[1])
    steps = _STEP.findall(found[5])
    if fmt is None or re.sub(r"[\s,]", "", _STEP.sub("", found[5])):
        return None
    dst, now = _argument(f, i, found[2], outputs), _argument(f, i, found[4], outputs)
    n = word(b, _argument(f, i, found[3], outputs)) if found[3][0] == "$" else b.integer(int(found[3]))
    for name, operand in steps:
        if not _step(f, i, (name, operand.strip()), fmt, (dst, n, now), outputs):
            return None
        now = dst
    return ()


def _step(
    f: FunctionLowering,
    i: Instruction,
    step: tuple[str, str],
    fmt: Format,
    places: tuple[Value, Value, Value],
    outputs: int,
) -> bool:
    name, operand = step
    dst, n, now = places
    if not operand and name in _UNARY_ROWS:
        f.builder.tensor(_UNARY_ROWS[name], [dst, n, now], [fmt])
        return True
    if operand.startswith("[") and name in _VECTOR_ROWS:
        f.builder.tensor(
            _VECTOR_ROWS[name], [dst, n, now, _argument(f, i, operand.strip("[]"), outputs)], [fmt]
        )
        return True
    if name not in _SCALAR_ROWS or not operand:
        return False
    value: Value
    if operand.startswith("$"):
        value = _argument(f, i, operand, outputs)
    else:
        from trilobite.processor.lang.ir import Constant
        from trilobite.processor.lang.types import is_float

        value = Constant(fmt, float(operand) if is_float(fmt) else int(operand, 0))
    f.builder.tensor(_SCALAR_ROWS[name], [dst, n, now, value], [fmt])
    return True


def _function(f: FunctionLowering, i: Instruction, found: re.Match[str], outputs: int) -> Lowered:
    from trilobite.processor.lang.bang.lower.library import RULES

    name = {"pow2": "exp2", "abs": "fabs"}.get(found[1], found[1])
    return (RULES[name](f, [_argument(f, i, found[4], outputs)]),)


def _last_bit(f: FunctionLowering, i: Instruction, text: str, outputs: int) -> Lowered | None:
    """findlast1.gpr.b32: the number of the highest set bit."""
    found = re.match(r"findlast1\.gpr\.b32\s+(\$\d+),\s*(\$\d+)", text)
    if not found:
        return None
    from trilobite.processor.lang.ir import Constant

    b = f.builder
    zeros = b.arithmetic("clz", U32, _argument(f, i, found[2], outputs))
    return (b.arithmetic("sub", I32, Constant(I32, 31), b.cast(zeros, I32)),)
