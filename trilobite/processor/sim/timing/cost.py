"""The timing classes: one pure function each, (machine, record) to a cost.

Enters: a machine and what an instruction did. Leaves: how long its unit is busy (interval), when its result
is there (latency), and for transfers how many bytes which shared parts carry. T0, T1 and energy read the
same costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from trilobite.processor.isa.address import CORE_SHIFT, split
from trilobite.processor.isa.row import ACC, CODE, GDRAM, LDRAM, NRAM, SRAM, WRAM, Region
from trilobite.processor.machine import Machine
from trilobite.processor.machine.description import Dma, MatrixUnit
from trilobite.processor.machine.noc import routes
from trilobite.processor.sim.record import SCALAR_CLASSES, TensorRecord
from trilobite.processor.sim.timing.arrays import ceil_div, product_cycles
from trilobite.processor.sim.timing.dram import channels_of, dram_bytes, pieces_of, row_bytes

DRAM_SPACES = frozenset((GDRAM, LDRAM, CODE))
Resource = tuple[object, ...]
# Names of a machine's parts, as reports say them.
VECTOR_UNIT, MATRIX_UNIT, IO_DMA, MOVE_DMA = (
    "the vector unit",
    "the matrix unit",
    "the io DMA",
    "the move DMA",
)
DRAIN_FUNCTIONS = "the drain's functions"
BANDWIDTH, IN_FLIGHT = "DRAM bandwidth", "DMA in flight"
PADS = {NRAM: "NRAM", WRAM: "WRAM", ACC: "ACC"}


@dataclass(frozen=True, slots=True)
class Cost:
    """`amount` bytes over `resources` for transfers, which take `alone` cycles with nobody beside them.

    `on_vector_unit` marks formats the MFU lacks. `part` is what decides the interval, `alone_part` what
    decides the rest of `alone`: names of the machine's parts.
    """

    interval: int
    latency: int
    amount: int = 0
    resources: tuple[Resource, ...] = ()
    alone: int = 0
    on_vector_unit: bool = False
    part: str = ""
    alone_part: str = ""


def scalar_latencies(machine: Machine) -> tuple[int, ...]:
    """Cycles of one instruction of each of SCALAR_CLASSES."""
    unit = machine.core.scalar
    return tuple(1 if name == "issue" else getattr(unit, name) for name in SCALAR_CLASSES)


def slowest_pad(machine: Machine, regions: Sequence[Region]) -> tuple[int, str]:
    """The least time the scratchpads need for these bytes, each memory by itself, and which needs it."""
    rates = {NRAM: machine.core.nram.bytes_per_cycle, WRAM: machine.core.wram.bytes_per_cycle,
             ACC: machine.core.acc.bytes_per_cycle}  # fmt: skip
    moved: dict[str, int] = {}
    for region in regions:
        space = split(region.address)[0]
        if space in rates:
            home = NRAM if space == WRAM and machine.core.pool_kib else space  # a pool has one set of ports
            moved[home] = moved.get(home, 0) + region.bytes
    times = [(ceil_div(count, rates[s]), PADS[s]) for s, count in moved.items() if rates[s]]
    return max(times, key=lambda time: time[0], default=(0, ""))


def _slower(cycles: int, unit: str, pad: tuple[int, str]) -> tuple[int, str]:
    """A unit beside the scratchpads that feed it: cycles, at least one, and whose they are."""
    return pad if pad[0] > max(cycles, 1) else (max(cycles, 1), unit)


def _lanes(machine: Machine, size: int) -> int:
    unit = machine.core.vfu
    whole: int = ceil_div(size, unit.granule_bytes) * unit.granule_bytes
    return -(-whole // unit.bytes_per_cycle)


def _vector(machine: Machine, record: TensorRecord, passes: int = 1, extra: int = 0) -> Cost:
    regions = (*record.reads, *record.writes)
    widest = max((region.bytes for region in regions), default=0)
    busy, part = _slower(_lanes(machine, widest) * passes, VECTOR_UNIT, slowest_pad(machine, regions))
    return Cost(busy, busy + machine.core.vfu.latency + extra, part=part)


def vector(machine: Machine, record: TensorRecord) -> Cost:
    return _vector(machine, record)


def vector_divide(machine: Machine, record: TensorRecord) -> Cost:
    return _vector(machine, record, machine.core.vfu.divide_passes)


def vector_function(machine: Machine, record: TensorRecord) -> Cost:
    return _vector(machine, record, machine.core.vfu.transcendental_passes)


def free_functions(mfu: MatrixUnit, rate: str) -> int:
    """Functions at the foot of the array's columns that no sum needs, whatever product of a format runs: in
    a cycle rate / rows sums leave the array. None where sums do not leave by columns."""
    if mfu.geometry == "row-stationary" or rate not in mfu.macs_per_cycle:
        return 0
    busy: int = ceil_div(mfu.macs_per_cycle[rate], mfu.rows)
    return max(0, mfu.cols * mfu.count - busy)


def drain_function(machine: Machine, record: TensorRecord) -> Cost:
    """Elements pass the drain's functions that are free, or the vector unit where that is faster."""
    regions = (*record.reads, *record.writes)
    terms, unit = record.reads[0], machine.core.vfu
    busy, part = _lanes(machine, terms.bytes) * unit.transcendental_passes, VECTOR_UNIT
    free = free_functions(machine.core.mfu, record.formats[0].rate)
    if free and ceil_div(terms.count, free) < busy:
        busy, part = ceil_div(terms.count, free), DRAIN_FUNCTIONS
    busy, part = _slower(busy, part, slowest_pad(machine, regions))
    return Cost(busy, busy + unit.latency, part=part)


def vector_reduce(machine: Machine, record: TensorRecord) -> Cost:
    """One pass, then the tree over the lanes."""
    return _vector(machine, record, 1, machine.core.vfu.bytes_per_cycle.bit_length())


def vector_permute(machine: Machine, record: TensorRecord) -> Cost:
    """Elements cross the lanes: one pass in, one out."""
    return _vector(machine, record, 2)


def vector_sort(machine: Machine, record: TensorRecord) -> Cost:
    """A bitonic network: log n (log n + 1) / 2 passes."""
    steps = (max(record.reads[0].count, 1) - 1).bit_length()
    return _vector(machine, record, max(1, steps * (steps + 1) // 2))


def vector_window(machine: Machine, record: TensorRecord) -> Cost:
    """Every tap passes the lanes once."""
    pads = slowest_pad(machine, (*record.reads, *record.writes))
    busy, part = _slower(_lanes(machine, record.work["bytes"]), VECTOR_UNIT, pads)
    return Cost(busy, busy + machine.core.vfu.latency, part=part)


def matrix(machine: Machine, record: TensorRecord) -> Cost:
    """The array's closed form, or the scratchpads if they are slower; without a rate, on the VFU."""
    mfu, work = machine.core.mfu, record.work
    regions = (*record.reads, *record.writes)
    rate = max((fmt.rate for fmt in record.formats[1:3]), key=lambda name: _slowness(machine, name))
    if rate not in mfu.macs_per_cycle:
        terms = work["m"] * work["n"] * work["taps"] * work["k"] // work["groups"]
        lanes = _lanes(machine, record.formats[1].bytes(terms))
        busy, part = _slower(lanes, VECTOR_UNIT, slowest_pad(machine, regions))
        return Cost(busy, busy + machine.core.vfu.latency, on_vector_unit=True, part=part)
    m, n, k, taps, groups = (work[name] for name in ("m", "n", "k", "taps", "groups"))
    cycles = product_cycles(mfu, rate, m, n, k, taps, groups, work.get("kh", 1), work.get("q", 1))
    busy, part = _slower(cycles, MATRIX_UNIT, slowest_pad(machine, regions))
    return Cost(busy, busy, part=part)


def _slowness(machine: Machine, rate: str) -> float:
    found = machine.core.mfu.macs_per_cycle.get(rate)
    return 1.0 / found if found else 2.0


def transfer(machine: Machine, record: TensorRecord, cluster: int, missing: int | None = None) -> Cost:
    """A copy: own engine, then every shared part on its way. A bus with multicast is crossed once for all.

    With a last-level cache only `missing` bytes pass between it and DRAM.
    """
    ends = (*record.reads[:1], *record.writes[:1])
    spaces = [split(region.address)[0] for region in ends]
    engine = machine.core.io_dma if record.queue == "io" else machine.core.move_dma
    if min(region.count for region in ends) == 0:  # nothing to move: only the engine's own time
        return Cost(1, 1 + engine.setup, part=IO_DMA if record.queue == "io" else MOVE_DMA)
    pieces, piece = pieces_of(ends)
    turns = len(record.writes) if record.timing == "multicast" and not machine.sram.multicast else 1
    streamed = pieces * ceil_div(piece, engine.bytes_per_cycle)
    name = IO_DMA if record.queue == "io" else MOVE_DMA
    each, part = _slower(streamed, name, slowest_pad(machine, ends))
    own = turns * each
    resources, amount, wait = _way(machine, ends, spaces, cluster)
    alone, alone_part = own, ""
    for region, space in zip(ends, spaces, strict=True):
        if space in DRAM_SPACES:
            drawn = amount if missing is None else missing
            rate, slow = _dram_rate(machine, engine, region)
            if ceil(drawn / rate) > alone:
                alone, alone_part = ceil(drawn / rate), slow
    amount = max(amount, turns * ends[0].bytes)
    if missing is not None:
        resources = _cached(resources, missing, amount)
        if missing == 0:
            wait += machine.cycles(machine.llc.latency_ns) - machine.cycles(machine.dram.latency_ns)
    latency = own + engine.setup + wait
    return Cost(own, latency, amount, tuple(resources), alone, part=part, alone_part=alone_part)


def _cached(resources: Sequence[Resource], missing: int, amount: int) -> list[Resource]:
    """The way through a last-level cache: all bytes pass it, and only what it lacks passes DRAM's parts."""
    far = ("dram", "die", "channel")
    near = [part for part in resources if part[0] not in far]
    behind = [("share", part, missing, amount) for part in resources if part[0] in far and missing]
    return [("llc",), *near, *behind]


def contended(machine: Machine, record: TensorRecord, cost: Cost, core: tuple[int, int]) -> Cost:
    """The same with the scratchpads whose banks the units of a core share."""
    pads = {NRAM: machine.core.nram, WRAM: machine.core.wram, ACC: machine.core.acc}
    moved: dict[str, int] = {}
    for region in (*record.reads, *record.writes[:1]):
        space = split(region.address)[0]
        if space in pads and pads[space].contended:
            moved[space] = moved.get(space, 0) + region.bytes
    used = {space: count for space, count in moved.items() if count}
    if not used:
        return cost
    amount = cost.amount if cost.resources else sum(used.values())
    parts = tuple(("share", ("pad", space, *core), count, amount) for space, count in sorted(used.items()))
    return replace(cost, amount=amount, resources=(*cost.resources, *parts), alone=max(cost.alone, 1))


def _dram_rate(machine: Machine, engine: Dma, region: Region) -> tuple[float, str]:
    """The most one engine can draw, and why: its requests under way at a time, or the channels its bytes
    lie in."""
    dram = machine.dram
    in_flight = engine.outstanding * dram.burst_bytes / max(1, machine.cycles(dram.latency_ns))
    channels = machine.dram_bytes_per_cycle * len(channels_of(machine, region)) / dram.channels
    return (in_flight, IN_FLIGHT) if in_flight < channels else (channels, BANDWIDTH)


def _way(
    machine: Machine, ends: Sequence[Region], spaces: Sequence[str | None], cluster: int
) -> tuple[list[Resource], int, int]:
    """Shared parts, bytes they carry, cycles before the first byte."""
    resources: list[Resource] = []
    amount, wait = 0, 0
    homes = []
    for region, space, is_write in zip(ends, spaces, (False, True), strict=False):
        if space in DRAM_SPACES:
            amount = max(amount, dram_bytes(machine, region, is_write) + row_bytes(machine, region))
            parts, hops = _to_dram(machine, region, is_write, cluster)
            resources += parts
            wait = max(wait, machine.cycles(machine.dram.latency_ns) + hops * machine.noc.hop_cycles)
        elif space == SRAM:
            owner = split(region.address)[1]
            homes.append(owner - 1 if owner else cluster)
            resources.append(("sram", homes[-1]))
    if SRAM in spaces and not set(spaces) & DRAM_SPACES and set(spaces) != {SRAM}:
        resources.append(("bus", cluster))
        homes.insert(0 if spaces[1] == SRAM else 1, cluster)  # the core's own end lies in its cluster
    if len(homes) == 2 and homes[0] != homes[1]:
        links = routes(machine.noc, machine.clusters)[homes[0], homes[1]]
        resources += [("link", *link) for link in links]
        wait += machine.noc.hop_cycles * len(links)
    return resources, amount, wait


def _to_dram(machine: Machine, region: Region, is_write: bool, cluster: int) -> tuple[list[Resource], int]:
    """The parts between a cluster and DRAM, and the links passed: the whole memory, the die's own half of it
    where there are several dies, single channels if the bytes lie in a few, the links to the nearest port."""
    parts: list[Resource] = [("dram",)]
    if machine.chips > 1:
        parts.append(("die", cluster * machine.chips // machine.clusters))
    used = channels_of(machine, region)
    if len(used) < machine.dram.channels:
        parts += [("channel", number, len(used)) for number in used]
    if not machine.noc.dram_at:
        return parts, 0
    table = routes(machine.noc, machine.clusters)
    port = min(machine.noc.dram_at, key=lambda place: (len(table[place, cluster]), place))
    links = table[(cluster, port) if is_write else (port, cluster)]
    return [*parts, *(("link", *link) for link in links)], len(links)


def capacity(machine: Machine, resource: Resource) -> float:
    """Bytes per cycle of a shared part."""
    kind = resource[0]
    if kind == "dram":
        return machine.dram_bytes_per_cycle
    if kind == "die":
        return machine.dram_bytes_per_cycle / machine.chips
    if kind == "channel":
        return machine.dram_bytes_per_cycle / machine.dram.channels
    if kind == "llc":
        return float(machine.llc.bytes_per_cycle)
    if kind == "pad":
        return float(
            {NRAM: machine.core.nram, WRAM: machine.core.wram}.get(
                str(resource[1]), machine.core.acc
            ).bytes_per_cycle
        )
    if kind == "sram":
        return float(machine.sram.bytes_per_cycle)
    return float(machine.sram.bus_bytes_per_cycle if kind == "bus" else machine.noc.link_bytes_per_cycle)


CLASSES: dict[str, Callable[[Machine, TensorRecord], Cost]] = {
    "vector": vector, "vector-divide": vector_divide, "vector-function": vector_function,
    "vector-reduce": vector_reduce, "vector-permute": vector_permute, "vector-sort": vector_sort,
    "vector-window": vector_window, "drain-function": drain_function, "matrix": matrix,
}  # fmt: skip


def cost_key(record: TensorRecord, period: int) -> tuple[object, ...]:
    """What a cost depends on: shapes, memories, and where a DRAM region begins within a period."""
    regions = [
        (
            region.address >> CORE_SHIFT,
            region.address % period if split(region.address)[0] in DRAM_SPACES else 0,
            region.shape,
            region.strides,
            region.fmt.code,
        )
        for region in (*record.reads, *record.writes)
    ]
    work = tuple(record.work.values())
    return (record.timing, record.queue, record.formats, work, len(record.reads), *regions)


def is_contended(machine: Machine) -> bool:
    """Whether the units of a core meet in the banks of a scratchpad."""
    return any(pad.contended for pad in (machine.core.nram, machine.core.wram, machine.core.acc))


def cost_of(
    machine: Machine, record: TensorRecord, cluster: int = 0, core: int = 0, missing: int | None = None
) -> Cost:
    """The cost of any instruction of a queue, issued by this core; `missing` bytes are not in the LLC."""
    if record.timing in ("dma", "multicast"):
        cost = transfer(machine, record, cluster, missing)
    else:
        cost = CLASSES[record.timing](machine, record)
    return contended(machine, record, cost, (cluster, core)) if is_contended(machine) else cost


def useful_macs(record: TensorRecord) -> int:
    """Multiply-accumulates that the result needs."""
    if record.timing != "matrix":
        return 0
    work = record.work
    return prod((work["m"], work["n"], work["taps"], work["k"])) // work["groups"]
