"""Who does what: compute cores and the memory core run one text.

The memory core has no NRAM and takes part in `__sync_cluster` and `__sync_all`. Copies between DRAM and SRAM
are its own; sources therefore write them without asking who they are, beside the work of compute cores.

A kernel that never asks which core it is on leaves the memory core out: there it returns at once, barriers
are for compute cores, and its copies are done by core 0, whose task numbers are the memory core's. In a
kernel that asks, what both kinds of core come to is divided: copies between DRAM and SRAM to the memory core,
everything that touches NRAM or WRAM to the others. A copy that is behind a condition on the core, or whose
place is computed from `coreId`, belongs to everyone who comes to it.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.bang.lower.identity import MEMORY_CORE, Identity, reached
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Block, Buffer, Constant, Function, KernelModule, Op, Target, Value
from trilobite.processor.lang.ops import COMPARISONS
from trilobite.processor.lang.passes.frames import give_frames
from trilobite.processor.lang.passes.inline import inline
from trilobite.processor.lang.passes.order import WITH_COMPUTE
from trilobite.processor.lang.provenance import Provenance
from trilobite.processor.lang.types import ANY, STACK

DIRECTION = "direction"  # what a copy's enumerator says, kept on the operation until the work is divided
COPIES = frozenset(("COPY", "COPY2", "COPY3"))
_OFF_CHIP = frozenset(("gdram", "ldram"))
_NEAR = frozenset(("nram", "wram", "acc"))


def divide_work(module: KernelModule) -> None:
    """For every entry: see above. Functions that entries call are put into those that are divided."""
    for entry in module.entries:
        asks = _asks(reachable(module, entry))
        if asks or _shares(reachable(module, entry)):
            give_frames(module, entry)
            inline(module, entry)
        if not asks:
            _one_core_copies(module, entry)
            _without_memory_core(module, entry)
        else:
            _divided(module, entry)
    _order_near_copies(module)


def _order_near_copies(module: KernelModule) -> None:
    """Copies within NRAM are the compute pipe's: `__sync_compute` waits for them, compute follows them."""
    ops = [op for function in module.functions.values() for op in function.ops()]
    near = [op for op in ops if op.attrs.pop(DIRECTION, None) == "NRAM2NRAM" and op.attrs["async"]]
    for op in near:
        op.attrs[WITH_COMPUTE] = True
    for op in ops if near else ():
        if op.opcode == "sync" and op.attrs["queues"] == ("matrix", "vector"):
            op.attrs["queues"] = ("move", "matrix", "vector")


def reachable(module: KernelModule, entry: Function) -> set[Function]:
    """The entry and everything it calls."""
    found: set[Function] = set()
    work = [entry]
    while work:
        function = work.pop()
        if function not in found:
            found.add(function)
            work += [module.functions[op.attrs["function"]] for op in function.ops() if op.opcode == "call"]
    return found


def _asks(functions: set[Function]) -> bool:
    """`__is_mpu()`, or a comparison with the number that `coreId` has on the memory core."""
    specials = {op.attrs["name"] for f in functions for op in f.ops() if op.opcode == "special"}
    if "isMpu" in specials:
        return True
    return "coreId" in specials and any(
        isinstance(value, Constant) and value.value in (MEMORY_CORE - 1, MEMORY_CORE)
        for f in functions
        for op in f.ops()
        if op.opcode in COMPARISONS
        for value in op.operands
    )


def _ends(op: Op) -> tuple[str, str] | None:
    """The memories that a copy's direction names: from, to."""
    name = op.attrs.get(DIRECTION, "")
    source, _, target = name.lower().partition("2")
    return (source, target) if name else None


def _is_shared_copy(op: Op) -> bool:
    """Between DRAM and SRAM, or from SRAM to SRAM."""
    ends = _ends(op)
    return ends is not None and "sram" in ends and (bool(_OFF_CHIP & set(ends)) or ends == ("sram", "sram"))


def _shares(functions: set[Function]) -> bool:
    return any(_is_shared_copy(op) for f in functions for op in f.ops())


def _one_core_copies(module: KernelModule, entry: Function) -> None:
    """Copies that all cores come to are core 0's."""
    if not any(_is_shared_copy(op) for op in entry.ops()):
        return
    identity = Identity(entry)
    for block in list(entry.blocks):
        mine = [op for op in block.ops if _is_shared_copy(op) and not identity.numbered & set(op.operands)]
        if mine and block not in identity.divergent:
            _guard(
                module,
                entry,
                block,
                mine,
                lambda b: b.arithmetic("eq", I64, b.special("coreId"), b.integer(0)),
            )


def _none(b: Builder, name: str) -> Value:
    """Whether a built-in is 0."""
    return b.arithmetic("eq", I64, b.special(name), b.integer(0))


def _without_memory_core(module: KernelModule, entry: Function) -> None:
    """A function that other entries call as well keeps its barriers."""
    others = {f for other in module.entries if other is not entry for f in reachable(module, other)}
    for function in reachable(module, entry) - others:
        for op in function.ops():
            if op.opcode == "barrier" and not op.attrs["members"]:
                op.attrs["members"] = "ipu"
    _return_at_once(entry)


def _return_at_once(function: Function) -> None:
    first = function.blocks[0]
    work, done = Block("work"), Block("memory_core")
    for op in first.ops:
        work.append(op)
    first.ops = []
    asked = Op("special", (), {"name": "isMpu"}, [I64], function.location)
    first.append(asked)
    first.append(
        Op("branch", [asked.result], location=function.location, targets=[Target(done), Target(work)])
    )
    done.append(Op("return", location=function.location))
    function.blocks[1:1] = [work, done]


def _divided(module: KernelModule, entry: Function) -> None:
    both = reached(entry, True) & reached(entry, False)
    identity = Identity(entry)
    provenance = Provenance(entry)
    aside = Buffer("aside", STACK, 16, 16, entry.location)
    for block in [b for b in entry.blocks if b in both]:
        for op in list(block.ops):
            if op.opcode in ("load", "store") and _may_be_near(op.operands[-1], provenance):
                _turn_aside(module, entry, block, op, aside)
        shared = [op for op in block.ops if _is_shared_copy(op) and not identity.numbered & set(op.operands)]
        near = [op for op in block.ops if op.opcode == "tensor" and _is_near(op, provenance)]
        inside = shared if block not in identity.divergent else []
        tail = _guard(
            module, entry, block, near, lambda b: b.arithmetic("eq", I64, b.special("isMpu"), b.integer(0))
        )
        for part in tail:
            mine = [op for op in inside if op.block is part]
            if mine:
                _guard(module, entry, part, mine, lambda b: b.special("isMpu"))


def _is_near(op: Op, provenance: Provenance) -> bool:
    """Whether a tensor operation touches a memory that the memory core has not."""
    if op.attrs["row"] not in COPIES:
        return True
    ends = _ends(op)
    if ends is not None:
        return bool(_NEAR & set(ends))
    return any(_spaces(value, provenance) & _NEAR for value in op.operands[:2])


def _spaces(value: Value, provenance: Provenance) -> set[str]:
    points = provenance.of(value)
    return {buffer.space for buffer in points.buffers} | set(points.spaces)


def _may_be_near(pointer: Value, provenance: Provenance) -> bool:
    return bool(_spaces(pointer, provenance) & (_NEAR | {"any"}))


def _turn_aside(module: KernelModule, entry: Function, block: Block, op: Op, aside: Buffer) -> None:
    """A scalar access to NRAM or WRAM goes to a word of the frame where the memory core makes it."""
    if aside not in module.buffers.values():  # another entry may have one of the same name
        module.add_buffer(aside)
    at = block.ops.index(op)
    behind = block.ops[at:]
    del block.ops[at:]
    b = Builder(module, entry)
    b.block, b.location = block, op.location
    pointer = op.operands[-1]
    space = b.arithmetic("shr", I64, b.cast(pointer, I64), b.integer(57))
    near = b.arithmetic("eq", I64, space, b.integer(1))  # spaces 2 and 3
    truth = b.arithmetic("and", I64, near, b.special("isMpu"))
    plain = b.cast(pointer, ANY) if pointer.type != ANY else pointer
    place = b.offset(b.address(aside), b.integer(-op.attrs["offset"]))
    op.operands[-1] = b.select(truth, place, plain)
    block.ops += behind


def _guard(
    module: KernelModule, entry: Function, block: Block, ops: list[Op], condition: Callable[[Builder], Value]
) -> list[Block]:
    """Puts the operations behind a condition, neighbours together; gives the parts of the block."""
    parts = [block]
    left = [op for op in block.ops if op in ops]
    while left:
        run = _run(block, left)
        left = left[len(run) :]
        inside, rest = Block("mine"), Block("all")
        at = block.ops.index(run[0])
        behind = block.ops[at + len(run) :]
        del block.ops[at:]
        b = Builder(module, entry)
        b.block, b.location = block, run[0].location
        truth = condition(b)
        results = [value for op in run for value in op.results]
        given = [rest.add_argument(value.type) for value in results]
        b.branch(truth, inside, rest, (), [Constant(value.type, 0) for value in results])
        for op in run:
            inside.append(op)
        inside.append(Op("jump", location=run[-1].location, targets=[Target(rest, list(results))]))
        for op in behind:
            rest.append(op)
        place = entry.blocks.index(block) + 1
        entry.blocks[place:place] = [inside, rest]
        _replace(entry, dict(zip(results, given, strict=True)), inside)
        parts += [inside, rest]
        block = rest
    return parts


def _run(block: Block, ops: list[Op]) -> list[Op]:
    """The first operations of the list that stand one behind the other."""
    at = block.ops.index(ops[0])
    count = 1
    while count < len(ops) and block.ops[at + count] is ops[count]:
        count += 1
    return ops[:count]


def _replace(entry: Function, mapping: dict[Value, Value], but: Block) -> None:
    if not mapping:
        return
    for block in entry.blocks:
        if block is not but:
            for op in block.ops:
                op.replace_uses(mapping)
