"""Recursion without a call instruction: functions that call themselves get a stack of frames in LDRAM.

Enters: a module and an entry of it. Leaves: the module, in which every circle of functions that the entry
reaches is one function without calls: a call writes what is needed behind it into the caller's frame and goes
to the callee's first block, a return goes to where the frame says it was called from. Arrays of such a
function lie in its frame. A stack that overflows stops the launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trilobite.processor.isa.formats import I64, Format
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.calls import calls_of, reached
from trilobite.processor.lang.ir import (
    Argument,
    Block,
    Buffer,
    Constant,
    Function,
    KernelModule,
    Op,
    Result,
    Target,
    Value,
    Variable,
)
from trilobite.processor.lang.passes.clone import clone_blocks
from trilobite.processor.lang.passes.inline import inline
from trilobite.processor.lang.types import ANY, STACK, Type

STACK_BYTES = 1 << 20  # of a core, for one circle of functions
ALIGN = 64
WORD = 8
OVERFLOW = 4  # the code of the trap


def give_frames(module: KernelModule, entry: Function) -> None:
    """Every circle of functions that the entry reaches, inner ones first."""
    reach = {name: reached(module, name) for name in reached(module, entry.name)}
    circles = {frozenset(n for n in reach[name] if name in reach[n]) for name in reach if name in reach[name]}
    for circle in sorted(circles, key=lambda names: (len(reach[min(names)]), min(names))):
        for name in sorted(circle):
            inline(module, module.functions[name], kept=circle)
        for name in sorted(_called_from_outside(module, circle)):
            made = module.add_function(_Machine(module, sorted(circle), name).run())
            _redirect(module, circle, name, made.name)


def _called_from_outside(module: KernelModule, circle: Iterable[str]) -> set[str]:
    outside = [function for name, function in module.functions.items() if name not in circle]
    return {op.attrs["function"] for function in outside for op in calls_of(function)} & set(circle)


def _redirect(module: KernelModule, circle: Iterable[str], name: str, made: str) -> None:
    for other, function in module.functions.items():
        if other not in circle:
            for op in calls_of(function):
                if op.attrs["function"] == name:
                    op.attrs["function"] = made


@dataclass(eq=False)
class _Part:
    """One function of the circle: its blocks, the variables of an activation and where they are kept."""

    blocks: list[Block]
    params: list[Variable]
    results: list[Variable]
    slots: dict[Variable, int] = field(default_factory=dict)
    arrays: dict[Buffer, int] = field(default_factory=dict)
    size: int = WORD  # the first word says where the activation was called from

    def keep(self, variable: Variable) -> Variable:
        self.slots[variable] = self.size
        self.size += WORD
        return variable

    def array(self, buffer: Buffer) -> int:
        if buffer not in self.arrays:
            at = -(-self.size // max(buffer.align, WORD)) * max(buffer.align, WORD)
            self.arrays[buffer], self.size = at, at + buffer.bytes
        return self.arrays[buffer]


@dataclass(eq=False)
class _Site:
    """A call inside the circle: the block it ends, where it goes on."""

    caller: _Part
    call: Op
    block: Block
    behind: Block


class _Machine:
    """The function that a circle becomes, while it is made."""

    def __init__(self, module: KernelModule, circle: Sequence[str], root: str) -> None:
        self.module, self.root = module, root
        source = module.functions[root]
        self.function = Function(f"{root}.frames", source.results)
        self.function.location = source.location
        self.b = Builder(module, self.function)
        self.b.location = source.location
        self.stack = module.add_buffer(
            Buffer(f"frames of {root}", "ldram", STACK_BYTES, ALIGN, source.location)
        )
        self.frame = self.function.add_variable("frame", I64)
        self.sites: list[_Site] = []
        self.parts = {name: self._part(module.functions[name]) for name in circle}

    def _part(self, source: Function) -> _Part:
        variables = {
            v: Variable(v.name, v.type, v.scope or source.name, v.location) for v in source.variables
        }
        self.function.variables.extend(variables.values())
        blocks = list(clone_blocks(source.blocks, {}, variables).values())
        params = [self._new(arg.type, arg.name) for arg in blocks[0].args]
        results = [self._new(kind, "result") for kind in source.results]
        made = _Part(blocks, params, results)
        for variable in (*params, *variables.values()):
            made.keep(variable)
        return made

    def _new(self, kind: Type, name: str) -> Variable:
        return self.function.add_variable(name or "value", kind)

    def run(self) -> Function:
        for part in self.parts.values():
            self._split(part)
        for part in self.parts.values():
            self._demote(part)
            self._place_arrays(part)
            part.size = -(-part.size // ALIGN) * ALIGN
        needed = {site: needed_variables(site.caller.blocks)[site.behind] for site in self.sites}
        self._begin()
        ends = self._dispatch()
        for site in self.sites:
            self._enter(site, [v for v in site.caller.slots if v in needed[site]])
        for part in self.parts.values():
            self._returns(part, ends)
            self.function.blocks += part.blocks
        return self.function

    # values become variables
    def _split(self, part: _Part) -> None:
        """A block ends behind each call; the results are read where it goes on."""
        work = list(part.blocks)
        while work:
            block = work.pop()
            block.ops = [op for op in block.ops if op.opcode != "note"]
            place = next((n for n, op in enumerate(block.ops) if op.opcode == "call"), None)
            if place is None:
                continue
            call, behind = block.ops[place], Block("behind")
            results = self.parts_results(call)
            gets = [Op("get", (), {"type": v.type, "variable": v}, [v.type], call.location) for v in results]
            for op in (*gets, *block.ops[place + 1 :]):
                behind.append(op)
            del block.ops[place + 1 :]
            block.append(Op("jump", location=call.location, targets=[Target(behind)]))
            mapping: dict[Value, Value] = {
                old: get.result for old, get in zip(call.results, gets, strict=True)
            }
            for other in (*part.blocks, behind):
                for op in other.ops:
                    op.replace_uses(mapping)
            part.blocks.append(behind)
            self.sites.append(_Site(part, call, block, behind))
            work.append(behind)

    def parts_results(self, call: Op) -> list[Variable]:
        return self.parts[call.attrs["function"]].results

    def _demote(self, part: _Part) -> None:
        """What is used in another block than its own goes through a variable."""
        homes: dict[Value, Variable] = dict(zip(part.blocks[0].args, part.params, strict=True))
        for block in part.blocks[1:]:
            for arg in block.args:
                homes[arg] = part.keep(self._new(arg.type, arg.name))
        for block in part.blocks:
            for op in block.ops:
                for value in op.uses():
                    if isinstance(value, Result) and value.op.block is not block and value not in homes:
                        homes[value] = part.keep(self._new(value.type, "value"))
        passed = {block: list(block.args) for block in part.blocks}
        for block in list(part.blocks):
            self._through_variables(part, block, homes, passed)
        for block in part.blocks:
            block.args = []

    def _through_variables(
        self, part: _Part, block: Block, homes: dict[Value, Variable], passed: dict[Block, list[Argument]]
    ) -> None:
        old, block.ops = block.ops, []
        self.b.block = block
        here: dict[Value, Value] = {}
        for op in old:
            self.b.location = op.location
            for value in dict.fromkeys(op.uses()):
                is_far = isinstance(value, Argument) or (
                    isinstance(value, Result) and value.op.block is not block
                )
                if is_far and value not in here:
                    here[value] = self.b.get(homes[value])
            op.replace_uses(here)
            if op.is_terminator:
                self._pass(part, op, homes, passed)
            block.append(op)
            for result in op.results:
                if result in homes:
                    self.b.set(homes[result], result)

    def _pass(
        self, part: _Part, op: Op, homes: dict[Value, Variable], passed: dict[Block, list[Argument]]
    ) -> None:
        """The next block's arguments are set in front of a jump; a branch gets a block for each way."""
        block = self.b.block
        for target in op.targets:
            if not target.args:
                continue
            if len(op.targets) > 1:
                edge = Block("edge")
                part.blocks.append(edge)
                self.b.block = edge
            for argument, value in zip(passed[target.block], target.args, strict=True):
                self.b.set(homes[argument], value)
            if len(op.targets) > 1:
                self.b.jump(target.block)
                target.block = edge
            target.args = []
            self.b.block = block

    def _place_arrays(self, part: _Part) -> None:
        for block in part.blocks:
            old, block.ops = block.ops, []
            self.b.block = block
            for op in old:
                if op.opcode != "address" or op.attrs["buffer"].space != STACK:
                    block.append(op)
                    continue
                self.b.location = op.location
                place = self._place(part.array(op.attrs["buffer"]))
                op.opcode, op.operands, op.attrs = "cast", [place], {"type": ANY}
                block.append(op)

    # frames
    def _place(self, at: int) -> Value:
        """An address in the frame that is running."""
        b = self.b
        distance = b.get(self.frame)
        if at:
            distance = b.arithmetic("add", I64, distance, b.integer(at))
        return b.offset(b.address(self.stack), distance)

    def _begin(self) -> None:
        b, part = self.b, self.parts[self.root]
        b.block, b.location = self.function.blocks[0], self.function.location
        for variable in part.params:
            b.set(variable, b.block.add_argument(variable.type, variable.name))
        b.set(self.frame, b.integer(0))
        b.store(I64, b.integer(0), b.address(self.stack))
        b.jump(part.blocks[0])

    def _enter(self, site: _Site, needed: list[Variable]) -> None:
        """Keeps what is needed behind the call, and goes to the callee's first block in the next frame."""
        b, caller, callee = self.b, site.caller, self.parts[site.call.attrs["function"]]
        site.block.ops = [op for op in site.block.ops if op is not site.call][:-1]
        b.block, b.location = site.block, site.call.location
        place = self._place(0)
        for variable in needed:
            value = b.get(variable)
            if isinstance(value.type, Format):
                b.store(value.type, value, place, caller.slots[variable])
            else:
                b.store(I64, b.cast(value, I64), place, caller.slots[variable])
        for variable, value in zip(callee.params, site.call.operands, strict=True):
            b.set(variable, value)
        following = b.arithmetic("add", I64, b.get(self.frame), b.integer(caller.size))
        full, fine = self.function.add_block("full"), self.function.add_block("fine")
        room = b.integer(STACK_BYTES - callee.size)
        b.branch(b.arithmetic("gt", I64, following, room), full, fine)
        b.block = full
        b.trap(OVERFLOW, f"the recursion is deeper than {STACK_BYTES} bytes of frames")
        b.block = fine
        b.set(self.frame, following)
        b.store(I64, b.integer(self.sites.index(site) + 1), self._place(0))
        b.jump(callee.blocks[0])
        self._leave(site, needed)

    def _leave(self, site: _Site, needed: list[Variable]) -> None:
        """Back in the caller's frame, in front of what stands behind the call."""
        b, caller = self.b, site.caller
        old, site.behind.ops = site.behind.ops, []
        b.block = site.behind
        b.set(self.frame, b.arithmetic("sub", I64, b.get(self.frame), b.integer(caller.size)))
        place = self._place(0)
        for variable in needed:
            if isinstance(variable.type, Format):
                b.set(variable, b.load(variable.type, place, caller.slots[variable]))
            else:
                b.set(variable, b.cast(b.load(I64, place, caller.slots[variable]), variable.type))
        for op in old:
            site.behind.append(op)

    def _returns(self, part: _Part, ends: Block) -> None:
        for block in part.blocks:
            last = block.ops[-1]
            if last.opcode != "return":
                continue
            block.ops.pop()
            self.b.block, self.b.location = block, last.location
            for variable, value in zip(part.results, last.operands, strict=True):
                self.b.set(variable, value)
            self.b.jump(ends)

    def _dispatch(self) -> Block:
        """Where every return goes: to the place that the frame names; with 0, out of the circle."""
        b = self.b
        first = b.block = self.function.add_block("returned")
        site = b.load(I64, self._place(0))
        for number, known in enumerate(self.sites, 1):
            following = self.function.add_block("other")
            b.branch(b.arithmetic("eq", I64, site, Constant(I64, number)), known.behind, following)
            b.block = following
        b.ret(*(b.get(variable) for variable in self.parts[self.root].results))
        return first


def needed_variables(blocks: Sequence[Block]) -> dict[Block, set[Variable]]:
    """The variables that are read from each block on before they are set."""
    reads: dict[Block, set[Variable]] = {}
    sets: dict[Block, set[Variable]] = {}
    for block in blocks:
        reads[block], sets[block] = set(), set()
        for op in block.ops:
            if op.opcode == "get" and op.attrs["variable"] not in sets[block]:
                reads[block].add(op.attrs["variable"])
            elif op.opcode == "set":
                sets[block].add(op.attrs["variable"])
    needed = {block: set(found) for block, found in reads.items()}
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            behind = set().union(*(needed[following] for following in block.successors), set())
            found = needed[block] | (behind - sets[block])
            if found != needed[block]:
                needed[block], changed = found, True
    return needed
