"""What a deep-learning processor is, as frozen dataclasses.

Enters: figures of a part (from YAML or from Python). Leaves: a `Machine` whose parts have been checked.
It holds no behaviour beyond unit conversions; timing and execution read it and never write it.
Fields with a default are our own choice wherever the part's makers publish nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

DEFAULT = "dlp-m"  # the machine of commands that are told none
PARTS = (
    "mlu370-x4",
    "mlu590",
)  # the parts that BANG C is written for, where a source does not fit the default
RATE_FORMATS = ("int4", "int8", "fp8", "int16", "fp16", "bf16", "tf32", "fp32")
GEOMETRIES = ("systolic-ws", "systolic-os", "adder-tree", "row-stationary")
NOC_KINDS = ("none", "ring", "mesh", "torus", "links")
INTERLOCKS = ("ranges", "none")
GATINGS = ("none", "weights", "activations", "both")
# Products that one multiplier makes a cycle, where a unit states nothing else: an int8 one makes two of int4.
FACTORS: Mapping[str, float] = MappingProxyType({"int4": 2.0})


@dataclass(frozen=True)
class Scratchpad:
    """An on-chip memory. `reserved_kib` at its top hold the stack and spills.

    `fifo_tiles` of WRAM is how many loads of weights can be ahead of the products that use them. With
    `contended` the units of a core that use the memory at the same time share its bytes per cycle, for their
    accesses meet in its banks; without it every unit finds its banks free.
    """

    kib: int
    banks: int = 1
    bytes_per_cycle: int = 0
    reserved_kib: int = 0
    fifo_tiles: int = 0
    contended: bool = False

    @property
    def bytes(self) -> int:
        return self.kib * 1024


@dataclass(frozen=True)
class MatrixUnit:
    """The MFU: `count` arrays of rows x cols. For an adder tree rows are inputs (a_C), cols outputs (a_K).

    A rate follows from the geometry: at most rows x cols x count x the format's factor (`factors`, else
    `FACTORS`). In a row-stationary array every element convolves one row of inputs with one row of a filter
    and keeps both in a register file of `register_bytes`. Without `geometry_published` the shape is a guess,
    and nobody may sweep over it. `sparse` stands for weights of which two of every four are zero and are
    skipped; `zero_gating` names operands whose zeros cost no energy (how many, `Activity` says).
    """

    geometry: str
    rows: int
    cols: int
    macs_per_cycle: Mapping[str, int]
    weight_buffers: int = 1
    count: int = 1
    first_layer_fold: bool = False
    factors: Mapping[str, float] = field(default_factory=dict)
    geometry_published: bool = True
    sparse: bool = False
    zero_gating: str = "none"
    register_bytes: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "macs_per_cycle", MappingProxyType(dict(self.macs_per_cycle)))
        object.__setattr__(self, "factors", MappingProxyType(dict(self.factors)))

    def factor(self, rate_format: str) -> float:
        """Products of a format that one multiplier makes a cycle."""
        return float(self.factors.get(rate_format, FACTORS.get(rate_format, 1.0)))

    def __hash__(self) -> int:
        rates = tuple(sorted(self.macs_per_cycle.items()))
        factors = tuple(sorted(self.factors.items()))
        shape = (self.geometry, self.rows, self.cols, self.weight_buffers, self.count)
        return hash((shape, rates, factors, self.sparse, self.zero_gating, self.register_bytes))

    def __reduce__(self) -> tuple[object, ...]:
        return (
            MatrixUnit,
            (
                self.geometry,
                self.rows,
                self.cols,
                dict(self.macs_per_cycle),
                self.weight_buffers,
                self.count,
                self.first_layer_fold,
                dict(self.factors),
                self.geometry_published,
                self.sparse,
                self.zero_gating,
                self.register_bytes,
            ),
        )


@dataclass(frozen=True)
class VectorUnit:
    """The VFU: bytes of one operand per cycle; operand sizes are rounded up to the granule."""

    bytes_per_cycle: int
    granule_bytes: int = 128
    latency: int = 8
    divide_passes: int = 4
    transcendental_passes: int = 8


@dataclass(frozen=True)
class ScalarUnit:
    """Result latencies in cycles; issue is one instruction a cycle, in order."""

    add: int = 2
    multiply: int = 4
    divide16: int = 8
    divide: int = 16
    transcendental: int = 18
    branch: int = 4
    scratchpad: int = 12
    dram: int = 200
    atomic: int = 200


@dataclass(frozen=True)
class Dma:
    bytes_per_cycle: int
    outstanding: int = 1
    setup: int = 16


@dataclass(frozen=True)
class Queues:
    depth: int = 16
    dispatch: int = 1


@dataclass(frozen=True)
class InstructionCache:
    """What a core fetches its instructions from; 0 KiB stands for a memory that is always in time."""

    kib: int = 0
    line_bytes: int = 64


@dataclass(frozen=True)
class Core:
    nram: Scratchpad
    wram: Scratchpad
    mfu: MatrixUnit
    vfu: VectorUnit
    io_dma: Dma
    move_dma: Dma
    acc: Scratchpad = Scratchpad(0)
    queues: Queues = Queues()
    scalar: ScalarUnit = ScalarUnit()
    gprs: int = 64
    pool_kib: int = 0  # of one memory that NRAM and WRAM are parts of, with NRAM's ports; 0: they are two
    fetch: InstructionCache = InstructionCache()


@dataclass(frozen=True)
class SharedMemory:
    """The cluster's SRAM, its bus to the cores, and whether one bus transfer may reach several cores."""

    kib: int = 0
    reserved_kib: int = 0
    banks: int = 1
    bytes_per_cycle: int = 0
    bus_bytes_per_cycle: int = 0
    multicast: bool = False

    @property
    def bytes(self) -> int:
        return self.kib * 1024


@dataclass(frozen=True)
class Noc:
    """The network between clusters. Kind `links` names every link as a pair of cluster numbers.

    `dram_at` names the clusters beside which DRAM is attached: others reach it over the links. Without it
    every cluster has a way of its own.
    """

    kind: str = "none"
    shape: tuple[int, ...] = ()
    link_bytes_per_cycle: int = 0
    hop_cycles: int = 0
    links: tuple[tuple[int, int], ...] = ()
    dram_at: tuple[int, ...] = ()


@dataclass(frozen=True)
class Dram:
    """Off-chip memory of the whole part; `efficiency` stands for refresh and turnaround.

    With `row_bytes` it has rows as well: a transfer opens every row that it touches, `row_ns` each, `banks`
    of them at a time; all channels open theirs together. Every `refresh_interval_ns` it is away for
    `refresh_ns`. What `efficiency` then still stands for is turnaround alone.
    """

    gb_per_s: float
    channels: int = 1
    latency_ns: float = 100.0
    efficiency: float = 0.85
    granule_bytes: int = 64
    burst_bytes: int = 512
    gib: int = 16
    row_bytes: int = 0
    banks: int = 1
    row_ns: float = 0.0
    refresh_interval_ns: float = 0.0
    refresh_ns: float = 0.0


@dataclass(frozen=True)
class LastLevelCache:
    """Between the clusters and DRAM, for the whole part; 0 KiB if there is none."""

    kib: int = 0
    line_bytes: int = 512
    bytes_per_cycle: int = 0
    latency_ns: float = 40.0


@dataclass(frozen=True)
class Launch:
    """What the host pays before the first instruction of a launch, and between rounds of tasks."""

    overhead_ns: float = 5000.0
    round_ns: float = 500.0


@dataclass(frozen=True)
class HostLink:
    """The way between the host's memory and DRAM; 0 GB/s where none is described."""

    gb_per_s: float = 0.0
    latency_ns: float = 0.0

    def seconds(self, moved: int, transfers: int = 1) -> float:
        """So many bytes in so many transfers, one after the other; 0 without a link."""
        if not self.gb_per_s:
            return 0.0
        return moved / (self.gb_per_s * 1e9) + transfers * self.latency_ns * 1e-9


@dataclass(frozen=True)
class Activity:
    """Shares of zeros in what a matrix unit multiplies: an assumption about data, for energy."""

    zero_weights: float = 0.0
    zero_activations: float = 0.0


@dataclass(frozen=True)
class Power:
    """Published whole-part figures; 0 where none is published."""

    idle_watts: float = 0.0
    busy_watts: float = 0.0
    tdp_watts: float = 0.0
    area_mm2: float = 0.0


@dataclass(frozen=True)
class Machine:
    """A whole part: `chips` dies with `clusters` clusters in all, each die with its share of DRAM."""

    __trilobite_target__: ClassVar[str] = "dlp"  # `tb.jit(f, target=machine)`

    name: str
    clock_ghz: float
    core: Core
    dram: Dram
    process_nm: int = 16
    interlock: str = "none"
    chips: int = 1
    clusters: int = 1
    cores_per_cluster: int = 1
    memory_core: bool = False
    barrier_cycles: int = 8  # from the last that comes to a barrier until all go on
    sram: SharedMemory = SharedMemory()
    noc: Noc = Noc()
    llc: LastLevelCache = LastLevelCache()
    launch: Launch = Launch()
    power: Power = Power()
    host: HostLink = HostLink()
    activity: Activity = Activity()
    note: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        from trilobite.processor.machine.validate import validate

        validate(self)

    @property
    def cores(self) -> int:
        return self.clusters * self.cores_per_cluster

    @property
    def dram_bytes_per_cycle(self) -> float:
        """Sustained bytes per core clock cycle, after the efficiency."""
        dram = self.dram
        away = dram.refresh_ns / dram.refresh_interval_ns if dram.refresh_interval_ns else 0.0
        return dram.gb_per_s / self.clock_ghz * dram.efficiency * (1 - away)

    def peak_ops(self, rate_format: str) -> float:
        """Multiply and add counted apart, per second, for the whole part; 0 if the MFU lacks the format."""
        return 2e9 * self.core.mfu.macs_per_cycle.get(rate_format, 0) * self.cores * self.clock_ghz

    def ridge(self, rate_format: str) -> float:
        """Operations per DRAM byte above which the matrix unit, not the memory, is the bound."""
        return self.peak_ops(rate_format) / (self.dram_bytes_per_cycle * self.clock_ghz * 1e9)

    def cycles(self, nanoseconds: float) -> int:
        """A time in whole core cycles, rounded up."""
        whole = int(nanoseconds * self.clock_ghz)
        return whole + (whole < nanoseconds * self.clock_ghz)
