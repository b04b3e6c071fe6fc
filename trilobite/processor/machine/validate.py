"""Refuses machines that could not exist, each with the field, what was expected and what to do.

Enters: a `Machine`. Leaves: nothing, or a `MachineError`. It does not judge whether a machine is a good one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from trilobite.base.errors import MachineError
from trilobite.processor.machine.description import (
    GEOMETRIES,
    INTERLOCKS,
    NOC_KINDS,
    RATE_FORMATS,
    Machine,
    MatrixUnit,
    Noc,
    Scratchpad,
    SharedMemory,
)
from trilobite.processor.machine.noc import places, unreachable
from trilobite.processor.machine.validate_options import check_options, check_rates

OFFSET_BITS = 40  # of an address
MOST_BYTES = 1 << OFFSET_BITS  # of one memory

# Zero is a meaning of its own in these fields ("there is none", "nothing published").
ZERO_ALLOWED = frozenset(
    {
        "kib",
        "reserved_kib",
        "bytes_per_cycle",
        "bus_bytes_per_cycle",
        "fifo_tiles",
        "link_bytes_per_cycle",
        "hop_cycles",
        "latency",
        "setup",
        "overhead_ns",
        "round_ns",
        "latency_ns",
        "idle_watts",
        "busy_watts",
        "tdp_watts",
        "area_mm2",
        "dispatch",
        "pool_kib",
        "register_bytes",
        "row_bytes",
        "row_ns",
        "refresh_interval_ns",
        "refresh_ns",
        "zero_weights",
        "zero_activations",
        "host.gb_per_s",  # a path: DRAM has to have some
    }
)


def validate(machine: Machine) -> None:
    _check_numbers(machine)
    _check_choice(machine.name, "interlock", machine.interlock, INTERLOCKS)
    core = machine.core
    memories: dict[str, Scratchpad | SharedMemory] = {
        "core.nram": core.nram,
        "core.wram": core.wram,
        "core.acc": core.acc,
        "sram": machine.sram,
    }
    for label, pad in memories.items():
        _check_reach(machine.name, label, pad.bytes)
        _check_memory(machine.name, label, pad)
    _check_reach(machine.name, "dram.gib", machine.dram.gib << 30)
    _check_present(machine)
    _check_caches(machine)
    _check_matrix_unit(machine.name, core.mfu)
    check_rates(machine.name, core.mfu)
    check_options(machine)
    _check_clusters(machine)
    _check_noc(machine.name, machine.noc, machine.clusters)
    if not 0 < machine.dram.efficiency <= 1:
        raise MachineError(
            f"a DRAM efficiency of {machine.dram.efficiency} is impossible",
            where=f"{machine.name}: dram.efficiency",
            expected="a fraction above 0 and at most 1",
            remedy="give the sustained share of the peak bandwidth, for example 0.85",
        )
    if core.gprs != 64:
        raise MachineError(
            f"{core.gprs} general-purpose registers cannot be encoded",
            where=f"{machine.name}: core.gprs",
            expected="64",
            remedy="leave the field out; instruction words name registers by six bits",
        )


def _numbers(value: object, path: str) -> Iterator[tuple[str, str, float]]:
    for item in fields(value):  # type: ignore[arg-type]
        inner = getattr(value, item.name)
        here = f"{path}.{item.name}".lstrip(".")
        if is_dataclass(inner):
            yield from _numbers(inner, here)
        elif isinstance(inner, (int, float)) and not isinstance(inner, bool):
            yield item.name, here, inner


def _check_numbers(machine: Machine) -> None:
    for name, path, number in _numbers(machine, ""):
        low = 0 if name in ZERO_ALLOWED or path in ZERO_ALLOWED else 1e-9
        if not low <= number < float("inf"):
            raise MachineError(
                f"{path} is {number}",
                where=f"{machine.name}: {path}",
                expected="a number of at least 0" if low == 0 else "a number above 0",
                remedy="correct the figure in the description",
            )


def _check_choice(machine: str, path: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise MachineError(
            f"{path} is {value!r}",
            where=f"{machine}: {path}",
            expected="one of " + ", ".join(allowed),
            remedy="choose one of these",
        )


def _check_caches(machine: Machine) -> None:
    for path, cache in (("llc", machine.llc), ("core.fetch", machine.core.fetch)):
        if cache.kib * 1024 % cache.line_bytes or cache.line_bytes % 8:
            raise MachineError(
                f"a cache of {cache.kib} KiB has no whole number of lines of {cache.line_bytes} bytes",
                where=f"{machine.name}: {path}",
                expected="a line of whole instructions or words that divides the size",
                remedy="give a power of two, for example 64",
            )
    if machine.llc.kib and not machine.llc.bytes_per_cycle:
        raise MachineError(
            "a last-level cache without bandwidth",
            where=f"{machine.name}: llc.bytes_per_cycle",
            expected="bytes per cycle above 0",
            remedy="give the cache's bandwidth, or leave llc out",
        )


def _check_reach(machine: str, path: str, size: int) -> None:
    if size > MOST_BYTES:
        raise MachineError(
            f"{size} bytes cannot be addressed",
            where=f"{machine}: {path}",
            expected=f"at most {MOST_BYTES} bytes in one memory: an address has {OFFSET_BITS} bits of offset",
            remedy="make it smaller",
        )


def _check_memory(machine: str, path: str, pad: Scratchpad | SharedMemory) -> None:
    if pad.bytes % pad.banks:
        fitting = [n for n in range(1, 2 * pad.banks) if pad.bytes % n == 0]
        near = min(fitting, key=lambda n: abs(n - pad.banks))
        raise MachineError(
            f"{pad.kib} KiB cannot be split into {pad.banks} equal banks",
            where=f"{machine}: {path}",
            expected="a bank count that divides the size",
            remedy=f"use {near} banks, or another size",
        )
    if pad.reserved_kib > pad.kib:
        raise MachineError(
            f"{pad.reserved_kib} KiB are reserved in a memory of {pad.kib} KiB",
            where=f"{machine}: {path}.reserved_kib",
            expected=f"at most {pad.kib}",
            remedy="reserve less, or 0 to keep the stack in LDRAM",
        )


def _check_present(machine: Machine) -> None:
    core = machine.core
    needed = {"core.nram": core.nram, "core.wram": core.wram}
    for path, pad in needed.items():
        if pad.kib == 0 or pad.bytes_per_cycle == 0:
            raise MachineError(
                f"{path} has no size or no bandwidth",
                where=f"{machine.name}: {path}",
                expected="kib and bytes_per_cycle above 0",
                remedy="give both figures",
            )
    if machine.sram.kib and not (machine.sram.bytes_per_cycle and machine.sram.bus_bytes_per_cycle):
        raise MachineError(
            "the SRAM has no bandwidth",
            where=f"{machine.name}: sram",
            expected="bytes_per_cycle and bus_bytes_per_cycle above 0",
            remedy="give both figures",
        )
    for path, rate in (
        ("core.vfu", core.vfu.bytes_per_cycle),
        ("core.io_dma", core.io_dma.bytes_per_cycle),
        ("core.move_dma", core.move_dma.bytes_per_cycle),
    ):
        if rate == 0:
            raise MachineError(
                f"{path} moves no bytes",
                where=f"{machine.name}: {path}.bytes_per_cycle",
                expected="a number above 0",
                remedy="give the bytes the unit takes per cycle",
            )


def _check_matrix_unit(machine: str, mfu: MatrixUnit) -> None:
    where = f"{machine}: core.mfu.macs_per_cycle"
    _check_choice(machine, "core.mfu.geometry", mfu.geometry, GEOMETRIES)
    if not mfu.macs_per_cycle:
        raise MachineError(
            "the matrix unit has no rate for any number format",
            where=where,
            expected="at least one of " + ", ".join(RATE_FORMATS),
            remedy="write for example macs_per_cycle: {int8: 4096}",
        )
    for name, rate in mfu.macs_per_cycle.items():
        if name not in RATE_FORMATS:
            raise MachineError(
                f"the rate {rate} belongs to no number format: {name!r}",
                where=where,
                expected="one of " + ", ".join(RATE_FORMATS),
                remedy="name the format of the rate",
            )
        if type(rate) is not int or rate < 1:
            raise MachineError(
                f"the rate of {name} is {rate!r}",
                where=where,
                expected="whole multiply-accumulates per cycle, at least 1",
                remedy="leave the format out if the unit does not have it",
            )
    if mfu.weight_buffers not in (1, 2):
        raise MachineError(
            f"{mfu.weight_buffers} weight buffers",
            where=f"{machine}: core.mfu.weight_buffers",
            expected="1 (load, then compute) or 2 (load behind the computation)",
            remedy="choose 1 or 2",
        )


def _check_clusters(machine: Machine) -> None:
    if machine.clusters % machine.chips:
        raise MachineError(
            f"{machine.clusters} clusters do not spread evenly over {machine.chips} chips",
            where=f"{machine.name}: clusters",
            expected="a multiple of the chips",
            remedy="clusters counts the whole part, not one chip",
        )
    if machine.memory_core and not machine.sram.kib:
        raise MachineError(
            "a memory core needs an SRAM to work on",
            where=f"{machine.name}: memory_core",
            expected="sram.kib above 0",
            remedy="give the cluster an SRAM, or no memory core",
        )
    if machine.cores_per_cluster > 127 or machine.clusters > 254:
        raise MachineError(
            f"{machine.clusters} clusters of {machine.cores_per_cluster} cores cannot be addressed",
            where=f"{machine.name}: clusters",
            expected="at most 254 clusters of 127 cores",
            remedy="describe a smaller part",
        )


def _check_noc(machine: str, noc: Noc, clusters: int) -> None:
    _check_choice(machine, "noc.kind", noc.kind, NOC_KINDS)
    if noc.kind in ("mesh", "torus") and places(noc) != clusters:
        raise MachineError(
            f"a {noc.kind} of shape {list(noc.shape)} has {places(noc)} places for {clusters} clusters",
            where=f"{machine}: noc.shape",
            expected=f"extents whose product is {clusters}",
            remedy="correct the shape or the number of clusters",
        )
    for link in noc.links:
        if not all(0 <= end < clusters for end in link):
            raise MachineError(
                f"the link {list(link)} leads to no cluster",
                where=f"{machine}: noc.links",
                expected=f"pairs of cluster numbers from 0 to {clusters - 1}",
                remedy="correct the pair",
            )
    for place in noc.dram_at:
        if not 0 <= place < clusters:
            raise MachineError(
                f"DRAM is attached beside cluster {place}, which is not there",
                where=f"{machine}: noc.dram_at",
                expected=f"cluster numbers from 0 to {clusters - 1}",
                remedy="correct the number, or leave dram_at out",
            )
    lost = unreachable(noc, clusters)
    if lost:
        names = ", ".join(map(str, lost))
        raise MachineError(
            f"no way leads from cluster 0 to cluster {names}",
            where=f"{machine}: noc",
            expected="a network that connects every cluster",
            remedy="choose ring, mesh or torus, or add the missing links",
        )
    if noc.kind != "none" and not noc.link_bytes_per_cycle:
        raise MachineError(
            "the links of the network carry nothing",
            where=f"{machine}: noc.link_bytes_per_cycle",
            expected="bytes per cycle above 0",
            remedy="give the width of a link",
        )
