"""Text of kernel IR to a module. The form is described in `text`.

Enters: text that `text.write` wrote, perhaps edited. Leaves: a `KernelModule`, not yet verified; what cannot
be read raises `KernelError` with the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from trilobite.base.errors import KernelError
from trilobite.processor.isa.formats import BY_NAME
from trilobite.processor.lang.ir import (
    NOWHERE,
    Block,
    Buffer,
    Constant,
    Function,
    KernelModule,
    Location,
    Op,
    Target,
    Value,
    Variable,
)
from trilobite.processor.lang.ops import OPS
from trilobite.processor.lang.types import Type, is_float, type_named

STRING = r'"(?:[^"\\]|\\.)*"'
LOCATION = re.compile(rf"\s*;\s*({STRING}):(\d+):(\d+)(?: of (.*?))?\s*$")
FUNCTION = re.compile(r"(kernel|function|routine) @(\S+) -> \((.*)\) \{$")
VARIABLE = re.compile(rf"var @(\d+) (\S+) ({STRING}) ({STRING})$")
BUFFER = re.compile(
    r"buffer @(\S+) (\w+) (\d+) align (\d+) (\w+)\[([\dx]*)\] slots (\d+)(?: at (\d+))?( handed)?$"
)
HEAD = re.compile(rf"\^(\d+)\((.*)\):(?: ({STRING}))?$")
ARGUMENT = re.compile(rf"%(\d+): (\S+?)(?: ({STRING}))?$")
OPERATION = re.compile(r"(?:(%.*?) = )?(\w+) \((.*?)\)(?: (\{.*?\}))?(?: -> (.*))?$")
TARGET = re.compile(r"\^(\d+)\(([^)]*)\)")


def read(text: str) -> KernelModule:
    """The module of a text."""
    return _Reader(text).module()


def _frozen(value: Any) -> Any:
    """Tuples where JSON has lists."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.at = 0
        self.result = KernelModule()

    def fail(self, what: str, expected: str) -> KernelError:
        return KernelError(
            f"the kernel IR cannot be read: {what}",
            where=f"line {self.at}: {self.lines[self.at - 1].strip() if self.at else ''}",
            expected=expected,
            remedy="write modules with trilobite.processor.lang.text.write",
        )

    def module(self) -> KernelModule:
        while self.at < len(self.lines):
            line, location = self._next()
            if line.startswith("module "):
                self.result.source = json.loads(line[7:])
            elif line.startswith("table @"):
                name, content = line[7:].split(" = ") if " = " in line else (line[7:].rstrip(" ="), "")
                self.result.tables[name] = bytes.fromhex(content)
            elif line.startswith("buffer @"):
                self._buffer(line, location)
            elif match := FUNCTION.match(line):
                self._function(match, location)
            elif line:
                raise self.fail("no such line", "module, table, buffer, kernel, function or routine")
        return self.result

    def _next(self) -> tuple[str, Location]:
        line = self.lines[self.at]
        self.at += 1
        match = LOCATION.search(line)
        if not match:
            return line.strip(), NOWHERE
        try:
            origin = _frozen(json.loads(match[4])) if match[4] else None
        except ValueError:
            raise self.fail("an origin is malformed", "file:line:column of JSON") from None
        place = Location(json.loads(match[1]), int(match[2]), int(match[3]), origin)
        return line[: match.start()].strip(), place

    def _buffer(self, line: str, location: Location) -> None:
        match = BUFFER.match(line)
        if not match:
            raise self.fail("a buffer is malformed", "buffer @name space bytes align n format[shape] slots n")
        shape = tuple(int(extent) for extent in match[6].split("x") if extent)
        self.result.buffers[match[1]] = Buffer(
            match[1], match[2], int(match[3]), int(match[4]), location, match[5], shape, int(match[7]),
            offset=int(match[8]) if match[8] else None, handed=bool(match[9]),
        )  # fmt: skip

    def _type(self, name: str) -> Type:
        found = type_named(name)
        if found is None:
            raise self.fail(f"there is no type {name!r}", "a scalar format, ptr or ptr.space")
        return found

    def _function(self, match: re.Match[str], location: Location) -> None:
        results = [self._type(name) for name in match[3].split(", ") if name]
        function = Function(match[2], results, match[1] == "kernel", match[1] == "routine")
        function.location = location
        self.result.add_function(function)
        _Body(self, function).read()


class _Body:
    """One function: values and blocks may be named before they are defined."""

    def __init__(self, reader: _Reader, function: Function) -> None:
        self.reader, self.function = reader, function
        self.values: dict[str, Value] = {}
        self.blocks: dict[str, Block] = {}
        self.late: list[Callable[[], None]] = []

    def read(self) -> None:
        reader, block = self.reader, None
        while reader.at < len(reader.lines):
            line, location = reader._next()
            if line == "}":
                end = reader.at
                for resolve in self.late:
                    resolve()
                reader.at = end
                return
            if match := VARIABLE.match(line):
                name, scope = json.loads(match[3]), json.loads(match[4])
                self.function.variables.append(Variable(name, reader._type(match[2]), scope, location))
            elif match := HEAD.match(line):
                block = self._head(match)
            elif line and block is not None:
                self._op(line, block, location)
            elif line:
                raise reader.fail("an operation stands outside a block", "a block head: ^0():")
        raise reader.fail("the text ends inside a function", "}")

    def _block(self, number: str) -> Block:
        return self.blocks.setdefault(number, Block())

    def _head(self, match: re.Match[str]) -> Block:
        block = self._block(match[1])
        self.function.blocks.append(block)
        block.name = json.loads(match[3]) if match[3] else ""
        for text in filter(None, match[2].split(", ")):
            found = ARGUMENT.match(text)
            if not found:
                raise self.reader.fail(f"the argument {text!r} is malformed", "%number: type")
            name = json.loads(found[3]) if found[3] else ""
            self.values[found[1]] = block.add_argument(self.reader._type(found[2]), name)
        return block

    def _op(self, line: str, block: Block, location: Location) -> None:
        match = OPERATION.match(line)
        if not match or match[2] not in OPS:
            raise self.reader.fail("no such operation", "results = opcode (operands) {attributes} -> targets")
        attrs = json.loads(match[4]) if match[4] else {}
        names, kinds = [], []
        for text in filter(None, (match[1] or "").split(", ")):
            number, kind = text.split(": ")
            names.append(number[1:])
            kinds.append(self.reader._type(kind))
        resolved = {name: self._attr(name, value) for name, value in attrs.items()}
        op = Op(match[2], (), resolved, kinds, location)
        for name, value in zip(names, op.results, strict=True):
            self.values[name] = value
        block.append(op)
        line_number, operands, targets = self.reader.at, match[3], match[5]
        self.late.append(lambda: self._resolve(op, operands, targets, line_number))

    def _resolve(self, op: Op, operands: str, targets: str | None, line_number: int) -> None:
        self.reader.at = line_number
        op.operands = [self._value(text) for text in operands.split(", ") if text]
        for number, args in TARGET.findall(targets or ""):
            if number not in self.blocks:
                raise self.reader.fail(f"there is no block ^{number}", "a block of this function")
            op.targets.append(Target(self.blocks[number], [self._value(t) for t in args.split(", ") if t]))

    def _value(self, text: str) -> Value:
        if text.startswith("%"):
            if text[1:] not in self.values:
                raise self.reader.fail(f"{text} is not defined", "a value of this function")
            return self.values[text[1:]]
        number, _, kind = text.partition(":")
        found = self.reader._type(kind)
        try:
            return Constant(found, float(number) if is_float(found) else int(number))
        except ValueError:
            raise self.reader.fail(f"{text!r} is no constant", "number:type") from None

    def _attr(self, name: str, value: Any) -> Any:
        if name in ("fmt", "source"):
            return BY_NAME[value]
        if name == "type":
            return self.reader._type(value)
        if name == "formats":
            return tuple(BY_NAME[item] for item in value)
        if name == "variable":
            return self.function.variables[int(value[1:])]
        if name == "buffer":
            return self.reader.result.buffers[value[1:]]
        return tuple(value) if isinstance(value, list) else value
