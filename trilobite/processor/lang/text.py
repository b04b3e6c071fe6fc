"""Kernel IR as text. `parse.read(write(module))` gives the module back, and what `write` gives looks so:

    module "scale.py"
    table @table.0 = 68690a00
    buffer @tile nram 4096 align 64 f32[1024] slots 2 at 0   ; "scale.py":3:5
    kernel @scale -> () {
      var @0 i64 "total" "scale"
    ^0(%0: ptr.gdram "x", %1: i64 "n"): "entry"
      %2: ptr.nram = address () {"type": "ptr.nram", "buffer": "@tile"}
      %3: i64 = mul (%1, 4:i64) {"fmt": "i64"}   ; "scale.py":4:9 of ["block", 2]
      tensor (%2, %0, %3) {"row": "COPY", "formats": [], "flags": [], "async": false}
      %4: i64 = lt (%1, 100:i64) {"fmt": "i64"}
      branch (%4) -> ^1(%3), ^2()
    ^1(%5: i64): "body"
      set (%5) {"variable": "@0"}
      jump () -> ^2()
    ^2(): "done"
      return ()
    }

An operation is: results with types, a name, operands, attributes as JSON, blocks with arguments, the line
that it comes from. Values, blocks and variables are numbered as they are met; names stand behind as strings.
Constants are values with a type. `routine` and `function` stand in the place of `kernel`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from trilobite.processor.isa.formats import Format
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
from trilobite.processor.lang.types import Type


def write(module: KernelModule) -> str:
    """The whole module."""
    lines = [f"module {json.dumps(module.source)}"]
    lines += [f"table @{name} = {content.hex()}" for name, content in module.tables.items()]
    lines += [_buffer(buffer) for buffer in module.buffers.values()]
    for function in module.functions.values():
        lines += _Writer(function).lines()
    return "\n".join(lines) + "\n"


def write_function(function: Function) -> str:
    return "\n".join(_Writer(function).lines()) + "\n"


def location_text(location: Location) -> str:
    place = f"{json.dumps(location.file)}:{location.line}:{location.column}"
    return place if location.origin is None else f"{place} of {json.dumps(location.origin)}"


def _buffer(buffer: Buffer) -> str:
    shape = "x".join(str(extent) for extent in buffer.shape)
    at = "" if buffer.offset is None else f" at {buffer.offset}"
    at += " handed" if buffer.handed else ""
    return (
        f"buffer @{buffer.name} {buffer.space} {buffer.bytes} align {buffer.align} {buffer.element}[{shape}]"
        f" slots {buffer.slots}{at}{_at(buffer.location)}"
    )


def _at(location: Location) -> str:
    return "" if location is NOWHERE or location == NOWHERE else f"   ; {location_text(location)}"


class _Writer:
    """Numbers the values, blocks and variables of one function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.numbers: dict[Value, int] = {}
        self.blocks = {block: f"{place}" for place, block in enumerate(function.blocks)}
        self.variables = {variable: f"{place}" for place, variable in enumerate(function.variables)}
        for block in function.blocks:
            for value in [*block.args, *(result for op in block.ops for result in op.results)]:
                self.numbers[value] = len(self.numbers)

    def lines(self) -> Iterator[str]:
        function = self.function
        word = "kernel" if function.is_entry else "routine" if function.is_routine else "function"
        results = ", ".join(kind.name for kind in function.results)
        yield f"{word} @{function.name} -> ({results}) {{{_at(function.location)}"
        for variable, number in self.variables.items():
            yield (
                f"  var @{number} {variable.type.name} {json.dumps(variable.name)} "
                f"{json.dumps(variable.scope)}{_at(variable.location)}"
            )
        for block in function.blocks:
            yield self._head(block)
            for op in block.ops:
                yield "  " + self._op(op) + _at(op.location)
        yield "}"

    def _head(self, block: Block) -> str:
        args = ", ".join(
            f"%{self.numbers[arg]}: {arg.type.name}" + (f" {json.dumps(arg.name)}" if arg.name else "")
            for arg in block.args
        )
        return f"^{self.blocks[block]}({args}):" + (f" {json.dumps(block.name)}" if block.name else "")

    def _op(self, op: Op) -> str:
        results = ", ".join(f"%{self.numbers[value]}: {value.type.name}" for value in op.results)
        operands = ", ".join(self.value(value) for value in op.operands)
        attrs = self._attrs(op)
        targets = ", ".join(self._target(target) for target in op.targets)
        return (
            (f"{results} = " if results else "")
            + f"{op.opcode} ({operands})"
            + (f" {attrs}" if attrs else "")
            + (f" -> {targets}" if targets else "")
        )

    def _target(self, target: Target) -> str:
        return f"^{self.blocks[target.block]}(" + ", ".join(self.value(value) for value in target.args) + ")"

    def value(self, value: Value) -> str:
        if isinstance(value, Constant):
            return f"{value.value!r}:{value.type.name}"
        return f"%{self.numbers[value]}" if value in self.numbers else "%undefined"

    def _attrs(self, op: Op) -> str:
        if not op.attrs:
            return ""
        return json.dumps({name: self._attr(value) for name, value in op.attrs.items()})

    def _attr(self, value: object) -> object:
        if isinstance(value, Variable):
            return "@" + self.variables[value]
        if isinstance(value, Buffer):
            return "@" + value.name
        if isinstance(value, (Format, Type)):
            return value.name
        if isinstance(value, Op):
            return value.opcode
        if isinstance(value, tuple):
            return [self._attr(item) for item in value]
        return value
