"""The context in which a kernel's operations become kernel IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trilobite.base.errors import KernelError
from trilobite.processor.isa.formats import I64, Format
from trilobite.processor.isa.row import VALUE_FIELDS, value_format
from trilobite.processor.isa.rows.scalar import ATOMICS
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.intrinsics import contract
from trilobite.processor.lang.ir import Buffer, Constant, Result, Value
from trilobite.processor.lang.python.surroundings import Taken
from trilobite.processor.lang.python.symbols import Symbol, binary, common_format, value_of
from trilobite.processor.lang.python.view import View
from trilobite.processor.lang.types import ANY, SCALARS, Pointer, is_float
from trilobite.processor.machine import Machine
from trilobite.processor.sim.control import PRINTF

ON_CHIP = ("nram", "wram", "sram", "acc")
NONNEGATIVE = True


@dataclass
class Stage:
    """The part of a pipelined loop that is being written: which buffers it alternates, and by what number.

    `places` are fixed places of buffers: by which parts they are used, and whether these write there.
    """

    name: str
    iteration: Any
    slots: dict[object, int]
    buffers: dict[object, Buffer] = field(default_factory=dict)
    places: dict[tuple[Buffer, int], dict[str, bool]] = field(default_factory=dict)


class BuildContext:
    """`site` names the call that is being written, so that one call in the source is one buffer."""

    def __init__(self, builder: Builder, machine: Machine) -> None:
        self.builder, self.machine = builder, machine
        self.site: tuple[object, ...] = ()
        self.buffer_name = "buffer"
        self.stage: Stage | None = None
        self.taken: dict[tuple[int, str], Taken] = {}
        self._next_code = 1

    @property
    def in_pipeline(self) -> bool:
        return self.stage is not None and self.stage.name in ("load", "store")

    def error(self, what: str, expected: str, remedy: str) -> KernelError:
        return KernelError(what, where=self.builder.location, expected=expected, remedy=remedy)

    def symbol(self, value: Value, nonnegative: bool = False) -> Symbol:
        return Symbol(self.builder, value, nonnegative)

    def whole(self, value: Any) -> Value:
        """A count or a distance as i64."""
        if isinstance(value, Symbol) and is_float(value.fmt):
            raise self.error(
                "a float where a whole number is needed", "an integer", "convert with dlp.i64(x)"
            )
        return value_of(self.builder, value, I64)

    # tensor operations
    def tensor(
        self,
        row: str,
        operands: Sequence[Any],
        formats: Sequence[Format],
        flags: Sequence[str],
        is_async: bool,
    ) -> list[Any]:
        promise = contract(row)
        values = []
        for name, given in zip(promise.fields, operands, strict=True):
            if promise.access(name) is not None:
                values.append(self._place(name, row, given))
            elif name in VALUE_FIELDS:
                values.append(value_of(self.builder, given, value_format(name, formats)))
            else:
                values.append(self.whole(given))
        return [
            self.symbol(v, NONNEGATIVE) for v in self.builder.tensor(row, values, formats, flags, is_async)
        ]

    def _place(self, name: str, row: str, given: Any) -> Value:
        if not isinstance(given, View):
            return self.builder.constant(ANY, 0)
        access = contract(row).access(name)
        assert access is not None
        from trilobite.processor.lang.types import LETTER_OF

        if LETTER_OF[given.space] not in access.spaces:
            names = " or ".join(s for s, letter in LETTER_OF.items() if letter in access.spaces)
            raise self.error(
                f"{row}: {name} lies in {given.space}", f"a view in {names}", "copy it there first"
            )
        address: Value = given.address
        self._note(address, access.writes)
        return address

    def _note(self, address: Value, writes: bool) -> None:
        """Parts of a pipelined loop run beside each other: none may write where another one is."""
        fixed = _fixed_place(address) if self.stage is not None else None
        if self.stage is None or fixed is None:
            return
        used = self.stage.places.setdefault(fixed, {})
        for part, wrote in used.items():
            if part != self.stage.name and (wrote or writes):
                name, parts = fixed[0].name, f"the {part} and the {self.stage.name} part"
                raise self.error(
                    f"{name!r} is used by {parts} of a pipelined loop, which run at the same time",
                    "a buffer made in the loop's body: the loop alternates between copies of it",
                    f"move {name} = dlp.{fixed[0].space}(...) into the loop",
                )
        used[self.stage.name] = writes or used.get(self.stage.name, False)

    # memory
    def load(self, fmt: Format, address: Any) -> Any:
        space = address.type.space if isinstance(address.type, Pointer) else ""
        if self.stage is not None and self.stage.name != "compute" and space in ON_CHIP:
            raise self.error(
                f"the {self.stage.name} part of a pipelined loop needs an element of {space}",
                "places that do not depend on what the loop computes",
                "use a plain loop, or keep the value in memory",
            )
        self._element(fmt)
        self._note(address, False)
        value = self.builder.load(fmt, address)
        return self.symbol(value if is_float(fmt) else self.widened(value), fmt.kind == "uint")

    def elements(self, view: View) -> Any:
        raise self.error(
            f"the elements of {view} are asked for while the kernel is compiled",
            "an interpreted kernel",
            "run it with kernel.interpret(device, args), or print elements with dlp.printf",
        )

    def _element(self, fmt: Format) -> None:
        if fmt not in SCALARS:
            raise self.error(
                f"a single element of {fmt.name}",
                "a format that the scalar unit has",
                "convert with dlp.convert",
            )

    def widened(self, value: Value) -> Value:
        return value if value.type is I64 else self.builder.cast(value, I64)

    def store(self, fmt: Format, value: Any, address: Any) -> None:
        self._element(fmt)
        self._note(address, True)
        self.builder.store(fmt, self._narrow(value, fmt), address)

    def _narrow(self, value: Any, fmt: Format) -> Value:
        """A scalar as an element: integers keep their low bits, floats are rounded, no float is cut."""
        if is_float(fmt) or not isinstance(value, Symbol):
            return value_of(self.builder, value, fmt)
        if is_float(value.fmt):
            raise self.error(
                f"a {value.fmt.name} is stored into {fmt.name}", "an integer", f"convert: dlp.{fmt.name}(x)"
            )
        return value.value if fmt is I64 else self.builder.cast(value.value, fmt)

    def shifted(self, address: Any, count: Any) -> Any:
        if isinstance(count, int) and count == 0:
            return address
        return self.builder.offset(address, self.whole(count))

    def atomic(self, op: str, fmt: Format, address: Any, value: Any) -> Any:
        if op not in ATOMICS or fmt.name not in ("i32", "i64", "u32", "u64", "f32"):
            raise self.error(
                f"the atomic {op!r} on {fmt.name}", f"{', '.join(ATOMICS)} on i32 i64 u32 u64 f32",
                "choose another",
            )  # fmt: skip
        old = self.builder.atomic(op, fmt, address, self._narrow(value, fmt))
        return self.symbol(old if is_float(fmt) else self.widened(old))

    def compare_and_swap(self, fmt: Format, address: Any, expected: Any, value: Any) -> Any:
        if fmt.name not in ("i32", "i64"):
            raise self.error(f"compare_and_swap on {fmt.name}", "i32 or i64", "choose another type")
        old = self.builder.cas(fmt, address, self._narrow(expected, fmt), self._narrow(value, fmt))
        return self.symbol(self.widened(old))

    def buffer(self, space: str, fmt: Format, shape: tuple[int, ...]) -> Any:
        """One static array per call in the source; in a pipelined loop as many as it alternates between."""
        size = fmt.bytes(_count(shape))
        stage, slots = self.stage, 1
        buffer = stage.buffers.get(self.site) if stage is not None else None
        if stage is not None:
            slots = stage.slots.get(self.site[-1], 1)
        padded = -(-size // 64) * 64 if slots > 1 else size
        if buffer is None:
            buffer = self.builder.module.add_buffer(
                Buffer(
                    self.buffer_name, space, padded * slots, 64, self.builder.location, fmt.name, shape, slots
                )
            )
            if stage is not None:
                stage.buffers[self.site] = buffer
        if slots == 1:
            self.builder.begin(buffer)
            return self.builder.address(buffer)
        assert stage is not None
        return self.shifted(self.builder.address(buffer), stage.iteration % slots * padded)

    # the task
    def special(self, name: str) -> Any:
        return self.symbol(self.builder.special(name), NONNEGATIVE)

    def clock(self) -> Any:
        return self.symbol(self.builder.emit("clock", results=[I64]).result, NONNEGATIVE)

    def sync(self, queues: Sequence[str]) -> None:
        unknown = [q for q in queues if q not in ("io", "move", "matrix", "vector")]
        if unknown:
            raise self.error(
                f"there is no queue {unknown[0]!r}", "io, move, matrix, vector", "name one of them"
            )
        self.builder.sync(*queues)

    def barrier(self, scope: str, members: str) -> None:
        self.builder.barrier(scope, members)

    # scalars
    def unary(self, opcode: str, value: Any) -> Any:
        if not isinstance(value, Symbol):
            raise self.error(
                f"{opcode} of {value!r}", "a scalar of the kernel", "use Python's math for constants"
            )
        if opcode != "abs" and not is_float(value.fmt):
            raise self.error(f"{opcode} of an integer", "a float", "convert with dlp.f32(x)")
        return self.symbol(self.builder.arithmetic(opcode, value.fmt, value.value))

    def fused(self, a: Any, b: Any, c: Any) -> Any:
        first = next((v for v in (a, b, c) if isinstance(v, Symbol)), None)
        if first is None or first.fmt.name not in ("f32", "f64"):
            raise self.error(
                "fma of scalars that are not f32 or f64", "f32 or f64", "convert with dlp.f32(x)"
            )
        values = [value_of(self.builder, v, first.fmt) for v in (a, b, c)]
        return self.symbol(self.builder.arithmetic("fma", first.fmt, *values))

    def extreme(self, opcode: str, a: Any, b: Any) -> Any:
        if not isinstance(a, Symbol) and not isinstance(b, Symbol):
            return min(a, b) if opcode == "min" else max(a, b)
        if not all(isinstance(v, (Symbol, int, float, np.generic)) for v in (a, b)):
            raise self.error(f"{opcode} of {a} and {b}", "two scalars", f"use dlp.{opcode}imum for views")
        if not is_float(common_format(self.builder, a, b)):
            return binary(self.builder, opcode, a, b)
        # Python's own meets NaN and -0.0 in another way than the instruction does
        return self.select(binary(self.builder, "lt" if opcode == "min" else "gt", b, a), b, a)

    def convert(self, value: Any, fmt: Format, rounding: str) -> Any:
        self._element(fmt)
        if not isinstance(value, Symbol):
            if is_float(fmt):
                return self.symbol(value_of(self.builder, float(value), fmt))
            return self.symbol(value_of(self.builder, int(value), I64))
        if is_float(fmt):
            return self.symbol(value_of(self.builder, value, fmt))
        if is_float(value.fmt):
            rounded = self.builder.convert(value.value, fmt, "rz" if rounding == "rn" else rounding)
            return self.symbol(self.widened(rounded))
        if fmt is I64:
            return value
        return self.symbol(self.widened(self.builder.cast(value.value, fmt)))

    def select(self, truth: Any, a: Any, b: Any) -> Any:
        if not isinstance(truth, Symbol):
            return a if truth else b
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            from trilobite.processor.isa.formats import F32

            fmt: Format = F32 if isinstance(a, float) or isinstance(b, float) else I64
        else:
            fmt = common_format(self.builder, a, b)
        chosen = self.builder.select(
            truth.value, value_of(self.builder, a, fmt), value_of(self.builder, b, fmt)
        )
        return self.symbol(chosen)

    def printf(self, form: str, values: Sequence[Any]) -> None:
        if not isinstance(form, str):
            raise self.error("the format of printf is not a literal", "a string", "write it in the call")
        wanted = [m[1] for m in PRINTF.finditer(form) if m[0] != "%%"]
        if len(wanted) != len(values) or "s" in wanted:
            raise self.error(
                f"printf of {len(values)} values with {form!r}",
                "one value for each of %d %u %x %f %e %g %c %p",
                "match them",
            )
        words: list[Value] = []
        for value in values:
            if isinstance(value, float):
                from trilobite.processor.isa.formats import F64

                words.append(self.builder.constant(F64, value))
            else:
                words.append(value.value if isinstance(value, Symbol) else self.whole(value))
        if len(words) > 16:
            raise self.error(f"printf of {len(words)} values", "at most 16", "print in several calls")
        self.builder.print(form, *words)

    def trap(self, message: str) -> None:
        if not isinstance(message, str):
            raise self.error("the message of a trap is not a literal", "a string", "write it in the call")
        self.builder.print(f"{self.builder.location}: {message}\n".replace("%", "%%"))
        self.builder.trap(self._next_code, message)
        self._next_code += 1
        self.builder.block = self.builder.function.add_block("behind a trap")


def _fixed_place(address: Value) -> tuple[Buffer, int] | None:
    """The buffer and offset that an address is, where both are known and the buffer is not alternated."""
    offset = 0
    while isinstance(address, Result) and address.op.opcode == "offset":
        count = address.op.operands[1]
        if not isinstance(count, Constant):
            return None
        offset += int(count.value)
        address = address.op.operands[0]
    if not isinstance(address, Result) or address.op.opcode != "address":
        return None
    return address.op.attrs["buffer"], offset


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total
