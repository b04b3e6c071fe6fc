"""Values that stay on chip from the group that makes them to those that read them.

Enters: a graph of fusions, a machine, a number of cores. Leaves: a `Near`: which values have a home on chip,
where it begins, and how much memory all of them take. Contractions read and write such values, as the left
operand, as what is added to its sums, as the result; so does pooling, in SRAM. Several clusters have a part
of a value each, cut along its rows; a single core keeps values in NRAM. Everything else goes through DRAM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

from trilobite.compiler.targets.dlp.arena import Arena
from trilobite.compiler.targets.dlp.blocks import blocks_of_values
from trilobite.compiler.targets.dlp.contracted import contracted, is_like, is_move, readers_of
from trilobite.compiler.targets.dlp.contraction.mapping import aligned
from trilobite.compiler.targets.dlp.contraction.sharing import is_connected
from trilobite.compiler.targets.dlp.expand.windows import pooling_of
from trilobite.compiler.targets.dlp.interfaces import Home, Place
from trilobite.compiler.targets.dlp.kernels.pooling import can_stay
from trilobite.compiler.targets.dlp.layouts import Order, result_order, row_major, wanted_orders
from trilobite.compiler.targets.dlp.parts import bytes_of
from trilobite.compiler.targets.dlp.problems import result_groups
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.processor.lang.ir import Buffer
from trilobite.processor.lang.scratchpad import room_of
from trilobite.processor.machine import Machine

SHARE = 2  # of the memory at most this part keeps values; tiles take the rest
GRAIN = 32 << 10  # bytes by which groups have less room: few sizes, so that equal groups stay equal


@dataclass(frozen=True)
class Near:
    """Homes of values and where they lie in a buffer of that memory; and for what a group makes the bytes
    that are taken while it runs. In NRAM the buffer lies at the end of what groups may fill, and values from
    its end on: a group that runs while nothing is there has all of it. In SRAM it lies at the beginning; what
    a group does not need of it may hold what is prefetched (`parts_of`)."""

    homes: dict[Var, Home] = field(default_factory=dict)
    offsets: dict[Var, int] = field(default_factory=dict)
    taken: dict[Var, int] = field(default_factory=dict)
    buffer: Buffer | None = None
    parts: tuple[Buffer, ...] = ()  # of a buffer, in the order in which values take them
    blocks: Near | None = None  # beside values in SRAM: those of which every core has a block in its NRAM

    def home(self, v: Var) -> Home | None:
        found = self.homes.get(v)
        return self.blocks.home(v) if found is None and self.blocks is not None else found

    def place(self, v: Var) -> Place | None:
        if v in self.homes:
            return Place(self.homes[v].space, 0, self.offsets[v])
        return self.blocks.place(v) if self.blocks is not None else None

    @property
    def buffers(self) -> list[Buffer]:
        """Of all memories that keep values."""
        own = [] if self.buffer is None else [self.buffer]
        return own if self.blocks is None else own + self.blocks.buffers

    def parts_of(self, e: Equation) -> tuple[Buffer, ...]:
        """Those that hold something while a group runs, or while others run behind it that leave WRAM and
        SRAM alone: these do not say what they need."""
        taken = self.taken.get(e.outputs[0]) if e.outputs else None
        own = tuple(b for n, b in enumerate(self.parts) if taken is None or n * GRAIN < taken)
        return own if self.blocks is None else own + self.blocks.parts_of(e)

    def machine_of(self, machine: Machine, e: Equation | None = None) -> Machine:
        """The machine with the memory that is left to a group."""
        if self.blocks is not None:
            machine = self.blocks.machine_of(machine, e)
        if self.buffer is not None and self.buffer.space == "sram":
            kib = -(-self.buffer.bytes // 1024)
            return replace(machine, sram=replace(machine.sram, reserved_kib=machine.sram.reserved_kib + kib))
        taken = self.taken.get(e.outputs[0], 0) if e is not None else 0
        if not taken:
            return machine
        nram = replace(machine.core.nram, reserved_kib=machine.core.nram.reserved_kib + taken // 1024)
        return replace(machine, core=replace(machine.core, nram=nram))


def near_values(graph: Graph, machine: Machine, cores: int) -> Near:
    """What stays on chip: in the order in which values are made, as long as there is room."""
    memory = _memory(machine, cores)
    if memory is None:
        return Near()
    if memory.space == "nram":
        return _near_core(graph, machine, memory)
    found = blocks_of_values(graph, machine, memory.clusters)
    blocks = _near_blocks(graph, machine, found) if found else Near()
    readers = readers_of(graph)

    def home(e: Equation, v: Var) -> Home | None:
        if v in graph.outputs or v in blocks.homes:
            return None
        return _home(e, v, readers.get(v, ()), machine, memory, False)

    made = _placed(graph, memory.room, home)
    if not made.homes:
        return blocks
    whole = Buffer("near", "sram", made.peak, offset=0, handed=True)
    own = Near(made.homes, made.offsets, _behind(graph, made.taken), whole, _in_parts(whole))
    return replace(own, blocks=blocks) if blocks.homes else own


def _near_core(graph: Graph, machine: Machine, memory: _Memory) -> Near:
    """Of a single core: what lies whole in its NRAM."""
    readers, among = readers_of(graph), _Among(graph, machine)

    def home(e: Equation, v: Var) -> Home | None:
        is_result = v in graph.outputs
        if not among(e, v) or (is_result and not _is_cut(e, v, machine)):
            return None
        return _home(e, v, readers.get(v, ()), machine, memory, is_result)

    made = _placed(graph, memory.room, home)
    return _in_nram(made, machine, "near") if made.homes else Near()


def _near_blocks(graph: Graph, machine: Machine, found: Mapping[Var, Home]) -> Near:
    """Of many cores: values that lie in blocks in their NRAMs."""
    among = _Among(graph, machine)
    made = _placed(graph, _room(machine, "nram"), lambda e, v: found.get(v) if among(e, v) else None)
    if not made.homes:
        return Near()
    near = _in_nram(made, machine, "blocks")
    assert near.buffer is not None
    return replace(near, taken=_behind(graph, near.taken), parts=_in_parts(near.buffer))


def _in_nram(made: _Placed, machine: Machine, name: str) -> Near:
    size, end = made.peak, room_of(machine, "nram")
    back = {v: size - at - aligned(_size(v, made.homes[v])) for v, at in made.offsets.items()}
    return Near(made.homes, back, made.taken, Buffer(name, "nram", size, offset=end - size, handed=True))


@dataclass
class _Placed:
    """Homes, where they begin, bytes that are taken while the group of a value runs, and at most."""

    homes: dict[Var, Home] = field(default_factory=dict)
    offsets: dict[Var, int] = field(default_factory=dict)
    taken: dict[Var, int] = field(default_factory=dict)
    peak: int = 0


def _placed(graph: Graph, room: int, home_of: Callable[[Equation, Var], Home | None]) -> _Placed:
    """Values that have a home, in the order in which they are made, as long as there is room."""
    last, arena, ends, made = _last_readers(graph), Arena(), dict[int, list[Var]](), _Placed()
    for i, e in enumerate(graph.equations):
        for v in e.outputs:
            home = home_of(e, v)
            if home is None or not arena.has_room(_size(v, home), room):
                continue
            made.homes[v], made.offsets[v] = home, arena.take(_size(v, home))
            ends.setdefault(last[v], []).append(v)
        if e.outputs:
            made.taken[e.outputs[0]] = -(-arena.top // GRAIN) * GRAIN
        for v in ends.pop(i, ()):
            arena.give(made.offsets[v], _size(v, made.homes[v]))
    made.peak = arena.peak
    return made


def _last_readers(graph: Graph) -> dict[Var, int]:
    last = {v: i for i, e in enumerate(graph.equations) for v in e.inputs}
    return last | dict.fromkeys(graph.outputs, len(graph.equations) - 1)


def _in_parts(whole: Buffer) -> tuple[Buffer, ...]:
    """In the order in which values take them: from the beginning of SRAM, from the end of NRAM."""
    size, first = whole.bytes, whole.offset or 0
    found = []
    for number, at in enumerate(range(0, size, GRAIN)):
        some = min(GRAIN, size - at)
        offset = first + at if whole.space == "sram" else first + size - at - some
        found.append(Buffer(f"{whole.name}.{number}", whole.space, some, offset=offset, handed=True))
    return tuple(found)


def _behind(graph: Graph, taken: dict[Var, int]) -> dict[Var, int]:
    """What is taken while a group runs, or while those behind it do up to the next contraction."""
    found, most = dict[Var, int](), 0
    for e in reversed(graph.equations):
        if not e.outputs:
            continue
        own = taken[e.outputs[0]]
        found[e.outputs[0]] = max(own, most)
        is_contraction = e.primitive.name == "fusion" and e.attributes["kind"] == "contraction"
        most = 0 if is_contraction else max(own, most)
    return found


class _Among:
    """Is a value read by groups alone that follow its own without others between, which may want all of
    NRAM?"""

    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.last, self.others, count = _last_readers(graph), dict[int, int](), 0
        self.number = {id(e): i for i, e in enumerate(graph.equations)}
        for i, e in enumerate(graph.equations):
            is_nothing = e.primitive.name == "constant" or e.attributes["kind"] == "alias"
            count += not is_nothing and contracted(e, machine) is None
            self.others[i] = count

    def __call__(self, e: Equation, v: Var) -> bool:
        return v in self.last and self.others[self.last[v]] == self.others[self.number[id(e)]]


@dataclass(frozen=True)
class _Memory:
    """Which memory keeps values, of how many clusters, and how many bytes of each."""

    space: Literal["nram", "sram"]
    clusters: int
    room: int


def _memory(machine: Machine, cores: int) -> _Memory | None:
    """None if there is none."""
    if cores == 1 and not machine.core.pool_kib:
        return _Memory("nram", 1, _room(machine, "nram"))
    room = room_of(machine, "sram") // SHARE
    if cores == 1 or room <= 0:
        return None
    clusters = cores // machine.cores_per_cluster
    if clusters > 1 and not is_connected(machine):
        return None
    return _Memory("sram", clusters, room)


def _room(machine: Machine, space: str) -> int:
    return room_of(machine, space) // SHARE // GRAIN * GRAIN


def _size(v: Var, home: Home) -> int:
    if home.blocks is not None:
        return bytes_of(v) // prod(home.blocks)
    return home.part if home.clusters > 1 else bytes_of(v)


def _is_cut(e: Equation, v: Var, machine: Machine) -> bool:
    """A result whose rows begin inside DRAM's granules: tiles of it would write them in parts, so it is made
    on chip and leaves in one piece."""
    shape = extents(v)
    is_rows = e.primitive.name == "fusion" and e.attributes["kind"] == "contraction" and len(shape) == 2
    return is_rows and shape[0] > 1 and shape[1] * v.type.dtype.itemsize % machine.dram.granule_bytes != 0


def _home(
    e: Equation, v: Var, readers: Sequence[Equation], machine: Machine, memory: _Memory, is_result: bool
) -> Home | None:
    """The home of a value that a group makes for these readers, if all of them can do with one."""
    head = _head(e, machine, memory)
    if head is None or not (readers or is_result) or len(e.outputs) != 1 or not bytes_of(v):
        return None
    order = result_order(head, wanted_orders(head, [row_major(len(x.type.shape)) for x in head.inputs]))
    unit = _unit(head, head.outputs[0], v)
    if is_result and order != row_major(len(order)):
        return None
    if unit is None or any(_unit_read(r, v, order, machine, memory) != unit for r in readers):
        return None
    if memory.clusters == 1:
        return Home(memory.space)
    rows = bytes_of(v) // unit
    if rows == 1:  # readers may take it for one number an output, which has no home
        return None
    return Home(memory.space, memory.clusters, -(-rows // memory.clusters) * unit)


def _head(e: Equation, machine: Machine, memory: _Memory) -> Equation | None:
    """The product, convolution or pooling of a group that makes a value which may stay on chip."""
    plan = contracted(e, machine)
    return _pooling(e, machine, memory) if plan is None else plan.equation


def _pooling(e: Equation, machine: Machine, memory: _Memory) -> Equation | None:
    """Of a group that is nothing else, and takes its rows from SRAM."""
    if e.primitive.name != "fusion" or e.attributes["kind"] != "single" or memory.space != "sram":
        return None
    head: Equation = e.attributes["region"].equations[-1]
    found = pooling_of(head) if head.primitive.name == "window_reduce" else None
    cores = memory.clusters * machine.cores_per_cluster
    return head if found is not None and can_stay(found, machine, cores) else None


def _unit_read(reader: Equation, v: Var, order: Order, machine: Machine, memory: _Memory) -> int | None:
    """Bytes that must lie in one piece for a reader of the value; None if it cannot read it on chip."""
    plan = contracted(reader, machine)
    if plan is None:
        pooled = _pooling(reader, machine, memory)
        is_placed = pooled is not None and wanted_orders(pooled, [order])[0] == order
        return _unit(pooled, pooled.inputs[0], v) if pooled is not None and is_placed else None
    region: Graph = reader.attributes["region"]
    own = [r for r, x in zip(region.inputs, reader.inputs, strict=True) if x is v]
    head, units = plan.equation, set[int | None]()
    orders = [row_major(len(x.type.shape)) for x in head.inputs]
    for r in own:
        if r is head.inputs[1] or any(r in x.inputs for x in region.equations if is_move(x)):
            return None
        if r is head.inputs[0]:
            units.add(_unit(head, r, v) if wanted_orders(head, [order, orders[1]])[0] == order else None)
        if r in plan.operands:
            units.add(_unit(head, head.outputs[0], v) if is_like(head, r, order) else None)
    return units.pop() if len(units) == 1 else None


def _unit(head: Equation, x: Var, v: Var) -> int | None:
    """Bytes of a value that a tile never cuts: a row, or a whole image where there are several; `x` is what
    it is for the product or convolution."""
    shape, item = extents(x), v.type.dtype.itemsize
    if head.primitive.name in ("conv", "window_reduce"):
        if len(shape) != 4:
            return None
        return prod(shape[1:]) * item if shape[0] > 1 else shape[1] * shape[3] * item
    contract, batch = head.attributes["contract"][0], head.attributes["batch"][0]
    if batch or tuple(contract) != (len(head.inputs[0].type.shape) - 1,) or len(result_groups(head)[2]) != 1:
        return None
    return shape[-1] * item
