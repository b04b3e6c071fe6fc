"""Where buffers lie: offsets in each memory, shared by buffers that are never needed at the same time.

Enters: a function's buffers, which of them are live together, a machine. Leaves: an offset for each buffer,
or a `KernelError` that says which memory overflows, by how much, and which declarations fill it.

A buffer is live where a path leads from its first touch to a use without passing its `begin`. Buffers of an
asynchronous copy and buffers in SRAM keep their place for the whole kernel: their bytes are in use while the
program text has already gone on, or by another core.

Buffers that may lie `anywhere` fill the whole NRAM or SRAM: the stack keeps what its frame needs, and goes to
LDRAM if even that is gone.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trilobite.base.errors import KernelError
from trilobite.processor.lang.ir import Buffer
from trilobite.processor.lang.types import STACK
from trilobite.processor.machine import Machine, load_machine
from trilobite.processor.machine.description import PARTS

LDRAM_ROOM = 1 << 25
FAR_STACK = 1 << 24  # what a frame may take where the stack lies in LDRAM
SPILLS = 8 << 10  # what registers that have no place may take of a frame
POOL = "pool"  # of a layout: what NRAM and WRAM take together where they are one memory
SPACES = ("nram", "wram", "sram", "ldram", "acc", STACK)


class ScratchpadOverflow(KernelError):
    """The buffers of a kernel do not fit into a memory of the machine."""


@dataclass(frozen=True)
class Layout:
    """Offset of every buffer, and how much of each memory is used."""

    offsets: Mapping[Buffer, int]
    sizes: Mapping[str, int]
    far_stack: bool = False  # the frame does not fit into NRAM beside the buffers and lies in LDRAM


def room_of(machine: Machine, space: str) -> int:
    """Bytes of a memory that buffers may fill; the rest is the stack's."""
    core = machine.core
    return {
        "nram": (core.nram.kib - core.nram.reserved_kib) * 1024,
        "wram": core.wram.bytes,
        "sram": (machine.sram.kib - machine.sram.reserved_kib) * 1024,
        "acc": core.acc.bytes,
        "ldram": LDRAM_ROOM,
        STACK: FAR_STACK,
    }[space]


def limit_of(machine: Machine, space: str, buffers: Iterable[Buffer]) -> int:
    """What these buffers may fill of a memory: all of NRAM or SRAM, if they may lie in the stack's part."""
    whole = {"nram": machine.core.nram.bytes, "sram": machine.sram.bytes}
    if space in whole and all(buffer.anywhere for buffer in buffers):
        return whole[space]
    return room_of(machine, space)


def reserve_text(machine: Machine, sizes: Mapping[str, int], frame: int, is_far: bool) -> str:
    """What a kernel that fills more of SRAM than the part leaves it should know, else nothing."""
    used, kept = sizes.get("sram", 0), machine.sram.reserved_kib
    if used <= room_of(machine, "sram"):
        return ""
    left = machine.sram.bytes - used
    where = "the stack lies in LDRAM" if is_far else f"{left} bytes of it are left, a frame takes {frame}"
    whose = f"the {kept} KiB that {machine.name} keeps for the memory core's stack"
    return f"warning: sram goes into {whose}: {where}"


def place(
    buffers: Iterable[Buffer], machine: Machine, together: Mapping[Buffer, set[Buffer]] | None = None
) -> Layout:
    """First fit, large buffers first. Without `together` no two buffers share a byte. Buffers with a place
    of their own keep it, whatever else lies there, and the others stay clear of them, but for handed ones."""
    wanted = list(buffers)
    offsets = {buffer: buffer.offset for buffer in wanted if buffer.offset is not None}
    fixed = frozenset(offsets)
    kept = {buffer for buffer in fixed if not buffer.handed}  # whose places are nobody else's
    sizes: dict[str, int] = {}
    for space in SPACES:
        mine = [buffer for buffer in wanted if buffer.space == space]
        turn = {buffer: number for number, buffer in enumerate(mine)}
        placed = sorted((offsets[b], turn[b], b) for b in mine if b in fixed)  # as they lie
        for buffer in sorted((b for b in mine if b not in fixed), key=lambda b: -b.bytes):
            near = offsets if together is None else together[buffer]
            others = ((at, b) for at, _, b in placed if b in near or b in kept)
            offsets[buffer] = _fit(buffer, others)
            insort(placed, (offsets[buffer], turn[buffer], buffer))
        sizes[space] = max((offsets[b] + b.bytes for b in mine), default=0)
        if sizes[space] > limit_of(machine, space, mine):
            raise _overflow(machine, space, sizes[space], mine, offsets)
    if machine.core.pool_kib:
        sizes[POOL] = _pooled(wanted, offsets, together, machine)
    return Layout(offsets, sizes, _is_far(machine, sizes))


def _pooled(
    buffers: list[Buffer],
    offsets: Mapping[Buffer, int],
    together: Mapping[Buffer, set[Buffer]] | None,
    machine: Machine,
) -> int:
    """Bytes that are needed at one time of the memory that NRAM and WRAM are parts of: one grows from its
    beginning, the other from its end."""
    pool = machine.core.pool_kib * 1024
    ends = {
        space: {b: offsets[b] + b.bytes for b in buffers if b.space == space} for space in ("nram", "wram")
    }
    alone = max((end for mine in ends.values() for end in mine.values()), default=0)
    most, first, second = alone, 0, 0
    for a, near in ends["nram"].items():
        for b, far in ends["wram"].items():
            if near + far > most and (together is None or b in together[a] or a in together[b]):
                most, first, second = near + far, near, far
    if most > pool:
        raise ScratchpadOverflow(
            f"the pool overflows by {most - pool} bytes: the kernel needs {first} of NRAM and "
            f"{second} of WRAM at one time, {machine.name} has {pool} for both",
            expected=f"buffers of at most {pool} bytes in nram and wram together",
            remedy="use smaller tiles, fewer pipeline slots, or a machine with more",
        )
    return most


def _is_far(machine: Machine, sizes: Mapping[str, int]) -> bool:
    nram, frame = machine.core.nram, sizes[STACK]
    if not nram.reserved_kib:
        return False  # it always is, and the machine says so
    needed = frame + SPILLS
    no_sram = sizes["sram"] > room_of(machine, "sram") and sizes["sram"] + needed > machine.sram.bytes
    return frame > nram.reserved_kib * 512 or sizes["nram"] + needed > nram.bytes or no_sram


def _fit(buffer: Buffer, others: Iterable[tuple[int, Buffer]]) -> int:
    """The first gap between the others, which come as they lie."""
    at = 0
    for first, other in others:
        if at + buffer.bytes <= first:
            break
        at = max(at, first + other.bytes)
        at = -(-at // buffer.align) * buffer.align
    return at


def _overflow(
    machine: Machine, space: str, needed: int, mine: list[Buffer], offsets: Mapping[Buffer, int]
) -> KernelError:
    room = limit_of(machine, space, mine)
    over = [b for b in mine if offsets[b] + b.bytes > room]
    first = min(over, key=lambda b: (b.location.file, b.location.line, b.location.column))
    largest = sorted(mine, key=lambda b: -b.bytes)[:6]
    listing = ", ".join(f"{b.name} {b.bytes} bytes ({b.location})" for b in largest)
    larger = [
        name for name in PARTS if name != machine.name and _holds(load_machine(name), space, needed, mine)
    ]
    more = f": {', '.join(larger)}" if larger else ""
    return ScratchpadOverflow(
        f"{space} overflows by {needed - room} bytes: the kernel needs {needed}, {machine.name} has {room}",
        where=first.location,
        expected=f"buffers of at most {room} bytes in {space} at any one time; the largest: {listing}",
        remedy=f"use smaller tiles, fewer pipeline slots, or a machine with more{more}",
    )


def _holds(machine: Machine, space: str, needed: int, mine: list[Buffer]) -> bool:
    return needed <= limit_of(machine, space, mine)
