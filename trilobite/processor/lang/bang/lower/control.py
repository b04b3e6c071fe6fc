"""Branches, switches, returns and calls of the source's own functions."""

from __future__ import annotations

from trilobite.processor.isa.formats import Format
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.llvm.types import LType, Void, size_of
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.scalars import leaves
from trilobite.processor.lang.ir import Block, Constant, Target
from trilobite.processor.lang.types import ANY, is_pointer


def br(f: FunctionLowering, i: Instruction) -> Lowered:
    labels = i.extra["labels"]
    if len(labels) == 1:
        f.builder.emit("jump", targets=[f.target(labels[0])])
    else:
        truth = f.one(i.args[0])
        f.builder.emit("branch", [truth], targets=[f.target(labels[0]), f.target(labels[1])])
    return ()


def switch(f: FunctionLowering, i: Instruction) -> Lowered:
    """One comparison behind the other."""
    b = f.builder
    value = f.one(i.args[0])
    assert isinstance(value.type, Format)
    for item, label in i.extra["cases"]:
        following = Block("case")
        f.function.blocks.insert(f.function.blocks.index(b.block) + 1, following)
        found = b.arithmetic("eq", value.type, value, f.one(item))
        b.emit("branch", [found], targets=[f.target(label), Target(following)])
        b.block = following
    b.emit("jump", targets=[f.target(i.extra["default"])])
    return ()


def ret(f: FunctionLowering, i: Instruction) -> Lowered:
    f.builder.ret(*(f.value(i.args[0]) if i.args and not f.is_entry else ()))
    return ()


def unreachable(f: FunctionLowering, i: Instruction) -> Lowered:
    f.builder.trap(2, "the program came to a place that it says is never reached")
    return ()


def call_defined(f: FunctionLowering, i: Instruction, name: str) -> Lowered:
    """A function that the source defines; an argument by value is a copy in the frame."""
    from trilobite.processor.lang.bang.lower.memory import copy_bytes

    b = f.builder
    args = []
    for place, item in enumerate(i.args):
        values = f.value(item)
        copied: LType | None = i.extra["byval"].get(place)
        if copied is not None:
            pointer = b.address(f.stack(size_of(copied), "copy"))
            copy_bytes(f, pointer, values[0], b.integer(size_of(copied)))
            values = (pointer,)
        args += [
            v if not isinstance(v, Constant) or not is_pointer(v.type) else Constant(ANY, v.value)
            for v in values
        ]
    kinds = [] if isinstance(i.type, Void) else [f.scalar(leaf) for leaf in leaves(i.type)]
    f.owner.need(name, f.source.name, b.location)
    return tuple(b.call(name, args, kinds))
