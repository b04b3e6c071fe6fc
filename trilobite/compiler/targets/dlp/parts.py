"""What a network is made of while its entry is written: places of values, calls, and the whole."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from trilobite.base.locations import Location
from trilobite.compiler.targets.dlp.interfaces import LoweredGroup, Place
from trilobite.compiler.targets.dlp.layouts import Order
from trilobite.ir.graph import Graph, Var
from trilobite.processor.lang.ir import KernelModule, Value
from trilobite.processor.lang.ir import Location as SourceLine
from trilobite.processor.machine import Machine

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class At:
    """Where a value lies: a known place, or a pointer that the entry computes (an element of a sequence)."""

    place: Place | None
    pointer: Value | None = None


@dataclass(frozen=True)
class Packed:
    """A weight that is laid out once, when it comes to the device, in the order that its readers want."""

    input: int
    order: Order


@dataclass
class Called:
    """One call of a group in the entry, for reports."""

    number: int
    group: LoweredGroup
    name: str
    primitives: tuple[str, ...]
    location: Location


@dataclass
class Network:
    """What is compiled and loaded."""

    module: KernelModule
    machine: Machine
    cores: int
    arena: int
    arguments: int  # pointers behind the arena's in the table: results, inputs, then the constants' block
    constants: tuple[Array | Packed, ...]
    offsets: tuple[int, ...]  # of the constants in the block that is loaded with the program, whose address
    kept: int  # is the table's last word; bytes of that block
    calls: list[Called]
    largest: tuple[tuple[int, str], ...] = ()  # values in the arena by size, for errors


def bytes_of(v: Var) -> int:
    return prod(int(n) for n in v.type.shape) * v.type.dtype.itemsize


def reads_of(graph: Graph) -> dict[Var, int]:
    """How often each value of a graph is read."""
    found: dict[Var, int] = {}
    for e in graph.equations:
        for v in (*e.inputs, *e.outputs):
            found.setdefault(v, 0)
        for v in e.inputs:
            found[v] += 1
    return found


def line_of(location: Location) -> SourceLine:
    """Where the user wrote it, for instructions."""
    return SourceLine(str(getattr(location, "file", "") or "<graph>"), int(getattr(location, "line", 0) or 0))
