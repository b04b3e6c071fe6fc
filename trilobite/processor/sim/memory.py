"""The memories of a chip, and typed access to regions of them with every check that makes a fault precise.

Enters: regions named by addresses. Leaves: arrays, or a `MemoryFault` that says what was wrong. Off-chip
memory is reserved lazily by the operating system, so a 16 GiB part costs only the pages that a program
touches.
"""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_right, insort
from dataclasses import dataclass
from math import prod

import numpy as np

from trilobite.base.errors import DeviceError
from trilobite.processor.isa.address import NAMES, address_text, split
from trilobite.processor.isa.formats import I4, Array, pack, unpack
from trilobite.processor.isa.row import ACC, CODE, GDRAM, LDRAM, NRAM, SRAM, WRAM, Region
from trilobite.processor.machine import Machine

NULL_PAGE = 64  # addresses 0 to 63 of DRAM belong to nobody, so that null pointers are seen
LDRAM_BYTES = 64 << 20
MEMORY_CORE = 0x80


class MemoryFault(Exception):
    """An access that no memory allows."""


@dataclass(frozen=True, slots=True)
class Place:
    """Who is asking: a compute core, or with `core` = 0x80 the cluster's memory core."""

    cluster: int
    core: int

    @property
    def is_memory_core(self) -> bool:
        return self.core == MEMORY_CORE


# Linux's number; Python names it from 3.13 on.
_NO_RESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


def lazy_bytes(size: int) -> Array:
    """Zeroed memory of which only touched pages are real. The system sets nothing aside for it: otherwise a
    process with more of it than there is memory could not fork.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)


class Memory:
    """Every memory of one part. Scratchpads keep their bytes from launch to launch, as hardware does."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.gdram = self._made(GDRAM, machine.dram.gib << 30)
        self.code = np.zeros(0, np.uint8)
        self.aligned = True  # whether the program's elements lie at multiples of their size
        self.blocks: list[tuple[int, int]] = []  # allocated DRAM, sorted (start, end)
        self.unwritten: dict[int, Array] = {}  # blocks nobody filled yet, by their start: 1 per written byte
        self._pads: dict[tuple[str, int, int], Array] = {}

    def allow(self, start: int, size: int) -> None:
        """Makes a block of GDRAM accessible to programs."""
        insort(self.blocks, (start, start + size))

    def forbid(self, start: int, size: int) -> None:
        self.blocks.remove((start, start + size))
        self.unwritten.pop(start, None)

    def pad(self, space: str, cluster: int, core: int) -> Array:
        """The bytes of one on-chip memory or LDRAM, made when first touched."""
        key = (space, cluster, 0 if space == SRAM else core)
        found = self._pads.get(key)
        if found is None:
            found = self._pads[key] = self._made(space, self.size(space))
        return found

    def _made(self, space: str, size: int) -> Array:
        try:
            return lazy_bytes(size) if space in (GDRAM, LDRAM) else np.zeros(size, np.uint8)
        except (MemoryError, OSError) as error:
            raise DeviceError(
                f"there is no room for the {NAMES[space]} of {self.machine.name}: {size} bytes",
                expected="a machine whose memories the host can simulate",
                remedy="describe smaller memories",
            ) from error

    def size(self, space: str) -> int:
        core = self.machine.core
        sizes = {NRAM: core.nram.bytes, WRAM: core.wram.bytes, ACC: core.acc.bytes, LDRAM: LDRAM_BYTES,
                 SRAM: self.machine.sram.bytes, GDRAM: len(self.gdram), CODE: len(self.code)}  # fmt: skip
        return sizes[space]

    def locate(self, place: Place, address: int, low: int, high: int, spaces: str) -> tuple[Array, int]:
        """The backing bytes and offset of an address whose accesses reach from low to high around it."""
        space, cluster, core, offset = split(address)
        if space is None:
            raise MemoryFault(f"the address {address:#x} lies in no memory")
        if space not in spaces:
            wanted = " or ".join(NAMES[letter] for letter in spaces)
            raise MemoryFault(f"{address_text(address)} was given where an address in {wanted} is needed")
        first, last = offset + low, offset + high
        if space == GDRAM:
            self._check_dram(address, first, last)
            return self.gdram, offset
        if space == CODE:
            backing = self.code
        else:
            backing = self._on_chip(place, address, space, cluster, core)
        if first < 0 or last > len(backing):
            raise MemoryFault(
                f"{address_text(address)}: bytes {first} to {last} reach outside the {NAMES[space]}"
                f" of {len(backing)} bytes"
            )
        return backing, offset

    def _on_chip(self, place: Place, address: int, space: str, cluster: int, core: int) -> Array:
        where = cluster - 1 if cluster else place.cluster
        who = core - 1 if core else place.core
        if where >= self.machine.clusters or (core and who >= self.machine.cores_per_cluster):
            raise MemoryFault(f"{address_text(address)}: the part has no such cluster or core")
        if place.is_memory_core and space in (NRAM, WRAM, ACC) and not core:
            raise MemoryFault(f"the memory core has no {NAMES[space]}")
        if space != SRAM and where != place.cluster:
            raise MemoryFault(f"{address_text(address)}: another cluster's {NAMES[space]} cannot be reached")
        backing = self.pad(space, where, who)
        if len(backing) == 0:
            raise MemoryFault(f"{self.machine.name} has no {NAMES[space]}")
        return backing

    def _check_dram(self, address: int, first: int, last: int) -> None:
        at = bisect_right(self.blocks, (max(first, 0), 1 << 62)) - 1
        if at >= 0 and first >= 0:
            start, end = self.blocks[at]
            if start <= first and last <= end:
                return
        if 0 <= first < NULL_PAGE:
            raise MemoryFault(f"{address_text(address)} is a null pointer")
        near = f"; the block before it ends at {self.blocks[at][1]:#x}" if at >= 0 else ""
        raise MemoryFault(
            f"{address_text(address)}: bytes {first:#x} to {last:#x} are in no allocated block{near}"
        )

    def view(self, place: Place, region: Region) -> Array:
        """The region's bytes as a strided uint8 array of shape (*outer axes, bytes of the last axis)."""
        fmt = region.fmt
        if self.aligned and region.address % fmt.align:
            raise MemoryFault(
                f"{address_text(region.address)} is not aligned to the {fmt.align} bytes of {fmt}"
            )
        if len(region.shape) == 1:  # most regions: one contiguous piece
            size = fmt.bytes(region.shape[0])
            if size == 0:
                return np.zeros(0, np.uint8)
            backing, offset = self.locate(place, region.address, 0, size, region.spaces)
            return backing[offset : offset + size]
        row = fmt.bytes(region.shape[-1]) if fmt is not I4 else fmt.bytes(region.count)
        outer = region.shape[:-1] if fmt is not I4 else ()
        strides = region.strides[: len(outer)]
        reach = [(extent - 1) * stride for extent, stride in zip(outer, strides, strict=True)]
        low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + row
        if region.count == 0:
            return np.zeros((*outer, row), np.uint8)
        backing, offset = self.locate(place, region.address, low, high, region.spaces)
        if len(outer) == 0 or _is_dense(outer, strides, row):
            size = row * prod(outer)
            return backing[offset : offset + size].reshape(*outer, row)
        return np.ndarray((*outer, row), np.uint8, backing, offset, (*strides, 1))

    def read(self, place: Place, region: Region) -> Array:
        """The region as an array of its format and shape; a view of the memory where that is possible."""
        return typed(self.view(place, region), region)

    def write(self, place: Place, region: Region, values: Array) -> None:
        store(self.view(place, region), region, values)


def typed(raw: Array, region: Region) -> Array:
    """The bytes that `Memory.view` gave for the region, as elements; a view of them where possible."""
    flat = raw if raw.flags.c_contiguous else np.ascontiguousarray(raw)
    return unpack(region.fmt, flat.reshape(-1), region.count).reshape(region.shape)


def store(raw: Array, region: Region, values: Array) -> None:
    """Writes values to the bytes that `Memory.view` gave for the region."""
    raw[...] = pack(region.fmt, values).reshape(raw.shape)


def _is_dense(outer: tuple[int, ...], strides: tuple[int, ...], row: int) -> bool:
    expected = row
    for extent, stride in zip(reversed(outer), reversed(strides), strict=True):
        if stride != expected:
            return False
        expected *= extent
    return True
