"""Programs on disk: a process that runs what an earlier one has compiled begins with the program.

Enters: a graph and its options. Leaves: a `ProgramStore` of the programs of that graph, under keys of all
that decides them: the content of the graph, the options, the machine, what tuning found, the compiler's own
files. A program that is missing, damaged or of another compiler is made anew by whoever asked for it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trilobite.base.collection import uncollected
from trilobite.base.errors import DataError
from trilobite.compiler.graph.fingerprint import fingerprint
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.program.program import Program
from trilobite.compiler.program.program_file import decode, encode
from trilobite.compiler.targets.cpu.kernel import pack, unpack
from trilobite.ir.graph import Graph
from trilobite.native import sources
from trilobite.native.disk import Cache, directory, shared
from trilobite.native.host import features

LARGEST = 16 << 20  # bytes of a program worth keeping; what is larger holds constants of a user's
_ROOMS = (
    "base", "ir", "native", "compiler/graph", "compiler/program", "compiler/targets/cpu"
)  # whose files decide what a graph becomes  # fmt: skip


class Pack(NamedTuple):
    """An input that is read in panels alone: the output of the weights' part, and how it is packed."""

    input: int
    output: int
    name: str
    attributes: dict[str, int]


class Division(NamedTuple):
    """Is what depends on weights alone a part of its own; which inputs it takes, and which the rest; how many
    results it has, and which of them are packed weights.
    """

    two: bool = False
    stable: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    outputs: int = 0
    packs: tuple[Pack, ...] = ()


class ProgramStore:
    """The programs of one graph."""

    def __init__(self, key: str, cache: Cache) -> None:
        self.key, self.cache = key, cache

    def program(self, part: int, sizes: Sequence[int]) -> Program | None:
        found = self.cache.get(self._name("program", part, *sizes))
        try:
            with uncollected():
                return None if found is None else decode(found, unpack)
        except DataError:  # whole, but of another format: made anew, and replaced
            return None

    def keep(self, part: int, sizes: Sequence[int], program: Program) -> None:
        encoded = encode(program, pack)
        if encoded is not None and len(encoded) <= LARGEST:
            self.cache.put(self._name("program", part, *sizes), encoded)
            self.cache.trim()

    def division(self) -> Division | None:
        found = self.cache.get(self._name("division"))
        if found is None:
            return None
        two, stable, kept, outputs, packs = json.loads(found)
        return Division(two, tuple(stable), tuple(kept), outputs, tuple(Pack(*p) for p in packs))

    def keep_division(self, division: Division) -> None:
        self.cache.put(self._name("division"), json.dumps(division).encode())

    def _name(self, *what: object) -> str:
        return hashlib.sha256(f"{self.key} {what}".encode()).hexdigest()


def store_of(graph: Graph, options: Options) -> ProgramStore | None:
    """None for a graph that is like no other, or where nothing can be kept."""
    cache = shared("programs")
    known = facts()
    if cache.place is None or known is None:
        return None
    with uncollected():
        content = fingerprint(graph)
    if content is None:
        return None
    lines = [content, known, *_chosen(options)]
    return ProgramStore(hashlib.sha256("\n".join(lines).encode()).hexdigest(), cache)


def facts() -> str | None:
    """All that decides programs besides graph and options."""
    circumstances = _circumstances()
    return None if circumstances is None else f"{circumstances}\n{_tuning()}"


def _chosen(options: Options) -> Iterator[str]:
    for name, value in zip(options._fields, options, strict=True):
        if not callable(value):
            yield f"{name} {sorted(value) if isinstance(value, frozenset) else value!r}"


def _circumstances() -> str | None:
    """The machine and the compiler: every file of it by its content, so that no change goes unnoticed."""
    files = sources.digest(_ROOMS)
    return None if files is None else f"{features()!r}\n{files}"


def _tuning() -> str:
    """The state of the machine's database: parameters never change a result, but they change programs."""
    place = directory()
    try:
        facts = os.stat(place / "tuning" / f"{features().name}.json") if place is not None else None
    except OSError:
        facts = None
    return "untuned" if facts is None else f"tuned {facts.st_size} {facts.st_mtime_ns}"
