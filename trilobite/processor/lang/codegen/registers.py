"""Register allocation: linear scan over the whole function, runs in consecutive registers, the rest spilled.

Enters: a legalised function, and which registers the routines that it calls write. Leaves: for every value a
register (the first of several for a run) or a slot in the frame. `$0` to `$56` are given out; `$57` to `$61`
carry spilled values to and from one instruction; `$62` is the stack, `$63` where a routine returns to. What
lives across calls is in a register that none of them writes, in the frame, or made again. Routines leave the
last few alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from trilobite.base.errors import KernelError
from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.codegen.remake import remake_at_uses
from trilobite.processor.lang.ir import Block, Constant, Function, Op, Result, Value

GIVEN = 57
CALLERS = 4  # the last of them, which no routine writes: values that all of an entry needs
SPILL_REGISTERS = (57, 58, 59, 60, 61)
STACK_POINTER = 62
LINK = 63  # a call leaves here where it was
SPARE = sum(1 << number for number in SPILL_REGISTERS)
ANY = (1 << STACK_POINTER) - 1  # registers that a routine may write of which nothing is known
REMADE = frozenset(("run", "constant", "address", "table", "special"))  # as cheap as a word of the frame
KNOWN = frozenset(("constant", "address", "table"))
REMADE_AS_FAST = 6  # as a word of the frame is read
NEXT = 12  # a run whose last use is no further than this (six operations) has been made for it


@dataclass(slots=True)
class Interval:
    """From the place that defines a value to the last that needs it; `weight` counts uses by loop depth."""

    value: Value
    start: int
    end: int
    width: int = 1
    weight: float = 0.0
    hint: list[Value] = field(default_factory=list)
    barred: int = 0  # registers that calls write while it is needed, a bit for each


@dataclass
class Allocation:
    """`registers` and `slots` (numbers of 8-byte words in the frame) by value; `called`: registers that a
    call of a routine writes, a bit for each."""

    registers: dict[Value, int]
    slots: dict[Value, int]
    intervals: dict[Value, Interval]
    numbers: dict[Op, int]
    spans: dict[Block, tuple[int, int]]
    called: Mapping[str, int] = field(default_factory=dict)

    def written_by(self, call: Op) -> int:
        """Registers that a call may write, a bit for each: also to pass arguments and results."""
        return self.called.get(call.attrs["function"], ANY) | _first(
            max(len(call.operands), len(call.results))
        )

    def written(self, function: Function) -> int:
        """Registers that a call of this function writes."""
        found = SPARE | _first(max(len(function.params), len(function.results)))
        for value, register in self.registers.items():
            found |= _first(self.intervals[value].width) << register
        for op in function.ops():
            if op.opcode == "call":
                found |= self.written_by(op)
        return found


def _first(count: int) -> int:
    return (1 << count) - 1


class _Crowded(Exception):
    """No registers in a row are free for a run: these runs hold them without being needed at once."""

    def __init__(self, runs: list[Op]) -> None:
        super().__init__()
        self.runs = runs


def allocate(function: Function, graph: Graph, called: Mapping[str, int] | None = None) -> Allocation:
    """Linear scan by start; where registers run out the cheapest value goes to the frame. `called`: registers
    that each routine writes, a bit for each.

    A run cannot, so runs that hold too many registers are made again at their uses. Each is so treated
    once: the scan is repeated a few times at most.
    """
    while True:
        numbers, spans = _number(graph)
        intervals = _intervals(function, graph, numbers, spans)
        found = Allocation({}, {}, intervals, numbers, spans, called or {})
        across = _across_calls(found)
        again = [i.value.op for i in across if isinstance(i.value, Result) and _is_cheap(i.value.op)]
        if again:
            remake_at_uses(function, again)
            continue
        scan = _Scan(GIVEN - CALLERS if function.is_routine else GIVEN)
        try:
            for interval in sorted(intervals.values(), key=lambda i: (i.start, -i.width)):
                scan.place(interval)
        except _Crowded as crowd:
            remake_at_uses(function, crowd.runs)
            continue
        known = [v.op for v in scan.slots if isinstance(v, Result) and _is_known(intervals[v], v.op)]
        if known:
            remake_at_uses(function, known)
            continue
        found.registers, found.slots = scan.registers, scan.slots
        return found


def _is_known(interval: Interval, op: Op) -> bool:
    """Is it a number that an instruction has as an immediate, made long before its uses? To make it again
    takes a sixth of the time of a word of the frame."""
    return op.opcode in KNOWN and interval.end - interval.start > NEXT


def _is_cheap(op: Op) -> bool:
    """Is it as fast to make again as to read from the frame? So is what lies a known number of bytes behind
    another value."""
    return op.opcode in REMADE or (op.opcode == "offset" and isinstance(op.operands[1], Constant))


def _across_calls(a: Allocation) -> list[Interval]:
    """What is defined before some call and needed behind it; from now on barred from what these write."""
    calls = sorted((number, a.written_by(op)) for op, number in a.numbers.items() if op.opcode == "call")
    if not calls:
        return []
    places = [number for number, _ in calls]
    found = []
    for interval in a.intervals.values():
        first, end = bisect_right(places, interval.start), bisect_left(places, interval.end)
        if first < end:
            interval.barred = reduce(or_, (written for _, written in calls[first:end]))
            found.append(interval)
    return found


def _number(graph: Graph) -> tuple[dict[Op, int], dict[Block, tuple[int, int]]]:
    """Even numbers for operations, so that a use and a definition at one place do not collide."""
    numbers: dict[Op, int] = {}
    spans: dict[Block, tuple[int, int]] = {}
    at = 0
    for block in graph.order:
        first = at
        at += 2
        for op in block.ops:
            numbers[op] = at
            at += 2
        spans[block] = (first, at)
    return numbers, spans


def live_out(graph: Graph) -> dict[Block, set[Value]]:
    """Values that are needed behind each block."""
    needs: dict[Block, set[Value]] = {}
    makes: dict[Block, set[Value]] = {}
    for block in graph.order:
        needed, made = needs[block], makes[block] = set[Value](), set[Value](block.args)
        for op in block.ops:
            if op.opcode != "note":
                for value in op.uses():
                    if value not in made and not isinstance(value, Constant):
                        needed.add(value)
            made.update(op.results)
    into = {block: set(needs[block]) for block in graph.order}
    out: dict[Block, set[Value]] = {block: set() for block in graph.order}
    changed = True
    while changed:
        changed = False
        for block in reversed(graph.order):
            for following in block.successors:
                out[block] |= into[following] - set(following.args)
            new = out[block] - makes[block] - into[block]
            if new:
                into[block] |= new
                changed = True
    return out


def _intervals(
    function: Function, graph: Graph, numbers: dict[Op, int], spans: dict[Block, tuple[int, int]]
) -> dict[Value, Interval]:
    found: dict[Value, Interval] = {}
    depth = {block: loop.depth for block, loop in graph.innermost().items()}

    def touch(value: Value, at: int, weight: float = 0.0) -> None:
        known = found.get(value)
        if known is None:
            op = getattr(value, "op", None)
            width = op.attrs.get("width", 1) if op is not None else 1
            known = found[value] = Interval(value, at, at, width)
        elif at > known.end:
            known.end = at
        elif at < known.start:
            known.start = at
        known.weight += weight

    out = live_out(graph)
    for block in graph.order:
        first, last = spans[block]
        cost = 8.0 ** depth.get(block, 0)
        for arg in block.args:
            touch(arg, first, cost)
            touch(arg, first + 1)  # two arguments never share a register, needed or not
        for op in block.ops:
            _touch_op(op, numbers[op], cost, touch)
        for value in out[block]:
            touch(value, last)
        _extend_into(graph, block, spans, found, out)
        _hints(block, found)
    return found


def _touch_op(op: Op, at: int, cost: float, touch: object) -> None:
    assert callable(touch)
    if op.opcode == "note":
        return
    for value in op.uses():
        if not isinstance(value, Constant):
            touch(value, at, cost)
    for value in op.results:
        # A run's registers are written one by one, so they must be free before its operands die.
        touch(value, at if op.opcode == "run" else at + 1, cost)


def _extend_into(
    graph: Graph,
    block: Block,
    spans: dict[Block, tuple[int, int]],
    found: dict[Value, Interval],
    out: dict[Block, set[Value]],
) -> None:
    """What is live out of a predecessor and not passed as an argument is live from this block's start."""
    first = spans[block][0]
    for before in graph.predecessors[block]:
        for value in out[before]:
            known = found.get(value)
            if known is not None and known.start > first and value not in block.args:
                known.start = first


def _hints(block: Block, found: dict[Value, Interval]) -> None:
    for target in block.ops[-1].targets:
        for arg, value in zip(target.block.args, target.args, strict=True):
            if value in found:
                found[value].hint.append(arg)
            if arg in found and not isinstance(value, Constant):
                found[arg].hint.append(value)
    for op in block.ops:
        if op.opcode in ("cast", "offset", "add", "sub") and op.operands[0] in found:
            found[op.result].hint.append(op.operands[0])


def _loss(interval: Interval) -> float:
    """What spilling it costs for the room that it gives: a known number is made again instead."""
    op = getattr(interval.value, "op", None)
    weight = interval.weight / REMADE_AS_FAST if op is not None and op.opcode in KNOWN else interval.weight
    return weight / (interval.end - interval.start + 1)


class _Scan:
    """The registers in use while the scan moves on."""

    def __init__(self, given: int) -> None:
        self.given = given
        self.registers: dict[Value, int] = {}
        self.slots: dict[Value, int] = {}
        self.active: list[Interval] = []
        self.frame = 0

    def place(self, new: Interval) -> None:
        self.active = [i for i in self.active if i.end > new.start or (i.end == new.start and new.width > 1)]
        while True:
            chosen = self._free(new)
            if chosen is not None:
                self.registers[new.value] = chosen
                self.active.append(new)
                return
            victim = self._victim(new)
            if victim is new:
                self.spill(new)
                return
            self.active.remove(victim)
            del self.registers[victim.value]
            self.spill(victim)

    def _free(self, new: Interval) -> int | None:
        busy = new.barred  # a bit for every register
        for interval in self.active:
            busy |= ((1 << interval.width) - 1) << self.registers[interval.value]
        if new.width == 1:
            for value in new.hint:
                at = self.registers.get(value)
                if at is not None and not busy >> at & 1:
                    return at
            lowest = (~busy & (busy + 1)).bit_length() - 1
            return lowest if lowest < self.given else None
        wanted = (1 << new.width) - 1
        return next((p for p in range(self.given - new.width, -1, -1) if not busy >> p & wanted), None)

    def _victim(self, new: Interval) -> Interval:
        """The value whose spilling costs least; a run is never spilled."""
        if new.width == 1:
            others = (
                i for i in self.active if i.width == 1 and not new.barred >> self.registers[i.value] & 1
            )
            return min((*others, new), key=_loss)
        choices = [i for i in self.active if i.width == 1]
        if not choices:
            raise self._crowded(new)
        return min(choices, key=_loss)

    def _crowded(self, new: Interval) -> Exception:
        """The cheaper half of the runs that were made before they are needed."""
        waiting = [i for i in (*self.active, new) if i.width > 1 and i.end - i.start > NEXT]
        waiting.sort(key=lambda i: i.weight / (i.end - i.start))
        runs = [i.value.op for i in waiting[: (len(waiting) + 1) // 2] if isinstance(i.value, Result)]
        if runs:
            return _Crowded(runs)
        return KernelError(
            f"an instruction needs {new.width} registers in a row, and its other operands hold the rest",
            where=getattr(getattr(new.value, "op", None), "location", None),
            expected=f"at most {self.given} registers for the runs of one instruction",
            remedy="use an operation with fewer operands",
        )

    def spill(self, interval: Interval) -> None:
        self.slots[interval.value] = self.frame
        self.frame += 1
