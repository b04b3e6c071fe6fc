"""The flat 64-bit address space: a byte of memory space, a byte of cluster, a byte of core, forty bits of
offset.

Cluster and core 0 mean "my own"; other values name cluster or core number + 1. GDRAM is space 0, so a plain
number is a DRAM address.
"""

from __future__ import annotations

from trilobite.processor.isa.row import ACC, CODE, GDRAM, LDRAM, NRAM, SRAM, WRAM

SPACE_SHIFT, CLUSTER_SHIFT, CORE_SHIFT = 56, 48, 40
OFFSET_MASK = (1 << CORE_SHIFT) - 1
SPACES = {0: GDRAM, 1: LDRAM, 2: NRAM, 3: WRAM, 4: SRAM, 5: ACC, 6: CODE}
NUMBERS = {letter: number for number, letter in SPACES.items()}
NAMES = {GDRAM: "gdram", LDRAM: "ldram", NRAM: "nram", WRAM: "wram", SRAM: "sram", ACC: "acc", CODE: "code"}
LETTERS = {name: letter for letter, name in NAMES.items()}


def address(space: str, offset: int, cluster: int | None = None, core: int | None = None) -> int:
    """The address of a byte; without cluster and core, in the memory of whoever uses it."""
    place = 0 if cluster is None else cluster + 1
    inner = 0 if core is None else core + 1
    return NUMBERS[space] << SPACE_SHIFT | place << CLUSTER_SHIFT | inner << CORE_SHIFT | offset


def split(value: int) -> tuple[str | None, int, int, int]:
    """(space letter or None, cluster + 1, core + 1, offset)"""
    space = SPACES.get(value >> SPACE_SHIFT & 0xFF)
    return space, value >> CLUSTER_SHIFT & 0xFF, value >> CORE_SHIFT & 0xFF, value & OFFSET_MASK


def address_text(value: int) -> str:
    """For messages: nram+0x40, or core 3's nram+0x40."""
    space, cluster, core, offset = split(value)
    if space is None:
        return f"{value:#x}"
    owner = (f"cluster {cluster - 1} " if cluster else "") + (f"core {core - 1} " if core else "")
    return f"{owner}{NAMES[space]}+{offset:#x}"
