"""Writes kernel IR: one method per kind of operation, at the end of the block it stands in.

Front ends hold a builder, set `location` as they walk their source, and never make an `Op` by hand. It does
not simplify anything; that is the passes' work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trilobite.processor.isa.formats import I64, Format
from trilobite.processor.lang.intrinsics import contract
from trilobite.processor.lang.ir import (
    NOWHERE,
    Block,
    Buffer,
    Constant,
    Function,
    KernelModule,
    Location,
    Op,
    Origin,
    Target,
    Value,
    Variable,
)
from trilobite.processor.lang.ops import COMPARISONS
from trilobite.processor.lang.types import ANY, STACK, Pointer, Type


class Builder:
    """Where the next operation goes: a function, a block, a place in the source."""

    def __init__(self, module: KernelModule, function: Function) -> None:
        self.module, self.function = module, function
        self.block = function.blocks[0] if function.blocks else function.add_block("entry")
        self.location: Location = NOWHERE

    @property
    def origin(self) -> Origin:
        """What the next operations came from, besides their place in the source."""
        return self.location.origin

    @origin.setter
    def origin(self, origin: Origin) -> None:
        self.location = replace(self.location, origin=origin)

    def emit(
        self,
        opcode: str,
        operands: Sequence[Value] = (),
        attrs: dict[str, Any] | None = None,
        results: Sequence[Type] = (),
        targets: Sequence[Target] = (),
    ) -> Op:
        return self.block.append(Op(opcode, operands, attrs, results, self.location, targets))

    # values
    def constant(self, kind: Type, value: int | float) -> Constant:
        return Constant(kind, value)

    def integer(self, value: int) -> Constant:
        return Constant(I64, value)

    def arithmetic(self, opcode: str, fmt: Format, *values: Value) -> Value:
        """Any opcode of `ops` whose operands are all of one format."""
        kind = I64 if opcode in COMPARISONS else fmt
        return self.emit(opcode, values, {"fmt": fmt}, [kind]).result

    def select(self, truth: Value, a: Value, b: Value) -> Value:
        return self.emit("select", [truth, a, b], {"type": a.type}, [a.type]).result

    def convert(self, value: Value, to: Format, rounding: str = "rn") -> Value:
        attrs = {"fmt": to, "source": value.type, "rounding": rounding}
        return self.emit("convert", [value], attrs, [to]).result

    def cast(self, value: Value, to: Type) -> Value:
        return self.emit("cast", [value], {"type": to}, [to]).result

    def offset(self, pointer: Value, count: Value) -> Value:
        return self.emit("offset", [pointer, count], {"type": pointer.type}, [pointer.type]).result

    def address(self, buffer: Buffer) -> Value:
        kind = ANY if buffer.space == STACK else Pointer(buffer.space)
        return self.emit("address", (), {"type": kind, "buffer": buffer}, [kind]).result

    def table(self, content: bytes, name: str = "table") -> Value:
        kind = Pointer("code")
        attrs = {"type": kind, "table": self.module.add_table(content, name)}
        return self.emit("table", (), attrs, [kind]).result

    def special(self, name: str) -> Value:
        return self.emit("special", (), {"name": name}, [I64]).result

    # variables
    def get(self, variable: Variable) -> Value:
        attrs = {"type": variable.type, "variable": variable}
        return self.emit("get", (), attrs, [variable.type]).result

    def set(self, variable: Variable, value: Value) -> None:
        self.emit("set", [value], {"variable": variable})

    def note(self, variable: Variable, value: Value) -> None:
        self.emit("note", [value], {"variable": variable})

    # memory
    def begin(self, buffer: Buffer) -> None:
        self.emit("begin", (), {"buffer": buffer})

    def keep(self, buffer: Buffer) -> None:
        self.emit("keep", (), {"buffer": buffer})

    def load(self, fmt: Format, pointer: Value, offset: int = 0) -> Value:
        return self.emit("load", [pointer], {"fmt": fmt, "offset": offset}, [fmt]).result

    def store(self, fmt: Format, value: Value, pointer: Value, offset: int = 0) -> None:
        self.emit("store", [value, pointer], {"fmt": fmt, "offset": offset})

    def atomic(self, op: str, fmt: Format, pointer: Value, value: Value) -> Value:
        return self.emit("atomic", [pointer, value], {"fmt": fmt, "op": op}, [fmt]).result

    def cas(self, fmt: Format, pointer: Value, expected: Value, value: Value) -> Value:
        return self.emit("cas", [pointer, expected, value], {"fmt": fmt}, [fmt]).result

    def tensor(
        self,
        mnemonic: str,
        operands: Sequence[Value],
        formats: Sequence[Format] = (),
        flags: Sequence[str] = (),
        is_async: bool = False,
    ) -> list[Value]:
        """A tensor row. Flags stand in the row's order; none at all means the first choice of each."""
        promise = contract(mnemonic)
        chosen = tuple(flags) or tuple(flag.choices[0] for flag in promise.row.flags)
        attrs = {"row": mnemonic, "formats": tuple(formats), "flags": chosen, "async": is_async}
        op = self.emit("tensor", operands, attrs, [I64] * len(promise.results))
        return list(op.results)

    def sync(self, *queues: str) -> None:
        self.emit("sync", (), {"queues": tuple(queues)})

    def barrier(self, scope: str = "cluster", members: str = "") -> None:
        self.emit("barrier", (), {"scope": scope, "members": members})

    def print(self, form: str, *values: Value) -> None:
        self.emit("print", values, {"format": form})

    # control
    def call(self, function: str, args: Sequence[Value], results: Sequence[Type]) -> list[Value]:
        return list(self.emit("call", args, {"function": function}, results).results)

    def jump(self, to: Block, *args: Value) -> None:
        self.emit("jump", targets=[Target(to, list(args))])

    def branch(
        self,
        truth: Value,
        yes: Block,
        no: Block,
        given: Sequence[Value] = (),
        otherwise: Sequence[Value] = (),
    ) -> None:
        """`given` goes to the arguments of `yes`, `otherwise` to those of `no`."""
        self.emit("branch", [truth], targets=[Target(yes, list(given)), Target(no, list(otherwise))])

    def ret(self, *values: Value) -> None:
        self.emit("return", values)

    def trap(self, code: int = 0, message: str = "") -> None:
        self.emit("trap", (), {"code": code, "message": message})

    @property
    def is_open(self) -> bool:
        """Whether the block still lacks its terminator."""
        return self.block.terminator is None
