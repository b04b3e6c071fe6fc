"""A whole `.ll` file: types, variables, functions and metadata, each parsed when it is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from trilobite.processor.lang.bang.llvm.debug import Debug
from trilobite.processor.lang.bang.llvm.instructions import (
    DebugRecord,
    Instruction,
    attributes,
    debug_record,
    instruction,
    label_of,
)
from trilobite.processor.lang.bang.llvm.types import LType, Tokens
from trilobite.processor.lang.bang.llvm.values import Operand, name_of, operand

_STRUCT = re.compile(r'^(%(?:"[^"]*"|[-\w.$]+)) = type (.*)$')
_GLOBAL = re.compile(r'^(@(?:"[^"]*"|[-\w.$]+)) = ')
_DEFINED = re.compile(r'(@(?:"[^"]*"|[-\w.$]+))\(')
_SECTION = re.compile(r'section "([^"]*)"')
_ALIGN = re.compile(r", align (\d+)")
_DEBUG = re.compile(r"!dbg !(\d+)")
_TAKEN = re.compile(r'(@(?:"[^"]*"|[-\w.$]+))(?![-\w.$("])')
_READS = re.compile(r"= load |#dbg_|^\s*!")
_PLACES = re.compile(r"\s*(%\S+) = (?:getelementptr|call .*@llvm\.threadlocal)")
FUNCTIONS = 0x7F << 56
_ANNOTATED = re.compile(r'ptr (@(?:"[^"]*"|[-\w.$]+)), ptr (@[-\w.$]+)')


@dataclass(eq=False)
class GlobalVariable:
    """A variable at file scope, or a static one."""

    name: str
    type: LType
    init: Operand | None  # None: it is defined elsewhere
    is_constant: bool
    section: str
    align: int
    debug: int | None


@dataclass(eq=False)
class Parameter:
    name: str
    type: LType
    copied: LType | None  # passed as a pointer to a copy of this type


@dataclass(eq=False)
class BasicBlock:
    name: str
    items: list[Instruction | DebugRecord] = field(default_factory=list)

    @property
    def instructions(self) -> list[Instruction]:
        return [item for item in self.items if isinstance(item, Instruction)]


@dataclass(eq=False)
class DefinedFunction:
    name: str
    result: LType
    params: list[Parameter]
    blocks: list[BasicBlock]
    debug: int | None


class Module:
    """What a `.ll` file defines."""

    def __init__(self, text: str) -> None:
        self.structs: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._functions: dict[str, list[str]] = {}
        metadata: dict[int, str] = {}
        lines = iter(text.splitlines())
        for line in lines:
            first = line[:1]
            if first == "!" and line[1:2].isdigit():
                number, _, rest = line.partition(" = ")
                metadata[int(number[1:])] = rest
            elif line.startswith("define "):
                self._define(line, lines)
            elif first == "@":
                found = _GLOBAL.match(line)
                if found:
                    self._globals[name_of(found[1])] = line[found.end() :]
            elif first == "%":
                struct = _STRUCT.match(line)
                if struct:
                    self.structs[struct[1]] = struct[2]
        self.debug = Debug(metadata)
        self._parsed: dict[str, DefinedFunction] = {}
        self._variables: dict[str, GlobalVariable] = {}
        self._written: dict[str, bool] = {}

    def _define(self, line: str, lines: Iterator[str]) -> None:
        found = _DEFINED.search(line)
        assert found is not None
        body = [line]
        for inner in lines:
            if inner == "}":
                break
            body.append(inner)
        self._functions[name_of(found[1])] = body

    @cached_property
    def taken(self) -> list[str]:
        """Defined functions whose address the source takes."""
        lines = [line for body in self._functions.values() for line in body[1:]]
        lines += [text for name, text in self._globals.items() if not name.startswith("llvm.")]
        names = {name_of(found) for line in lines if "@" in line for found in _TAKEN.findall(line)}
        return [name for name in self._functions if name in names]

    def is_written(self, variable: str) -> bool:
        """Whether more is done with a variable, or a place in it, than to load from it."""
        if variable not in self._written:
            self._written[variable] = any(_writes(body, f"@{variable}") for body in self._functions.values())
        return self._written[variable]

    def number_of(self, function: str) -> int:
        """What the address of a function is: no small number and no place of a memory."""
        return FUNCTIONS + self.taken.index(function)

    @cached_property
    def annotations(self) -> dict[str, str]:
        """What `annotate` attributes say of functions."""
        text = self._globals.get("llvm.global.annotations", "")
        found = {}
        for function, label in _ANNOTATED.findall(text):
            content = re.search(r'c"([^"]*?)\\00"', self._globals.get(name_of(label), ""))
            if content:
                found[name_of(function)] = content[1]
        return found

    def in_section(self, section: str) -> list[GlobalVariable]:
        named = [
            self.variable(name) for name, text in self._globals.items() if f'section "{section}"' in text
        ]
        return [variable for variable in named if variable is not None]

    def variable(self, name: str) -> GlobalVariable | None:
        if name in self._variables:
            return self._variables[name]
        line = self._globals.get(name)
        if line is None:
            return None
        tokens = Tokens(
            re.sub(r'(, section "[^"]*"|, comdat(\(\$[^)]*\))?|, partition.*)', "", line), self.structs
        )
        linkage = set()
        while tokens.ahead not in ("global", "constant"):
            linkage.add(tokens.take())
            if tokens.ahead == "(":
                tokens.skip_parens()
        is_constant = tokens.take() == "constant"
        kind = tokens.type()
        init = operand(tokens, kind) if not linkage & {"external", "extern_weak"} else None
        section, align, debug = _SECTION.search(line), _ALIGN.search(line), _DEBUG.search(line)
        made = GlobalVariable(
            name, kind, init, is_constant, section[1] if section else "", int(align[1]) if align else 1,
            int(debug[1]) if debug else None,
        )  # fmt: skip
        self._variables[name] = made
        return made

    def function(self, name: str) -> DefinedFunction | None:
        """The function of that name, parsed; None if it is only declared."""
        if name not in self._functions:
            return None
        if name not in self._parsed:
            self._parsed[name] = self._parse(name, self._functions[name])
        return self._parsed[name]

    def _parse(self, name: str, lines: list[str]) -> DefinedFunction:
        head = lines[0]
        found = _DEFINED.search(head)
        assert found is not None
        result = self._result(head[: found.start()])
        params = self._params(head[found.end() - 1 :])
        debug = _DEBUG.search(head)
        return DefinedFunction(
            name, result, params, self._blocks(lines[1:], params), int(debug[1]) if debug else None
        )

    def _result(self, text: str) -> LType:
        """What stands between the attributes and the name."""
        tokens = Tokens(text, self.structs)
        tokens.take()
        attributes(tokens)
        return tokens.type()

    def _params(self, text: str) -> list[Parameter]:
        tokens = Tokens(text, self.structs)
        tokens.expect("(")
        params: list[Parameter] = []
        while not tokens.accept(")"):
            if tokens.accept("..."):
                continue
            kind = tokens.type()
            _, copied = attributes(tokens)
            label = name_of(tokens.take()) if tokens.ahead[:1] == "%" else str(len(params))
            params.append(Parameter(label, kind, copied))
            tokens.accept(",")
        return params

    def _blocks(self, lines: list[str], params: list[Parameter]) -> list[BasicBlock]:
        unnamed = sum(param.name.isdigit() for param in params)
        blocks = [BasicBlock(str(unnamed))]
        pending = ""
        for line in lines:
            if not line.strip() or line.lstrip().startswith(";"):
                continue
            label = None if pending else label_of(line)
            if label is not None:
                blocks.append(BasicBlock(label))
            elif line.lstrip().startswith("#dbg"):
                record = debug_record(line, self.structs)
                if record is not None:
                    blocks[-1].items.append(record)
            else:
                pending += line
                if pending.lstrip().startswith("switch") and "]" not in line:
                    continue
                blocks[-1].items.append(instruction(pending, self.structs))
                pending = ""
        return blocks if blocks[0].items else blocks[1:]


def _writes(body: list[str], name: str) -> bool:
    """Whether a function does more with an address, or one computed from it, than to load from there."""
    names = [name]
    for known in names:  # grows while it is read
        place = re.compile(rf"{re.escape(known)}(?![-\w.$])")
        for line in body[1:]:
            if not place.search(line) or _READS.search(line):
                continue
            further = _PLACES.match(line)
            if further is None:
                return True
            if further[1] != known and further[1] not in names:
                names.append(further[1])
    return False
