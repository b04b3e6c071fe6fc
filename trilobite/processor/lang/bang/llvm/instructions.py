"""Instructions of LLVM IR: one line of text to one `Instruction`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trilobite.processor.lang.bang.llvm.types import LType, Other, Ptr, Tokens, Void
from trilobite.processor.lang.bang.llvm.values import (
    Assembly,
    Metadata,
    Operand,
    name_of,
    operand,
    typed,
    unescape,
)

_TRAIL = re.compile(r"((?:,? ![\w.]+ ![\w.]+)+)\s*$")
_DEBUG = re.compile(r"!dbg !(\d+)")
_LABEL = re.compile(r'^("[^"]*"|[-\w.$]+):')

BINARY = frozenset(
    "add sub mul sdiv udiv srem urem shl lshr ashr and or xor fadd fsub fmul fdiv frem".split()
)
CASTS = frozenset(
    "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint inttoptr "
    "bitcast addrspacecast".split()
)
_FLAGS = frozenset(
    "nuw nsw exact disjoint nneg samesign inbounds nusw inrange volatile atomic inalloca "
    "fast nnan ninf nsz arcp contract afn reassoc tail musttail notail weak ptrtoaddr".split()
)
_VALUE_WORDS = frozenset(
    "true false null none zeroinitializer undef poison getelementptr bitcast inttoptr ptrtoint "
    "addrspacecast trunc zext sext add sub mul xor and or shl lshr splat".split()
)


@dataclass(eq=False)
class Instruction:
    """`type` is what it defines (or stores, switches on, returns); `extra` what its opcode needs besides."""

    opcode: str
    type: LType
    args: list[Operand]
    result: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    debug: int | None = None
    text: str = ""


@dataclass(eq=False)
class DebugRecord:
    """`#dbg_value` or `#dbg_declare`: from here on a variable is a value, or lies at an address."""

    kind: str
    value: Operand
    variable: int
    expression: str
    location: int | None


def label_of(line: str) -> str | None:
    """The name of the block that a line begins, or None."""
    if line[:1].isspace():
        return None
    found = _LABEL.match(line)
    return found[1].strip('"') if found else None


_RECORD = re.compile(r"#dbg_(\w+)\((.*)\)\s*$")


def debug_record(line: str, structs: Mapping[str, str]) -> DebugRecord | None:
    """The record of a `#dbg_` line; None for the kinds that say nothing about one variable."""
    found = _RECORD.search(line)
    if found is None or found[1] not in ("value", "declare"):
        return None
    parts = re.match(r"(.*), !(\d+), !DIExpression\(([^)]*)\), !(\d+)$", found[2])
    if parts is None:
        return None
    tokens = Tokens(parts[1], structs)
    if tokens.ahead.startswith("!") or tokens.ahead == "metadata":
        return None
    return DebugRecord(found[1], typed(tokens), int(parts[2]), parts[3], int(parts[4]))


def instruction(line: str, structs: Mapping[str, str]) -> Instruction:
    """The instruction of a line (of several, for a switch)."""
    at = line.find(" !")
    trail = _TRAIL.search(line, max(at - 1, 0)) if at >= 0 else None
    debug = _DEBUG.search(trail[1]) if trail else None
    tokens = Tokens(line[: trail.start()] if trail else line, structs)
    result = ""
    if tokens.items[1] == "=":
        result = name_of(tokens.take())
        tokens.take()
    while tokens.ahead in _FLAGS:
        tokens.take()
    opcode = tokens.take()
    made = _READERS.get(opcode, _unknown)(tokens, opcode)
    made.result, made.text = result, line.strip()
    made.debug = int(debug[1]) if debug else None
    return made


def _unknown(tokens: Tokens, opcode: str) -> Instruction:
    return Instruction(opcode, Void(), [])


def _flags(tokens: Tokens) -> set[str]:
    found = set()
    while tokens.ahead in _FLAGS:
        found.add(tokens.take())
        if tokens.ahead == "(":
            tokens.skip_parens()
    return found


def _binary(tokens: Tokens, opcode: str) -> Instruction:
    _flags(tokens)
    kind = tokens.type()
    first = operand(tokens, kind)
    tokens.expect(",")
    return Instruction(opcode, kind, [first, operand(tokens, kind)])


def _unary(tokens: Tokens, opcode: str) -> Instruction:
    _flags(tokens)
    value = typed(tokens)
    return Instruction(opcode, value.type, [value])


def _compare(tokens: Tokens, opcode: str) -> Instruction:
    _flags(tokens)
    predicate = tokens.take()
    made = _binary(tokens, opcode)
    made.extra["predicate"] = predicate
    return made


def _cast(tokens: Tokens, opcode: str) -> Instruction:
    flags = _flags(tokens)
    value = typed(tokens)
    tokens.expect("to")
    return Instruction(opcode, tokens.type(), [value], extra={"flags": flags})


def _alloca(tokens: Tokens, opcode: str) -> Instruction:
    _flags(tokens)
    kind = tokens.type()
    args = []
    align = 1
    while tokens.accept(","):
        if tokens.accept("align"):
            align = int(tokens.take())
        elif tokens.ahead != "addrspace":
            args.append(typed(tokens))
    return Instruction(opcode, Ptr(), args, extra={"type": kind, "align": align})


def _load(tokens: Tokens, opcode: str) -> Instruction:
    _flags(tokens)
    kind = tokens.type()
    tokens.expect(",")
    return Instruction(opcode, kind, [typed(tokens)])


def _store(tokens: Tokens, opcode: str) -> Instruction:
    _flags(tokens)
    value = typed(tokens)
    tokens.expect(",")
    return Instruction(opcode, value.type, [value, typed(tokens)])


def _gep(tokens: Tokens, opcode: str) -> Instruction:
    _flags(tokens)
    base = tokens.type()
    args = []
    while tokens.accept(","):
        args.append(typed(tokens))
    return Instruction(opcode, Ptr(), args, extra={"type": base})


def _phi(tokens: Tokens, opcode: str) -> Instruction:
    _flags(tokens)
    kind = tokens.type()
    args, blocks = [], []
    while tokens.accept("["):
        args.append(operand(tokens, kind))
        tokens.expect(",")
        blocks.append(name_of(tokens.take()))
        tokens.expect("]")
        tokens.accept(",")
    return Instruction(opcode, kind, args, extra={"blocks": blocks})


def _operands(tokens: Tokens, opcode: str) -> Instruction:
    """Typed operands between commas; indices of aggregates behind them."""
    _flags(tokens)
    args: list[Operand] = []
    indices: list[int] = []
    while True:
        if tokens.ahead.isdigit():
            indices.append(int(tokens.take()))
        else:
            args.append(typed(tokens))
        if not tokens.accept(","):
            break
    kind = args[1].type if opcode == "select" else args[0].type
    return Instruction(opcode, kind, args, extra={"indices": indices})


def _br(tokens: Tokens, opcode: str) -> Instruction:
    args = []
    if tokens.ahead != "label":
        args.append(typed(tokens))
        tokens.expect(",")
    labels = []
    while tokens.accept("label"):
        labels.append(name_of(tokens.take()))
        tokens.accept(",")
    return Instruction(opcode, Void(), args, extra={"labels": labels})


def _switch(tokens: Tokens, opcode: str) -> Instruction:
    value = typed(tokens)
    tokens.expect(",")
    tokens.expect("label")
    default = name_of(tokens.take())
    cases = []
    tokens.expect("[")
    while not tokens.accept("]"):
        item = typed(tokens)
        tokens.expect(",")
        tokens.expect("label")
        cases.append((item, name_of(tokens.take())))
    return Instruction(opcode, value.type, [value], extra={"default": default, "cases": cases})


def _ret(tokens: Tokens, opcode: str) -> Instruction:
    if tokens.ahead == "void":
        return Instruction(opcode, Void(), [])
    value = typed(tokens)
    return Instruction(opcode, value.type, [value])


def _call(tokens: Tokens, opcode: str) -> Instruction:
    _flags(tokens)
    attributes(tokens)
    kind = tokens.type()
    if isinstance(kind, Other):  # a function type with parameters: what it returns stands in front
        kind = _result_type(tokens)
    callee = _callee(tokens)
    tokens.expect("(")
    args: list[Operand] = []
    byval: dict[int, LType] = {}
    while not tokens.accept(")"):
        what = tokens.type()
        if isinstance(what, Other) and what.name == "metadata":
            args.append(Operand(what, Metadata(_skip_metadata(tokens))))
        else:
            _, copied = attributes(tokens)
            if copied is not None:
                byval[len(args)] = copied
            args.append(operand(tokens, what))
        tokens.accept(",")
    return Instruction(opcode, kind, args, extra={"callee": callee, "byval": byval})


def _result_type(tokens: Tokens) -> LType:
    """The type in front of the parameter list of a function type that was just read."""
    at, depth = tokens.at - 1, 0
    while True:
        depth += (tokens.items[at] == ")") - (tokens.items[at] == "(")
        if depth == 0:
            break
        at -= 1
    again = Tokens("", tokens.structs)
    again.items = [tokens.items[at - 1], ""]
    return again.type()


def _skip_metadata(tokens: Tokens) -> str:
    text = tokens.take()
    if tokens.ahead == "(":
        tokens.skip_parens()
    elif not text.startswith("!"):
        text += tokens.take()
    return text


def _callee(tokens: Tokens) -> Operand:
    if tokens.accept("asm"):
        while tokens.ahead in ("sideeffect", "alignstack", "inteldialect", "unwind"):
            tokens.take()
        text = tokens.take()[1:-1]
        tokens.expect(",")
        constraints = tokens.take()[1:-1]
        return Operand(Ptr(), Assembly(unescape(text).decode("latin-1"), constraints))
    return operand(tokens, Ptr())


def attributes(tokens: Tokens) -> tuple[int, LType | None]:
    """Skips the attributes of a parameter or result: its alignment, and the type it copies (byval)."""
    align, copied = 1, None
    while True:
        word = tokens.ahead
        plain = word[:1].isalpha() or word[:1] == '"'
        if not plain or word in _VALUE_WORDS or _is_type(tokens):
            return align, copied
        tokens.take()
        if word == "align":
            if tokens.accept("("):
                align = int(tokens.take())
                tokens.expect(")")
            else:
                align = int(tokens.take())
        elif word == "byval":
            tokens.expect("(")
            copied = tokens.type()
            tokens.expect(")")
        elif tokens.accept("="):
            tokens.take()
        elif tokens.ahead == "(":
            tokens.skip_parens()


def _is_type(tokens: Tokens) -> bool:
    word = tokens.ahead
    return word in ("ptr", "void", "half", "bfloat", "float", "double", "metadata", "label", "x86_fp80",
                    "fp128") or (word[:1] == "i" and word[1:].isdigit())  # fmt: skip


def _atomicrmw(tokens: Tokens, opcode: str) -> Instruction:
    _flags(tokens)
    operation = tokens.take()
    pointer = typed(tokens)
    tokens.expect(",")
    value = typed(tokens)
    return Instruction(opcode, value.type, [pointer, value], extra={"op": operation})


def _cmpxchg(tokens: Tokens, opcode: str) -> Instruction:
    made = _operands(tokens, opcode)
    made.type = made.args[1].type
    return made


_READERS: dict[str, Callable[[Tokens, str], Instruction]] = {
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(CASTS, _cast),
    **dict.fromkeys(("select", "extractvalue", "insertvalue", "extractelement"), _operands),
    **dict.fromkeys(("insertelement", "shufflevector"), _operands),
    "icmp": _compare,
    "fcmp": _compare,
    "fneg": _unary,
    "freeze": _unary,
    "alloca": _alloca,
    "load": _load,
    "store": _store,
    "getelementptr": _gep,
    "phi": _phi,
    "br": _br,
    "switch": _switch,
    "ret": _ret,
    "call": _call,
    "atomicrmw": _atomicrmw,
    "cmpxchg": _cmpxchg,
}
