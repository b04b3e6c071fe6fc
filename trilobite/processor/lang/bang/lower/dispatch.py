"""Which function lowers which LLVM instruction."""

from __future__ import annotations

from trilobite.processor.lang.bang.llvm.instructions import BINARY, CASTS, Instruction
from trilobite.processor.lang.bang.lower import arithmetic, control, memory
from trilobite.processor.lang.bang.lower.calls import call
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Handler, Lowered


def _fence(f: FunctionLowering, i: Instruction) -> Lowered:
    f.builder.sync()
    return ()


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(BINARY, arithmetic.binary),
    **dict.fromkeys(CASTS, arithmetic.cast),
    "fneg": arithmetic.negate,
    "freeze": arithmetic.freeze,
    "icmp": arithmetic.icmp,
    "fcmp": arithmetic.fcmp,
    "select": arithmetic.select,
    "extractvalue": arithmetic.extract_value,
    "insertvalue": arithmetic.insert_value,
    "extractelement": arithmetic.extract_element,
    "insertelement": arithmetic.insert_element,
    "shufflevector": arithmetic.shuffle,
    "alloca": memory.alloca,
    "load": memory.load,
    "store": memory.store,
    "getelementptr": memory.gep,
    "atomicrmw": memory.atomicrmw,
    "cmpxchg": memory.cmpxchg,
    "fence": _fence,
    "br": control.br,
    "switch": control.switch,
    "ret": control.ret,
    "unreachable": control.unreachable,
    "call": call,
}
