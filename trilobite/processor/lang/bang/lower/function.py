"""One LLVM function to one function of kernel IR: blocks, phi nodes, constants, locals.

Blocks are walked so that definitions come before uses; phi nodes become arguments of blocks and are filled in
when everything else is there. What cannot be lowered is noted as a fault of the module, and the walk goes on,
so that one compilation reports everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.bang.llvm.described import unsigned_format
from trilobite.processor.lang.bang.llvm.instructions import DebugRecord, Instruction
from trilobite.processor.lang.bang.llvm.module import BasicBlock, DefinedFunction, Parameter
from trilobite.processor.lang.bang.llvm.types import LType, Void, size_of
from trilobite.processor.lang.bang.llvm.values import (
    Expression,
    Global,
    Group,
    Local,
    Number,
    Operand,
    Text,
    Undefined,
    Zero,
)
from trilobite.processor.lang.bang.lower.scalars import canonical, is_odd, is_wide, leaves, type_of
from trilobite.processor.lang.bounds import CALL
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import (
    NOWHERE,
    Block,
    Buffer,
    Constant,
    Function,
    Op,
    Target,
    Value,
    Variable,
)
from trilobite.processor.lang.types import ANY, STACK, Pointer, Type, is_float
from trilobite.processor.lang.verify import drop_blind_notes

if TYPE_CHECKING:
    from trilobite.processor.lang.bang.lower.module import ModuleLowering

Lowered = tuple[Value, ...]
Handler = Callable[["FunctionLowering", Instruction], Lowered]
PARAMETER_WORDS = 8
_WIDE_FLOATS = {"x86_fp80": "long double", "fp128": "__float128"}
MAX_PARAMETERS = 32  # words of a launch that lie in registers

HELPER = "__dlp_"  # how functions that only bodies of intrinsics call begin


class FunctionLowering:
    """The state of one walk."""

    def __init__(self, owner: ModuleLowering, source: DefinedFunction, is_entry: bool) -> None:
        self.owner, self.source, self.is_entry = owner, source, is_entry
        self.debug = owner.llvm.debug
        self.values: dict[str, Lowered] = {}
        self.blocks: dict[str, Block] = {}
        self.variables: dict[str, Variable] = {}  # allocas that are plain variables
        self.bit_fields: set[str] = set()  # allocas whose words are changed bit by bit
        self.lanes: Variable | None = None  # what the last copy wrote of each lane of WRAM
        self.noted: dict[int, Variable] = {}
        self._current_block = ""
        self._edges: list[tuple[Target, str, str]] = []
        self._phis: dict[str, list[Instruction]] = {}
        self._ends: dict[str, Block] = {}
        results = [] if is_entry else [self.scalar(leaf) for leaf in self._result_leaves()]
        self.function = Function(owner.public_name(source) if is_entry else source.name, results, is_entry)
        self.function.location = owner.shown(self.debug.declared_at(source.debug))
        self.builder = Builder(owner.module, self.function)
        self.builder.location = self.function.location

    def _result_leaves(self) -> list[LType]:
        return [] if isinstance(self.source.result, Void) else leaves(self.source.result)

    # types and faults
    def scalar(self, kind: LType) -> Type:
        found = type_of(kind)
        if found is None:
            self.refuse(f"the type {_type_text(kind)} does not exist on the processor")
            return I64
        return found

    def refuse(self, what: str) -> None:
        location = self.builder.location if hasattr(self, "builder") else NOWHERE
        self.owner.refuse(what, location, self.source.name)

    def dummy(self, kind: LType) -> Lowered:
        """Stands for the result of something that was refused."""
        if isinstance(kind, Void):
            return ()
        return tuple(Constant(self.scalar(leaf), 0) for leaf in leaves(kind))

    # the walk
    def run(self) -> Function:
        from trilobite.processor.lang.bang.lower.dispatch import HANDLERS
        from trilobite.processor.lang.bang.lower.lanes import plan_lanes
        from trilobite.processor.lang.bang.lower.memory import plan_locals

        order = _reverse_postorder(self.source.blocks)
        first = order[0].name
        self._parameters()
        self.blocks[first] = self.builder.block
        for block in order[1:]:
            self.blocks[block.name] = self.function.add_block(block.name)
        for block in order:
            self._phi_arguments(block)
        plan_locals(self)
        plan_lanes(self)
        for block in order:
            self.builder.block = self.blocks[block.name]
            self._current_block = block.name
            for item in block.items:
                if isinstance(item, DebugRecord):
                    self._note(item)
                elif item.opcode != "phi":
                    self._instruction(item, HANDLERS)
            self._ends[block.name] = self.builder.block
        self._fill_edges()
        drop_blind_notes(self.function)
        return self.function

    def _instruction(self, item: Instruction, handlers: dict[str, Handler]) -> None:
        place = self.debug.location(item.debug)
        if place is not NOWHERE and place.line:
            self.builder.location = self.owner.shown(place)
        self.current = item
        handler = handlers.get(item.opcode)
        if handler is None:
            self.refuse(f"the LLVM instruction {item.opcode!r} is not supported")
            made = self.dummy(item.type)
            if item.opcode in ("invoke", "resume", "indirectbr", "callbr"):
                self.builder.trap(1, "unsupported")
        else:
            block, at = self.builder.block, len(self.builder.block.ops)
            made = handler(self, item)
            self._name_accesses(item, block.ops[at:])
        if item.result:
            self.values[item.result] = made

    def _name_accesses(self, item: Instruction, made: list[Op]) -> None:
        """Accesses in the body of an intrinsic are the intrinsic's, those of its helpers too."""
        accesses = [op for op in made if op.opcode in ("load", "store") and CALL not in op.attrs]
        helpers = [op for op in made if op.attrs.get(CALL, ("",))[0].startswith(HELPER)]
        name = self.debug.intrinsic(item.debug) if accesses or helpers else ""
        for op in accesses if name else ():
            op.attrs[CALL] = (name, (), False, "")
        for op in helpers if name else ():
            op.attrs[CALL] = (name, *op.attrs[CALL][1:])

    def _parameters(self) -> None:
        names = self.debug.parameters(self.source.debug)
        block = self.builder.block
        far = self.is_entry and sum(_words(param) for param in self.source.params) > MAX_PARAMETERS
        for place, param in enumerate(self.source.params):
            label = names[place] if place < len(names) and names[place] else param.name
            if self.is_entry:
                self.values[param.name] = (
                    self._far_parameter(param.copied, label)
                    if far and param.copied is not None
                    else self._entry_parameter(param.type, param.copied, label)
                )
            else:
                kinds = [self.scalar(leaf) for leaf in leaves(param.type)]
                self.values[param.name] = tuple(block.add_argument(kind, label) for kind in kinds)

    def _entry_parameter(self, kind: LType, copied: LType | None, label: str) -> Lowered:
        """Arguments of a launch are words: a struct takes as many as it has."""
        b, block = self.builder, self.builder.block
        if copied is not None:
            buffer = self.stack(size_of(copied), label)
            words = -(-size_of(copied) // PARAMETER_WORDS)
            arguments = [block.add_argument(I64, f"{label}.{n}" if n else label) for n in range(words)]
            pointer = b.address(buffer)
            for place, argument in enumerate(arguments):
                b.store(I64, argument, pointer, PARAMETER_WORDS * place)
            return (pointer,)
        found = leaves(kind)
        if len(found) == 1:
            whole = self.scalar(kind)
            if whole is ANY:
                return (block.add_argument(Pointer("gdram"), label),)
            argument = block.add_argument(whole, label)
            return (
                canonical(b, argument, getattr(kind, "bits", 64))
                if is_odd(getattr(kind, "bits", 64))
                else argument,
            )
        return self._packed_parameter(kind, found, label)

    def _far_parameter(self, copied: LType, label: str) -> Lowered:
        """Where there are too many words, a struct is one: the place in DRAM that it is copied from."""
        b = self.builder
        pointer = b.address(self.stack(size_of(copied), label))
        source = b.block.add_argument(Pointer("gdram"), label)
        b.tensor("COPY", [pointer, source, b.integer(size_of(copied))])
        return (pointer,)

    def _packed_parameter(self, kind: LType, found: Sequence[LType], label: str) -> Lowered:
        """A small struct travels in one word, which is taken apart in memory."""
        from trilobite.processor.lang.bang.lower.memory import load_leaves

        b = self.builder
        buffer = self.stack(-(-size_of(kind) // 8) * 8, label)
        pointer = b.address(buffer)
        for place in range(-(-size_of(kind) // 8)):
            b.store(I64, b.block.add_argument(I64, label), pointer, 8 * place)
        return load_leaves(self, kind, pointer)

    def stack(self, size: int, name: str = "local", align: int = 16) -> Buffer:
        """Room in the frame of the core."""
        made = Buffer(name, STACK, max(8, -(-size // 8) * 8), max(align, 16), self.builder.location)
        return self.owner.module.add_buffer(made)

    # values
    def value(self, item: Operand) -> Lowered:
        """The scalars of an operand."""
        match item.value:
            case Local(name):
                if name in self.values:
                    return self.values[name]
                return self.dummy(item.type)
            case Number(number):
                return self._numbers(item.type, number)
            case Undefined() | Zero():
                return self.dummy(item.type)
            case Global(name):
                return (self.owner.address(self, name),)
            case Group(items):
                return tuple(value for part in items for value in self.value(part))
            case Text(content):
                kinds = leaves(item.type)
                return tuple(Constant(self.scalar(k), byte) for k, byte in zip(kinds, content, strict=False))
            case Expression():
                from trilobite.processor.lang.bang.lower.memory import constant_expression

                return constant_expression(self, item)
        self.refuse("an operand of an unknown kind")
        return self.dummy(item.type)

    def one(self, item: Operand) -> Value:
        """The value of a scalar operand."""
        found = self.value(item)
        if len(found) == 1:
            return found[0]
        self.refuse(f"a value of {len(found)} parts where one is needed")
        return Constant(I64, 0)

    def _numbers(self, kind: LType, number: int | float) -> Lowered:
        if not is_wide(kind):
            return (self._number(kind, number),)
        return tuple(
            self._number(leaf, int(number) >> shift)
            for leaf, shift in zip(leaves(kind), (0, 64), strict=True)
        )

    def _number(self, kind: LType, number: int | float) -> Constant:
        found = self.scalar(kind)
        if is_float(found):
            return Constant(found, float(number))
        bits = getattr(kind, "bits", 64)
        low = int(number) & ((1 << bits) - 1)
        if bits == 1:
            return Constant(I64, low)
        return Constant(found, low - (1 << bits) if low >> (bits - 1) else low)

    # control flow
    def target(self, name: str) -> Target:
        """An edge from the block that is being lowered; its arguments come later."""
        made = Target(self.blocks[name])
        self._edges.append((made, self._current_block, name))
        return made

    def _phi_arguments(self, block: BasicBlock) -> None:
        found = [item for item in block.instructions if item.opcode == "phi"]
        self._phis[block.name] = found
        for phi in found:
            kinds = [self.scalar(leaf) for leaf in leaves(phi.type)]
            target = self.blocks[block.name]
            self.values[phi.result] = tuple(target.add_argument(kind, phi.result) for kind in kinds)

    def _fill_edges(self) -> None:
        homes = {
            id(edge): block for block in self.function.blocks if block.ops for edge in block.ops[-1].targets
        }
        for edge, origin, name in self._edges:
            end = homes[id(edge)]
            last = end.ops.pop()
            self.builder.block, self.builder.location = end, last.location
            for phi in self._phis[name]:
                place = phi.extra["blocks"].index(origin)
                edge.args += self.value(phi.args[place])
            end.append(last)

    # debugging
    def variable_of(self, number: int, kind: Type) -> Variable:
        if number not in self.noted:
            name, scope = self.debug.name(number), self.debug.scope_name(number)
            place = self.owner.shown(self.debug.declared_at(number))
            made = self.noted[number] = self.function.add_variable(name, kind, scope, place)
            made.shown = unsigned_format(self.debug, number, kind)
        return self.noted[number]

    def _note(self, record: DebugRecord) -> None:
        if record.kind != "value" or record.expression or self.owner.level == 0:
            return
        if not isinstance(record.value.value, Local | Number):
            return
        if isinstance(record.value.value, Local) and record.value.value.name not in self.values:
            return
        found = self.value(record.value)
        if len(found) != 1:
            return
        variable = self.variable_of(record.variable, found[0].type)
        if is_float(variable.type) == is_float(found[0].type):
            self.builder.note(variable, found[0])


def _words(param: Parameter) -> int:
    """How many words of a launch a parameter takes."""
    return -(-size_of(param.type if param.copied is None else param.copied) // PARAMETER_WORDS)


def _type_text(kind: LType) -> str:
    bits = getattr(kind, "bits", None)
    name = str(getattr(kind, "name", kind))
    return f"of {bits}-bit integers" if bits else _WIDE_FLOATS.get(name, name)


def _successors(block: BasicBlock) -> list[str]:
    last = block.instructions[-1]
    if last.opcode == "switch":
        return [last.extra["default"], *(label for _, label in last.extra["cases"])]
    return list(last.extra.get("labels", []))


def _reverse_postorder(blocks: list[BasicBlock]) -> list[BasicBlock]:
    named = {block.name: block for block in blocks}
    seen = {blocks[0].name}
    order: list[BasicBlock] = []
    stack = [(blocks[0], iter(reversed(_successors(blocks[0]))))]
    while stack:
        block, rest = stack[-1]
        following = next((name for name in rest if name not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((named[following], iter(reversed(_successors(named[following])))))
    return order[::-1]
