"""What of a kernel depends on which core of a cluster runs it.

Enters: an entry without calls. Leaves: the values that differ from core to core, the blocks that not every
core reaches, and the blocks that the memory core or the compute cores can reach at all. What went through
memory by a pointer that is not plain is taken to be the same everywhere.
"""

from __future__ import annotations

from trilobite.processor.lang.ir import Block, Constant, Function, Op, Result, Value, Variable
from trilobite.processor.lang.ops import COMPARISONS

MEMORY_CORE = 0x80  # its coreId
CORES = 3  # the highest coreId of a compute core
_NUMBERS = frozenset(("coreId", "taskId", "taskIdX", "isMpu"))
Range = tuple[int, int]


class Identity:
    """Answers for one entry; they hold until its blocks change."""

    def __init__(self, function: Function) -> None:
        self._blocks = function.blocks
        self._ends = _post_dominators(function.blocks)
        self.divergent: set[Block] = set()
        self._values: set[Value] = set()
        self._variables: set[Variable] = set()
        self._spread()
        self.numbered = _derived(function.blocks, "coreId")

    def _spread(self) -> None:
        """To the fixed point: values taint branches, branches taint what they lead to."""
        before = -1
        while before != (now := len(self._values) + len(self.divergent) + len(self._variables)):
            before = now
            for block in self._blocks:
                for op in block.ops:
                    self._see(block, op)

    def _see(self, block: Block, op: Op) -> None:
        if self._differs(op, block):
            self._values.update(op.results)
            if op.opcode == "set":
                self._variables.add(op.attrs["variable"])
            if op.opcode == "branch":
                self._part(block)
        for target in op.targets:
            inside = target.block in self.divergent
            pairs = zip(target.block.args, target.args, strict=True)
            self._values.update(arg for arg, value in pairs if inside or value in self._values)

    def _differs(self, op: Op, block: Block) -> bool:
        if op.opcode == "special":
            return op.attrs["name"] in _NUMBERS
        if op.opcode == "get":
            return op.attrs["variable"] in self._variables
        if op.opcode == "set" and block in self.divergent:
            return True
        return any(value in self._values for value in op.operands)

    def _part(self, block: Block) -> None:
        """Everything between the branch and where its ways meet again."""
        end = self._ends.get(block)
        work = list(block.successors)
        while work:
            current = work.pop()
            if current is end:
                self._values.update(current.args)
            elif current not in self.divergent:
                self.divergent.add(current)
                work += current.successors


def _derived(blocks: list[Block], name: str) -> set[Value]:
    """Values computed from a built-in: not those that only depend on it through a branch."""
    found: set[Value] = set()
    variables: set[Variable] = set()
    before = -1
    while before != len(found) + len(variables):
        before = len(found) + len(variables)
        for op in (op for block in blocks for op in block.ops):
            if op.opcode == "special" and op.attrs["name"] == name:
                found.add(op.result)
            elif op.opcode == "get" and op.attrs["variable"] in variables:
                found.update(op.results)
            elif any(value in found for value in op.operands) and op.opcode not in ("branch", *COMPARISONS):
                found.update(op.results)
                if op.opcode == "set":
                    variables.add(op.attrs["variable"])
            for target in op.targets:
                pairs = zip(target.block.args, target.args, strict=True)
                found.update(arg for arg, value in pairs if value in found)
    return found


def _post_dominators(blocks: list[Block]) -> dict[Block, Block]:
    """The nearest block that every way out of a block passes."""
    number = {block: place for place, block in enumerate(blocks)}
    everything = (1 << len(blocks)) - 1
    after = [everything if block.successors else 1 << place for place, block in enumerate(blocks)]
    changed = True
    while changed:
        changed = False
        for place in range(len(blocks) - 1, -1, -1):
            following = blocks[place].successors
            if not following:
                continue
            common = everything
            for block in following:
                common &= after[number[block]]
            new = common | 1 << place
            if new != after[place]:
                after[place], changed = new, True
    found = {}
    for place, block in enumerate(blocks):
        others = [p for p in range(len(blocks)) if after[place] >> p & 1 and p != place]
        # the nearest is passed by the way out of no other candidate's successors: it has the most behind it
        if others:
            found[block] = blocks[max(others, key=lambda p: after[p].bit_count())]
    return found


def reached(function: Function, by_memory_core: bool) -> set[Block]:
    """Blocks that the memory core, or a compute core, can come to."""
    core = (MEMORY_CORE, MEMORY_CORE) if by_memory_core else (0, CORES)
    known = {"isMpu": (int(by_memory_core),) * 2, "coreId": core}
    seen = {function.blocks[0]}
    work = [function.blocks[0]]
    while work:
        last = work.pop().ops[-1]
        targets = [target.block for target in last.targets]
        if last.opcode == "branch":
            truth = _value(last.operands[0], known, 0)
            if truth is not None and (truth[0] > 0 or truth == (0, 0)):
                targets = targets[:1] if truth[0] else targets[1:]
        for block in targets:
            if block not in seen:
                seen.add(block)
                work.append(block)
    return seen


def _value(value: Value, known: dict[str, Range], depth: int) -> Range | None:
    """Bounds of an integer, as far as built-ins tell them."""
    if isinstance(value, Constant):
        return (value.integer, value.integer) if isinstance(value.value, int) else None
    if not isinstance(value, Result) or depth > 12:
        return None
    op = value.op
    if op.opcode == "special":
        return known.get(op.attrs["name"])
    if op.opcode == "cast":
        return _value(op.operands[0], known, depth + 1)
    if op.opcode in ("and", "or", "xor", *COMPARISONS):
        return _binary(op, known, depth)
    return None


def _binary(op: Op, known: dict[str, Range], depth: int) -> Range | None:
    a, b = (_value(operand, known, depth + 1) for operand in op.operands)
    if op.opcode == "and" and (0, 0) in (a, b):
        return (0, 0)
    if a is None or b is None:
        return None
    if op.opcode in COMPARISONS:
        return _compared(op.opcode, a, b)
    if a[0] == a[1] and b[0] == b[1]:
        found = {"and": a[0] & b[0], "or": a[0] | b[0], "xor": a[0] ^ b[0]}[op.opcode]
        return (found, found)
    return None


def _compared(opcode: str, a: Range, b: Range) -> Range | None:
    apart = a[1] < b[0] or b[1] < a[0]
    same = a == b and a[0] == a[1]
    truths = {
        "eq": (same, apart), "ne": (apart, same), "lt": (a[1] < b[0], a[0] >= b[1]),
        "le": (a[1] <= b[0], a[0] > b[1]), "gt": (a[0] > b[1], a[1] <= b[0]),
        "ge": (a[0] >= b[1], a[1] < b[0]),
    }  # fmt: skip
    yes, no = truths[opcode]
    return (1, 1) if yes else (0, 0) if no else None
