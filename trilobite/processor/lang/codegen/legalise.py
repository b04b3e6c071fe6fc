"""Operands become what instructions can name: constants get registers, runs of fields get consecutive ones.

Enters: a function after the passes. Leaves: the same function with two machine operations added, `constant`
(a number in a register) and `run` (several values in consecutive registers); both are pure, so they are
hoisted out of loops like any other. A comparison that only decides a branch becomes part of it.
"""

from __future__ import annotations

import struct

from trilobite.processor.isa.formats import F32, F64, I64, U64, Format
from trilobite.processor.isa.row import Operand
from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.intrinsics import DRAIN_POINTERS, contract
from trilobite.processor.lang.ir import Block, Constant, Function, Op, Result, Target, Value
from trilobite.processor.lang.ops import BINARY, COMPARISONS
from trilobite.processor.lang.scalar import constant_of, constant_word, convert_word
from trilobite.processor.lang.types import is_float, is_pointer

IMMEDIATE = frozenset((*BINARY, *COMPARISONS))  # their second operand may stand in the instruction
NULL_RUN = 62  # a register number for a run that no flag reads


def legalise(function: Function, fuse: bool = True) -> None:
    """`fuse` joins comparisons with their branches and offsets with their accesses, and leaves out moves."""
    if fuse:
        _fuse(function)
        _skip_moves(function)
    for block in function.blocks:
        kept: list[Op] = []
        for op in block.ops:
            for made in _operands(op):
                made.block = block
                kept.append(made)
            kept.append(op)
        block.ops = kept
    split_critical_edges(function)


def as_immediate(fmt: Format, constant: Constant) -> int | None:
    """The 32 bits that stand for a constant in an instruction of this format, or None."""
    word = constant_word(constant)
    if is_float(fmt):
        if fmt is F64:
            bits = int(struct.unpack("<I", struct.pack("<f", float(constant.value)))[0])
            return bits if convert_word(bits, F32, F64, "rn") == word else None
        return convert_word(word, fmt, F32, "rn") if fmt is not F32 else word
    value = constant.integer
    return value if -(1 << 31) <= value < 1 << 31 else None


def _operands(op: Op) -> list[Op]:
    """What must be put into registers before the operation."""
    made: list[Op] = []
    if op.opcode == "tensor":
        _tensor_operands(op, made)
    elif op.opcode == "print":
        _print_operands(op, made)
    elif op.opcode not in ("jump", "branch", "return", "note", "run", "constant", "call"):
        for place, value in enumerate(op.operands):
            if isinstance(value, Constant) and not _fits(op, place, value):
                op.operands[place] = _register(value, op, made)
    elif op.opcode == "branch":
        for place, value in enumerate(op.operands):
            if isinstance(value, Constant) and not (place and value.value == 0 and _beside_zero(op)):
                op.operands[place] = _register(value, op, made)
    return made


def _beside_zero(op: Op) -> bool:
    """Branches that compare with 0 by themselves."""
    return op.attrs.get("compare") in ("eq", "ne", "gt")


def _fuse(function: Function) -> None:
    uses: dict[Value, int] = {}
    for op in function.ops():
        if op.opcode != "note":
            for value in op.uses():
                uses[value] = uses.get(value, 0) + 1
    for block in function.blocks:
        for op in block.ops:
            if op.opcode in ("load", "store"):
                _fuse_offset(op)
        last = block.ops[-1]
        if last.opcode == "branch":
            _fuse_comparison(block, last, uses)


def is_move(cast: Op) -> bool:
    """Words are already extended as their type says, so that widening changes nothing."""
    source, to = cast.operands[0].type, cast.attrs["type"]
    if not isinstance(to, Format) or to.bits == 64 or source == to:
        return True
    return isinstance(source, Format) and source.kind == "uint" and source.bits < to.bits


def _skip_moves(function: Function) -> None:
    """Who reads a cast that is only a move reads what it moves."""
    moved: dict[Value, Value] = {}
    for op in function.ops():
        if op.opcode == "cast" and is_move(op) and not isinstance(op.operands[0], Constant):
            moved[op.result] = op.operands[0]
    for result in moved:
        while moved[result] in moved:
            moved[result] = moved[moved[result]]
    for block in function.blocks:
        block.ops = [op for op in block.ops if not (op.results and op.result in moved)]
        for op in block.ops:
            op.replace_uses(moved)


def _fuse_offset(op: Op) -> None:
    pointer = op.operands[-1]
    inner = pointer.op if isinstance(pointer, Result) else None
    if inner is None or inner.opcode != "offset" or not isinstance(inner.operands[1], Constant):
        return
    total = op.attrs["offset"] + inner.operands[1].integer
    if -(1 << 31) <= total < 1 << 31:
        op.operands[-1] = inner.operands[0]
        op.attrs["offset"] = total


def _fuse_comparison(block: Block, last: Op, uses: dict[Value, int]) -> None:
    truth = last.operands[0]
    if not isinstance(truth, Result) or uses[truth] != 1 or truth.op.opcode not in COMPARISONS:
        return
    made = truth.op
    whole = made.fmt in (I64, U64) or (
        made.fmt.kind == "int" and all(value.type is made.fmt for value in made.operands)
    )
    if is_float(made.fmt) or not whole or made.block is None:
        return
    last.operands = list(made.operands)
    last.attrs = {"compare": made.opcode, "fmt": made.fmt}
    made.block.ops.remove(made)


def _fits(op: Op, place: int, value: Constant) -> bool:
    if op.opcode in IMMEDIATE and place == 1:
        return as_immediate(op.fmt, value) is not None
    return op.opcode == "offset" and place == 1 and -(1 << 31) <= value.integer < 1 << 31


def _register(value: Value, op: Op, made: list[Op]) -> Result:
    new = Op("constant", (), {"value": value}, [value.type], op.location)
    made.append(new)
    return new.result


def _run(values: list[Value], op: Op, made: list[Op]) -> Value:
    new = Op("run", values, {"width": len(values)}, [I64], op.location)
    made.append(new)
    return new.result


def _tensor_operands(op: Op, made: list[Op]) -> None:
    """Operands become one value per register operand of the row; immediates are left to selection."""
    promise = contract(op.attrs["row"])
    named = dict(zip(promise.fields, op.operands, strict=True))
    flags = dict(zip((flag.name for flag in promise.row.flags), op.attrs["flags"], strict=True))
    inputs = [operand for operand in promise.row.operands if operand.kind in ("in", "run")]
    op.operands = []
    op.attrs["fields"] = named  # for the order of memory accesses
    for operand in inputs:
        op.operands.append(_tensor_operand(op, operand, named, flags, made))


def _tensor_operand(
    op: Op, operand: Operand, named: dict[str, Value], flags: dict[str, str], made: list[Op]
) -> Value:
    if operand.kind == "run":
        if operand.fields == DRAIN_POINTERS and not (flags.get("bias") or flags.get("scale")):
            return Constant(I64, NULL_RUN)
        return _run([named[field] for field in operand.fields], op, made)
    value = named[operand.name]
    if isinstance(value, Constant) and not _immediate_scalar(op, operand.name, value):
        return _register(value, op, made)
    return value


def _immediate_scalar(op: Op, name: str, value: Constant) -> bool:
    """Whether the row has a form that takes this scalar as an immediate."""
    if name != "s" or op.attrs["row"] == "MMS" or is_pointer(value.type):
        return False
    return as_immediate(op.attrs["formats"][0], value) is not None


def _print_operands(op: Op, made: list[Op]) -> None:
    """Floats travel as f64, all values in one run."""
    words: list[Value] = []
    for value in op.operands:
        if is_float(value.type) and value.type is not F64:
            if isinstance(value, Constant):
                assert isinstance(value.type, Format)
                words.append(constant_of(F64, convert_word(constant_word(value), value.type, F64, "rn")))
                continue
            attrs = {"fmt": F64, "source": value.type, "rounding": "rn"}
            made.append(Op("convert", [value], attrs, [F64], op.location))
            words.append(made[-1].result)
        else:
            words.append(value)
    op.operands = [_run(words, op, made)] if words else []


SHARED = 32  # registers that runs may hold from one use to the next: they cannot be spilled


def share(function: Function) -> None:
    """Equal constants and runs that a dominating block has made are not made again, while there is room."""
    graph = Graph(function)
    mapping: dict[Value, Value] = {}
    tables: dict[Block, _Made] = {}
    inner = graph.innermost()
    for block in graph.order:
        table = tables[block] = _Made(tables[graph.parent[block]] if block is not graph.order[0] else None)
        kept: list[Op] = []
        for op in block.ops:
            op.replace_uses(mapping)
            if op.opcode == "call":
                table.forget()
            if op.opcode in ("constant", "run") and block not in inner:
                found = table.find(op)
                if found is not None:
                    mapping[op.result] = found
                    continue
            kept.append(op)
        block.ops = kept
    for op in function.ops():
        op.replace_uses(mapping)


class _Made:
    """What a block can use again: all constants, and the runs that were used last."""

    def __init__(self, above: _Made | None) -> None:
        self.constants: dict[object, Value] = dict(above.constants) if above else {}
        self.runs: dict[object, Op] = dict(above.runs) if above else {}  # used last, stands last

    def forget(self) -> None:
        """No register keeps anything across a call."""
        self.constants.clear()
        self.runs.clear()

    def find(self, op: Op) -> Value | None:
        """The same value, made before; else this one is kept for others."""
        key = _key(op)
        if op.opcode == "constant":
            found = self.constants.setdefault(key, op.result)
            return found if found is not op.result else None
        known = self.runs.pop(key, None)
        self.runs[key] = known or op
        while sum(run.attrs["width"] for run in self.runs.values()) > SHARED:
            del self.runs[next(iter(self.runs))]
        return known.result if known is not None else None


def _key(op: Op) -> object:
    def of(value: Value) -> object:
        return (value.type, constant_word(value)) if isinstance(value, Constant) else value

    if op.opcode == "constant":
        return ("constant", of(op.attrs["value"]))
    return ("run", tuple(of(value) for value in op.operands))


def split_critical_edges(function: Function) -> None:
    """A block that passes arguments along one of two edges gets a block in between."""
    for block in list(function.blocks):
        targets = block.ops[-1].targets
        if len(targets) < 2:
            continue
        for target in targets:
            if target.args:
                between = Block(target.block.name)
                onward = Target(target.block, target.args)
                between.append(Op("jump", location=block.ops[-1].location, targets=[onward]))
                target.block, target.args = between, []
                function.blocks.insert(function.blocks.index(block) + 1, between)


__all__ = ["NULL_RUN", "as_immediate", "legalise", "share", "split_critical_edges"]
